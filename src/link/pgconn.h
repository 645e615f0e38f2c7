/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One non-blocking Postgres connection on a libevent loop: connect, query, COPY, each with a deadline. A connection
 * that saw an error of its own, a timeout or a half-read result is closed, never reused. Only files src/link/pg*.c
 * touch libpq. Every connection: client_encoding UTF8, TimeZone UTC, statement_timeout, application_name.
 */
#ifndef QN_LINK_PGCONN_H
#define QN_LINK_PGCONN_H

#include <event2/event.h>

#include "base/arena.h"
#include "base/config.h"
#include "link/command.h"

struct qn_pgconn;

/* What a finished step hands over, from the loop; the callback may start the next step or free the connection.
 * err: QN_OK; QN_EPEER: the server refused (sqlstate and message say why; the connection lives on unless the class is
 * 08, 57P, 25006 or the server calls the error FATAL); QN_ETIMEOUT, QN_EUNAVAIL: the connection is dead (message says
 * why). rows are valid until the callback returns, message until the next step. */
struct qn_pgresult {
    enum qn_err err;
    char sqlstate[6];
    const char *message;   /* first line, for logs only; never shown to a client */
    struct qn_rows rows;
};
typedef void (*qn_pgconn_cb)(void *arg, const struct qn_pgresult *result);

/* Whether a step failed because the server can't be used now (no connection, or SQLSTATE classes 08, 53, 57P, 58 and
 * 25006: going, full, broken, read-only), and not because what it was asked is wrong. */
bool qn_pg_gone(enum qn_err err, const char *sqlstate);

/* dsn (a libpq keyword/value string or URI) is copied; what it says of keepalives, tcp_user_timeout and
 * application_name holds. A host name in it is resolved blocking: use an address or a socket. statement_ms is the
 * server's own statement_timeout for this connection (0: none). */
struct qn_pgconn *qn_pgconn_new(struct event_base *base, const char *dsn, const char *application, int statement_ms);
void qn_pgconn_free(struct qn_pgconn *c); /* closes; NULL is a no-op */
enum qn_pgconn_state { QN_PG_CLOSED, QN_PG_CONNECTING, QN_PG_IDLE, QN_PG_BUSY, QN_PG_COPY_IN };
/* An idle connection that the server closes becomes CLOSED when the loop turns, or at its next step. */
enum qn_pgconn_state qn_pgconn_state(const struct qn_pgconn *c);
/* Whether a transaction is open (or failed and not rolled back). */
bool qn_pgconn_in_transaction(const struct qn_pgconn *c);

/* Whether a NOTIFY has come on a channel that this session LISTENs to, since it was last asked. One that comes while the
 * connection is idle turns the loop. */
bool qn_pgconn_notified(struct qn_pgconn *c);

/* Connects and prepares stmts (n may be 0): SELECT, INSERT, UPDATE, DELETE or MERGE. Only from CLOSED. Where a
 * statement can't be prepared: QN_EPEER, and CLOSED again. */
void qn_pgconn_connect(struct qn_pgconn *c, const struct qn_stmt *stmts, size_t n, int64_t deadline, qn_pgconn_cb cb,
                       void *arg);
/* Runs one statement with text parameters, prepared (by name) or not. From IDLE; from CLOSED it is QN_EUNAVAIL. A
 * parameter that holds a NUL is QN_EPEER with 22021, as text that is not UTF-8 is. q and its text are done with on
 * return. */
void qn_pgconn_query(struct qn_pgconn *c, const struct qn_query *q, bool prepared, int64_t deadline, qn_pgconn_cb cb,
                     void *arg);
/* COPY … FROM STDIN whole: sql, then the bytes of data (text format), then the end. data must live until the callback;
 * it is sent as fast as the server takes it, so several connections of one loop copy in parallel. rows.affected counts
 * the rows. From IDLE; from CLOSED it is QN_EUNAVAIL. */
void qn_pgconn_copy(struct qn_pgconn *c, const char *sql, struct qn_str data, int64_t deadline, qn_pgconn_cb cb,
                    void *arg);
/* Closes the socket; a step under way gets QN_ECANCEL, from within. */
void qn_pgconn_close(struct qn_pgconn *c);

/* ---- one thing at a time, for daemons and tools: each turns the loop until done (never call one from a callback of
 * the loop). deadline is monotonic ms. They return the err of qn_pgresult. ---- */

QN_MUST enum qn_err qn_pgconn_run_connect(struct qn_pgconn *c, const struct qn_stmt *stmts, size_t n, int64_t deadline);
/* sql with nparams text parameters; rows copied into arena (NULL: not wanted). On QN_EPEER, qn_pgconn_sqlstate and
 * qn_pgconn_message say why until the next step. */
QN_MUST enum qn_err qn_pgconn_run(struct qn_pgconn *c, const char *sql, int nparams, const struct qn_str *params,
                                  int64_t deadline, struct qn_arena *arena, struct qn_rows *rows);
/* A statement of the table given to run_connect, by name. */
QN_MUST enum qn_err qn_pgconn_run_stmt(struct qn_pgconn *c, const struct qn_stmt *stmt, const struct qn_str *params,
                                       int64_t deadline, struct qn_arena *arena, struct qn_rows *rows);
/* Several statements without parameters in one string (a migration). */
QN_MUST enum qn_err qn_pgconn_run_script(struct qn_pgconn *c, const char *sql, int64_t deadline);
/* COPY … FROM STDIN whole: sql, then the bytes of data (text format), then the end. rows.affected of it into *count. */
QN_MUST enum qn_err qn_pgconn_run_copy(struct qn_pgconn *c, const char *sql, struct qn_str data, int64_t deadline,
                                       int64_t *count);
const char *qn_pgconn_sqlstate(const struct qn_pgconn *c);
const char *qn_pgconn_message(const struct qn_pgconn *c);

/* The text form of a Postgres array of `n` items in arena: every item quoted and escaped, p == NULL is NULL. */
struct qn_str qn_pg_array(struct qn_arena *arena, const struct qn_str *items, size_t n);

#endif
