/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "fcgi/control.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fcgi/listen.h"

enum { BACKLOG = 128, LINE_MAX_BYTES = 64 };

struct client {
    int fd;                  /* -1: free */
    int64_t deadline;
    char line[LINE_MAX_BYTES];
    size_t n;
    struct qn_buf out;       /* the answer, once the line is there */
    size_t sent;
};

struct qn_control {
    struct qn_listener listener;
    qn_control_status status;
    void *arg;
    struct client clients[QN_CONTROL_CLIENTS];
};

enum qn_err qn_control_open(const char *path, qn_control_status status, void *arg, struct qn_control **out)
{
    struct qn_listener listener;
    enum qn_err err = qn_listen_unix(path, 0600, NULL, BACKLOG, &listener);
    if (err != QN_OK)
        return err;
    struct qn_control *c = qn_xcalloc(1, sizeof *c);
    c->listener = listener;
    c->status = status;
    c->arg = arg;
    for (size_t i = 0; i < QN_CONTROL_CLIENTS; i++)
        c->clients[i].fd = -1;
    *out = c;
    return QN_OK;
}

static void drop(struct client *cl)
{
    close(cl->fd);
    cl->fd = -1;
    qn_buf_free(&cl->out);
}

size_t qn_control_poll(const struct qn_control *c, struct pollfd *fds)
{
    size_t n = 0;
    bool room = false;
    for (size_t i = 0; i < QN_CONTROL_CLIENTS; i++) {
        const struct client *cl = &c->clients[i];
        if (cl->fd < 0) {
            room = true;
            continue;
        }
        fds[n++] = (struct pollfd){.fd = cl->fd, .events = cl->out.n ? POLLOUT : POLLIN};
    }
    if (room)
        fds[n++] = (struct pollfd){.fd = c->listener.fd, .events = POLLIN};
    return n;
}

static void send_rest(struct client *cl)
{
    while (cl->sent < cl->out.n) {
        ssize_t n = send(cl->fd, cl->out.p + cl->sent, cl->out.n - cl->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR)
                drop(cl);
            return;
        }
        cl->sent += (size_t)n;
    }
    drop(cl);
}

static void read_line(struct qn_control *c, struct client *cl)
{
    ssize_t n = recv(cl->fd, cl->line + cl->n, sizeof cl->line - cl->n, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(cl);
        return;
    }
    cl->n += (size_t)n;
    const char *end = memchr(cl->line, '\n', cl->n);
    if (!end && cl->n < sizeof cl->line)
        return;
    struct qn_str line = {cl->line, end ? (size_t)(end - cl->line) : cl->n};
    if (end && qn_str_eq(line, QN_STR("status")))
        c->status(c->arg, false, &cl->out);
    else if (end && qn_str_eq(line, QN_STR("status json")))
        c->status(c->arg, true, &cl->out);
    else
        qn_buf_puts(&cl->out, "error: unknown command\n");
    send_rest(cl);
}

static void accept_some(struct qn_control *c, int64_t now)
{
    for (size_t i = 0; i < QN_CONTROL_CLIENTS; i++) {
        struct client *cl = &c->clients[i];
        if (cl->fd >= 0)
            continue;
        int fd = accept4(c->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        *cl = (struct client){.fd = fd, .deadline = now + QN_CONTROL_MS};
    }
}

void qn_control_handle(struct qn_control *c, const struct pollfd *fds, size_t n, int64_t now)
{
    for (size_t f = 0; f < n; f++) {
        if (!fds[f].revents)
            continue;
        for (size_t i = 0; i < QN_CONTROL_CLIENTS; i++) {
            struct client *cl = &c->clients[i];
            if (cl->fd != fds[f].fd)
                continue;
            if (cl->out.n)
                send_rest(cl);
            else
                read_line(c, cl);
            break;
        }
    }
    for (size_t i = 0; i < QN_CONTROL_CLIENTS; i++)
        if (c->clients[i].fd >= 0 && c->clients[i].deadline <= now)
            drop(&c->clients[i]);
    /* last: a descriptor that was just closed may come back as a new client's */
    for (size_t f = 0; f < n; f++)
        if (fds[f].fd == c->listener.fd && fds[f].revents)
            accept_some(c, now);
}

int64_t qn_control_deadline(const struct qn_control *c)
{
    int64_t soonest = INT64_MAX;
    for (size_t i = 0; i < QN_CONTROL_CLIENTS; i++)
        if (c->clients[i].fd >= 0 && c->clients[i].deadline < soonest)
            soonest = c->clients[i].deadline;
    return soonest;
}

void qn_control_close(struct qn_control *c, bool child)
{
    if (!c)
        return;
    for (size_t i = 0; i < QN_CONTROL_CLIENTS; i++)
        if (c->clients[i].fd >= 0)
            drop(&c->clients[i]);
    if (!child)
        qn_listen_unlink(&c->listener);
    qn_listen_close(&c->listener);
    free(c);
}
