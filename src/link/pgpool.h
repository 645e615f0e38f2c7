/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * A worker's bounded set of Postgres connections: opened on first need, kept, reopened after loss; statements prepared
 * on connect and again after loss (or sent whole each time where prepare is off, behind a transaction-pooling
 * PgBouncer). Read-only use: a statement that fails because the plan or the prepared name is gone (26000, 0A000), the
 * server is going (57P01) or a kept connection was closed is retried once on a new connection, within the same
 * deadline. Breaker as for Redis, but a statement that the server itself cancelled as too slow (57014) is QN_ETIMEOUT
 * and leaves it closed.
 */
#ifndef QN_LINK_PGPOOL_H
#define QN_LINK_PGPOOL_H

#include "link/breaker.h"
#include "link/pgconn.h"

struct qn_pgpool;
struct qn_pgcall;

/* Made after fork. stmts must outlive the pool. connections: at most this many (>= 1). */
struct qn_pgpool *qn_pgpool_new(struct event_base *base, const struct qn_config_postgres *config,
                                const struct qn_stmt *stmts, size_t n_stmts, int connections);
/* Calls that are out get QN_ECANCEL. Not from within a callback. NULL is a no-op. */
void qn_pgpool_free(struct qn_pgpool *p);

/* The callback runs exactly once, never from within query: result.err QN_OK with rows, QN_ETIMEOUT, QN_EUNAVAIL (also
 * with classes 08, 53, 57P, 58 and 25006), QN_EPEER (the statement itself is refused), QN_ECANCEL. Parameters are copied.
 * QN_EUNAVAIL from here: refused at once (breaker open, queue of 1000 full), no callback. The sooner of deadline and
 * now + statement_ms (+ connect_ms when it has to connect) holds. */
QN_MUST enum qn_err qn_pgpool_query(struct qn_pgpool *p, const struct qn_query *q, int64_t deadline, qn_pgconn_cb cb,
                                    void *arg, struct qn_pgcall **call);
/* Gives a call up: its callback won't run. */
void qn_pgpool_abandon(struct qn_pgcall *call);
const struct qn_breaker *qn_pgpool_breaker(const struct qn_pgpool *p);

#endif
