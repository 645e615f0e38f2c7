/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "fcgi/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

enum { LISTEN_FDS_START = 3 };

static enum qn_err refuse(enum qn_err err, const char *what, const char *why)
{
    qn_log_error("listen-refused", QN_F_Z("socket", what), QN_F_Z("error", why));
    return err;
}

static enum qn_err failed(const char *what, const char *call)
{
    int e = errno;
    qn_log_error("listen-failed", QN_F_Z("socket", what), QN_F_Z("call", call), QN_F_ERRNO(e));
    return QN_EIO;
}

static bool is_listening(int fd)
{
    int on = 0;
    socklen_t n = sizeof on;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) == 0 && on;
}

/* An address as IPv6, IPv4 mapped. */
static bool parse_peer(const char *text, struct in6_addr *out)
{
    struct in_addr v4;
    if (inet_pton(AF_INET6, text, out) == 1)
        return true;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    memset(out, 0, sizeof *out);
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &v4, sizeof v4);
    return true;
}

static enum qn_err read_peers(const struct qn_config_pool *pool, const char *what, struct qn_listener *l)
{
    if (pool->n_allow_peers == 0)
        return refuse(QN_EINVAL, what, "a TCP listener needs allow_peers: FastCGI peers are trusted");
    l->peers = qn_xcalloc(pool->n_allow_peers, sizeof *l->peers);
    for (size_t i = 0; i < pool->n_allow_peers; i++) {
        if (!parse_peer(pool->allow_peers[i], &l->peers[i]))
            return refuse(QN_EINVAL, pool->allow_peers[i], "allow_peers: not an IP address");
        l->n_peers++;
    }
    return QN_OK;
}

bool qn_listen_allows(const struct qn_listener *l, const struct sockaddr *peer)
{
    if (!l->tcp)
        return true;
    struct in6_addr addr;
    if (peer->sa_family == AF_INET6) {
        memcpy(&addr, &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr, sizeof addr);
    } else if (peer->sa_family == AF_INET) {
        memset(&addr, 0, sizeof addr);
        addr.s6_addr[10] = addr.s6_addr[11] = 0xff;
        memcpy(&addr.s6_addr[12], &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
    } else {
        return false;
    }
    for (size_t i = 0; i < l->n_peers; i++)
        if (memcmp(&l->peers[i], &addr, sizeof addr) == 0)
            return true;
    return false;
}

static void warn_backlog(int backlog)
{
    FILE *f = fopen("/proc/sys/net/core/somaxconn", "re");
    int max;
    if (!f)
        return;
    if (fscanf(f, "%d", &max) == 1 && backlog > max)
        qn_log_warn("backlog-cut", QN_F_INT("backlog", backlog), QN_F_INT("somaxconn", max));
    fclose(f);
}

/* Whether the file at path is a socket that nobody listens on any more. QN_ECONFLICT: somebody does; QN_EINVAL: it is
 * something else than a socket; QN_MISS: no such file. */
static enum qn_err check_stale(const char *path, const struct sockaddr_un *sa)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? QN_MISS : failed(path, "stat");
    if (!S_ISSOCK(st.st_mode))
        return refuse(QN_EINVAL, path, "the file exists and is not a socket");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return failed(path, "socket");
    int refused = connect(fd, (const struct sockaddr *)sa, sizeof *sa) != 0 ? errno : 0;
    close(fd);
    if (refused == ENOENT)
        return QN_MISS;
    /* connected, or its queue is full (EAGAIN), or not ours to try (EACCES): not proven dead */
    if (refused != ECONNREFUSED)
        return refuse(QN_ECONFLICT, path, "in use: another server listens on it");
    return QN_OK;
}

/* Binds and listens under a lock on the directory, so that of two starts at once only one replaces a dead server's
 * file: a socket that is bound and does not listen yet looks like a dead one. */
