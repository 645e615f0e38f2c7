/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The aggregator's one connection to Postgres: statements one after the other, results read in pieces. The rows of a
 * call are valid until the next one. Any error means that the connection is to be thrown away (qn_store_close): what a
 * transaction had done is undone by that.
 */
#ifndef QN_AGGREGATE_STORE_H
#define QN_AGGREGATE_STORE_H

#include "link/pgconn.h"

enum {
    QN_STORE_STATEMENT_MS = 120000, /* a statement's deadline: bulk work, but never for ever */
    QN_STORE_FETCH = 4000,          /* rows of a piece */
};

struct qn_store {
    struct qn_pgconn *conn;
    struct qn_arena *arena;         /* the last call's rows */
    int64_t until;                  /* monotonic ms that no statement may pass; INT64_MAX: none */
};

void qn_store_init(struct qn_store *s, struct event_base *base, const char *dsn, const char *application);
void qn_store_clear(struct qn_store *s);
/* Connects, prepares stmts. connect_ms is its deadline. */
QN_MUST enum qn_err qn_store_connect(struct qn_store *s, const struct qn_stmt *stmts, size_t n, int connect_ms);
void qn_store_close(struct qn_store *s);
bool qn_store_connected(const struct qn_store *s);

/* One statement; rows may be NULL. Its parameters must not lie in an earlier call's rows. */
QN_MUST enum qn_err qn_store_run(struct qn_store *s, const char *sql, int nparams, const struct qn_str *params,
                                 struct qn_rows *rows);
/* A statement of those given to connect; rows into arena. */
QN_MUST enum qn_err qn_store_run_prepared(struct qn_store *s, const struct qn_query *query, struct qn_arena *arena,
                                          struct qn_rows *rows);
/* The next n rows at most of the cursor of that name, which a DECLARE opened. */
QN_MUST enum qn_err qn_store_fetch(struct qn_store *s, const char *cursor, int n, struct qn_rows *rows);

/* Cells of our own columns: QN_ECORRUPT when they aren't of the kind, which is a fault of ours or of the table. */
QN_MUST enum qn_err qn_store_i64(const struct qn_rows *rows, size_t row, size_t col, int64_t *out);
/* NULL gives `null`. */
QN_MUST enum qn_err qn_store_i64_or(const struct qn_rows *rows, size_t row, size_t col, int64_t null, int64_t *out);
/* 't' or 'f'; anything else is false. */
bool qn_store_bool(const struct qn_rows *rows, size_t row, size_t col);

#endif
