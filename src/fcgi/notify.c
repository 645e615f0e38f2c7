/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "fcgi/notify.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

char *qn_notify_take(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    char *copy = path && *path ? qn_xstrndup(path, strlen(path)) : NULL;
    unsetenv("NOTIFY_SOCKET");
    return copy;
}

void qn_notify_send(const char *path, const char *message)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (!path)
        return;
    size_t n = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || n >= sizeof sa.sun_path) {
        qn_log_warn("notify-failed", QN_F_Z("error", "NOTIFY_SOCKET is not an address"));
        return;
    }
    memcpy(sa.sun_path, path, n);
    if (path[0] == '@')
        sa.sun_path[0] = '\0'; /* the abstract namespace: no NUL at the end */
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&sa, len) < 0)
        qn_log_warn("notify-failed", QN_F_ERRNO(errno));
    if (fd >= 0)
        close(fd);
}