static enum qn_err bind_locked(int fd, const char *path, const struct sockaddr_un *sa, int backlog)
{
    char *copy = qn_xstrndup(path, strlen(path));
    int dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (dir < 0)
        return failed(path, "open directory");
    enum qn_err err = QN_OK;
    if (flock(dir, LOCK_EX) != 0) {
        err = failed(path, "flock");
        goto out;
    }
    err = check_stale(path, sa);
    if (err == QN_OK && unlink(path) != 0) {
        err = failed(path, "unlink");
        goto out;
    }
    if (err != QN_OK && err != QN_MISS)
        goto out;
    /* the narrowest mode until the group is set; the caller widens it */
    mode_t old = umask(0177);
    err = bind(fd, (const struct sockaddr *)sa, sizeof *sa) != 0 ? failed(path, "bind") : QN_OK;
    umask(old);
    if (err == QN_OK && listen(fd, backlog) != 0) {
        err = failed(path, "listen");
        unlink(path);
    }
out:
    close(dir);
    return err;
}

static enum qn_err set_owner(const char *path, unsigned mode, const char *group)
{
    if (group) {
        const struct group *g = getgrnam(group);
        if (!g)
            return refuse(QN_EINVAL, path, "socket_group: no such group");
        if (chown(path, (uid_t)-1, g->gr_gid) != 0)
            return failed(path, "chown");
    }
    return chmod(path, mode) != 0 ? failed(path, "chmod") : QN_OK;
}

enum qn_err qn_listen_unix(const char *path, unsigned mode, const char *group, int backlog, struct qn_listener *out)
{
    struct qn_listener l = {.fd = -1};
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct stat st;
    size_t n = strlen(path);
    if (n >= sizeof sa.sun_path)
        return refuse(QN_EINVAL, path, "a socket's path has at most 107 bytes");
    memcpy(sa.sun_path, path, n);

    l.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l.fd < 0)
        return failed(path, "socket");
    enum qn_err err = bind_locked(l.fd, path, &sa, backlog);
    if (err != QN_OK)
        goto fail;
    l.path = qn_xstrndup(path, n);
    if (stat(path, &st) != 0) {
        err = failed(path, "stat");
        goto fail;
    }
    l.dev = st.st_dev;
    l.ino = st.st_ino;
    err = set_owner(path, mode, group);
    if (err != QN_OK)
        goto fail;
    warn_backlog(backlog);
    *out = l;
    return QN_OK;
fail:
    qn_listen_unlink(&l);
    qn_listen_close(&l);
    return err;
}

/* "127.0.0.1:9000", "[::1]:9000". */
static bool parse_address(const char *text, struct sockaddr_storage *out, socklen_t *len)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    char host[INET6_ADDRSTRLEN];
    memset(out, 0, sizeof *out);
    if (!colon || qn_str_u64(qn_str_of(colon + 1), 65535, &port) != QN_OK || port == 0)
        return false;
    bool v6 = text[0] == '[';
    if (v6 && (colon - text < 2 || colon[-1] != ']'))
        return false;
    const char *from = v6 ? text + 1 : text;
    size_t n = (size_t)(colon - from) - (v6 ? 1 : 0);
    if (n == 0 || n >= sizeof host)
        return false;
    memcpy(host, from, n);
    host[n] = '\0';
    if (v6) {
        struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        if (inet_pton(AF_INET6, host, &sa.sin6_addr) != 1)
            return false;
        memcpy(out, &sa, sizeof sa);
        *len = sizeof sa;
        return true;
    }
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &sa.sin_addr) != 1)
        return false;
    memcpy(out, &sa, sizeof sa);
    *len = sizeof sa;
    return true;
}

