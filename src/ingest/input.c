/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/loop.h"

struct qn_input {
    struct event_base *base;
    int fd;
    bool opened;           /* by us: to be closed */
    bool regular;
    struct event *event;   /* of a descriptor that can be waited for; else NULL: reading it doesn't block for long */
    struct event *timer;
    bool readable;
    uint64_t size;
    struct qn_lines *lines;
};

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    struct qn_input *in = arg;
    in->readable = (what & EV_READ) != 0;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg; /* it has woken the loop: that is all */
}

enum qn_err qn_input_open(struct event_base *base, const char *path, size_t max_line, struct qn_input **out)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return QN_EIO;
    struct stat st;
    int mode = fcntl(fd, F_GETFL);
    bool closed = mode >= 0 && (mode & O_ACCMODE) == O_WRONLY; /* what stands for a standard input that isn't there */
    if (closed || fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        int saved = closed ? EBADF : S_ISDIR(st.st_mode) ? EISDIR : errno;
        if (!standard)
            close(fd);
        errno = saved;
        return QN_EIO;
    }
    struct qn_input *in = qn_xcalloc(1, sizeof *in);
    in->base = base;
    in->fd = fd;
    in->opened = !standard;
    in->regular = S_ISREG(st.st_mode);
    in->size = in->regular ? (uint64_t)st.st_size : 0;
    if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd)))
        in->event = qn_loop_event(base, fd, EV_READ, on_event, in);
    in->timer = qn_loop_event(base, -1, 0, on_timer, in);
    in->lines = qn_lines_new(fd, max_line);
    *out = in;
    return QN_OK;
}

void qn_input_close(struct qn_input *in)
{
    if (!in)
        return;
    if (in->event)
        event_free(in->event);
    event_free(in->timer);
    qn_lines_free(in->lines);
    if (in->opened)
        close(in->fd);
    free(in);
}

struct qn_lines *qn_input_lines(struct qn_input *in)
{
    return in->lines;
}

uint64_t qn_input_size(const struct qn_input *in)
{
    return in->size;
}

bool qn_input_ends(const struct qn_input *in)
{
    return !in->regular;
}

static struct timeval interval(int64_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

void qn_input_pause(struct qn_input *in, int64_t wait_ms)
{
    struct timeval tv = interval(wait_ms);
    event_add(in->timer, &tv);
    event_base_loop(in->base, EVLOOP_ONCE);
    event_del(in->timer);
}

enum qn_err qn_input_more(struct qn_input *in, int64_t wait_ms)
{
    if (in->event) {
        struct timeval tv = interval(wait_ms);
        in->readable = false;
        event_add(in->event, wait_ms >= 0 ? &tv : NULL);
        event_base_loop(in->base, EVLOOP_ONCE);
        event_del(in->event);
        if (!in->readable)
            return QN_ETIMEOUT;
    }
    enum qn_err err = qn_lines_fill(in->lines);
    struct stat st;
    if (err == QN_MISS && in->regular && fstat(in->fd, &st) == 0) {
        off_t at = lseek(in->fd, 0, SEEK_CUR);
        if (at >= 0 && st.st_size < at)
            return QN_ECONFLICT;
    }
    return err;
}

enum qn_err qn_input_rewind(struct qn_input *in)
{
    if (lseek(in->fd, 0, SEEK_SET) < 0)
        return QN_EIO;
    qn_lines_reset(in->lines);
    return QN_OK;
}
