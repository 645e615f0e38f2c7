/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The master's control socket: a client sends one line (`status` or `status json`), gets the answer and the end of the
 * connection. It works when all workers are busy, which is when it is needed. Nothing here blocks: a bounded number of
 * clients, each with a deadline; the others wait in the kernel's queue.
 */
#ifndef QN_FCGI_CONTROL_H
#define QN_FCGI_CONTROL_H

#include <poll.h>

#include "base/buf.h"

enum {
    QN_CONTROL_CLIENTS = 8,
    QN_CONTROL_FDS = QN_CONTROL_CLIENTS + 1,
    QN_CONTROL_MS = 1000,    /* a client's deadline */
};

struct qn_control;

typedef void (*qn_control_status)(void *arg, bool json, struct qn_buf *out);

/* Listens on path, for its owner only (mode 0600). Errors as qn_listen_unix. */
QN_MUST enum qn_err qn_control_open(const char *path, qn_control_status status, void *arg, struct qn_control **out);
/* What to poll: at most QN_CONTROL_FDS entries; returns their count. */
size_t qn_control_poll(const struct qn_control *c, struct pollfd *fds);
/* After the poll, with the same entries (revents set), and when a deadline passed. */
void qn_control_handle(struct qn_control *c, const struct pollfd *fds, size_t n, int64_t now);
/* The soonest deadline of a client, INT64_MAX if there is none. */
int64_t qn_control_deadline(const struct qn_control *c);
/* Closes all and removes the socket file; in a forked child (`child`) only closes. NULL is no-op. */
void qn_control_close(struct qn_control *c, bool child);

#endif