static enum qn_err listen_tcp(const struct qn_config_pool *pool, struct qn_listener *l)
{
    struct sockaddr_storage sa;
    socklen_t len;
    int on = 1;
    if (!parse_address(pool->listen, &sa, &len))
        return refuse(QN_EINVAL, pool->listen, "listen: not IP:PORT");
    enum qn_err err = read_peers(pool, pool->listen, l);
    if (err != QN_OK)
        return err;
    l->tcp = true;
    l->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return failed(pool->listen, "socket");
    /* a restart must not wait for the last server's connections in TIME_WAIT */
    if (setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        return failed(pool->listen, "setsockopt");
    if (bind(l->fd, (const struct sockaddr *)&sa, len) != 0)
        return errno == EADDRINUSE ? refuse(QN_ECONFLICT, pool->listen, "in use: another server listens on it")
                                   : failed(pool->listen, "bind");
    if (listen(l->fd, pool->backlog) != 0)
        return failed(pool->listen, "listen");
    warn_backlog(pool->backlog);
    return QN_OK;
}

/* The descriptor that the service manager passed, or -1 when it passed none; QN_EINVAL: not one that we can use. */
static enum qn_err passed_fd(int *fd)
{
    const char *pid = getenv("LISTEN_PID");
    const char *fds = getenv("LISTEN_FDS");
    uint64_t p = 0;
    uint64_t n = 0;
    enum qn_err err = QN_OK;
    *fd = -1;
    if (pid && fds && qn_str_u64(qn_str_of(pid), UINT32_MAX, &p) == QN_OK && p == (uint64_t)getpid()) {
        if (qn_str_u64(qn_str_of(fds), 1, &n) != QN_OK || n != 1)
            err = refuse(QN_EINVAL, "LISTEN_FDS", "exactly one socket is expected");
        else if (!is_listening(LISTEN_FDS_START))
            err = refuse(QN_EINVAL, "LISTEN_FDS", "fd 3 is not a listening socket");
        else
            *fd = LISTEN_FDS_START;
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return err;
}

/* Takes a socket that somebody else made. Its blocking mode is whatever its maker liked: ours must not block in accept
 * when a sibling was faster. */
static enum qn_err adopt(const struct qn_config_pool *pool, int fd, const char *what, struct qn_listener *l)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;
    l->fd = fd;
    if (fd == STDIN_FILENO) {
        /* the socket moves, so that closing it never leaves fd 0 to whatever is opened next */
        l->fd = fcntl(fd, F_DUPFD_CLOEXEC, LISTEN_FDS_START);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (l->fd < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0)
            return failed(what, "dup");
        close(null);
        fd = l->fd;
    }
    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        return failed(what, "getsockname");
    l->tcp = sa.ss_family != AF_UNIX;
    int fl = fcntl(fd, F_GETFL);
    if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return failed(what, "fcntl");
    return l->tcp ? read_peers(pool, what, l) : QN_OK;
}

enum qn_err qn_listen_open(const struct qn_config_pool *pool, bool adopt_only, struct qn_listener *out)
{
    struct qn_listener l = {.fd = -1};
    int fd;
    enum qn_err err = passed_fd(&fd);
    if (err != QN_OK)
        return err;
    if (fd >= 0)
        err = adopt(pool, fd, "LISTEN_FDS", &l);
    else if (is_listening(STDIN_FILENO))
        err = adopt(pool, STDIN_FILENO, "fd 0", &l);
    else if (adopt_only)
        return refuse(QN_MISS, "fd 0", "not a listening socket: --worker needs one (spawn-fcgi, multiwatch, systemd)");
    else if (pool->socket)
        return qn_listen_unix(pool->socket, pool->socket_mode, pool->socket_group, pool->backlog, out);
    else if (pool->listen)
        err = listen_tcp(pool, &l);
    else
        return refuse(QN_EINVAL, "pool", "neither socket nor listen is configured, and no socket was handed over");
    if (err != QN_OK) {
        qn_listen_close(&l);
        return err;
    }
    *out = l;
    return QN_OK;
}

void qn_listen_unlink(struct qn_listener *l)
{
    struct stat st;
    if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
        unlink(l->path);
    free(l->path);
    l->path = NULL;
}

bool qn_listen_unlinked(const struct qn_listener *l)
{
    struct stat st;
    return l->path && (lstat(l->path, &st) != 0 || st.st_dev != l->dev || st.st_ino != l->ino);
}

void qn_listen_close(struct qn_listener *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    free(l->peers);
    l->peers = NULL;
    l->n_peers = 0;
    free(l->path);
    l->path = NULL;
}
