/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One FastCGI connection at a time through libfcgi; the only file that touches FCGX is fcgi_conn.c. Accept is ours: the
 * library's own parks a worker on a kept connection, spins on a non-blocking listener, retries the wrong errors, and
 * lingers 2 s on close. A connection serves one request and is closed, whatever the peer asked for.
 */
#ifndef QN_FCGI_FCGI_CONN_H
#define QN_FCGI_FCGI_CONN_H

#include "base/arena.h"
#include "web/request.h"

struct qn_fcgi;

/* Once a process, after fork: sets the library up (it takes SIGPIPE, SIGUSR1 and SIGTERM: the caller's dispositions
 * come after) and SIGALRM, by which a connection is cut at its deadline wherever it blocks. QN_EIO. */
QN_MUST enum qn_err qn_fcgi_init(void);

/* receive_ms bounds each single read and write; max_body is what a request's body may have. */
struct qn_fcgi *qn_fcgi_new(int receive_ms, size_t max_body);
void qn_fcgi_free(struct qn_fcgi *c);

/* What the web server sent. Names and values are borrowed from the connection until qn_fcgi_end. */
struct qn_fcgi_request {
    const struct qn_param *vars;   /* in arena */
    size_t n_vars;
    struct qn_str body;            /* in arena */
    bool body_too_large;           /* then body is empty */
};

/* Reads one whole request from fd, which must be readable, and is the connection's from here on. budget_ms: all of
 * reading, answering and writing; past it the connection is cut. QN_ETIMEOUT: the peer was silent for receive_ms or
 * the budget is spent; QN_ECANCEL: it closed or reset the connection, or gave the request up; QN_EPEER: it broke the
 * protocol or asked for a role that we don't have. After any of these the connection is closed; end is called all the
 * same. */
QN_MUST enum qn_err qn_fcgi_begin(struct qn_fcgi *c, int fd, int budget_ms, struct qn_arena *arena,
                                  struct qn_fcgi_request *out);
/* Sends the whole response and the end of the request. QN_ECANCEL: the peer is gone or doesn't take it. */
QN_MUST enum qn_err qn_fcgi_write(struct qn_fcgi *c, struct qn_str response);
/* Frees all that belongs to the request and closes. On every path after begin. */
void qn_fcgi_end(struct qn_fcgi *c);

#endif
