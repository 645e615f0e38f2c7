/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdio.h>

#include "aggregate/store.h"
#include "base/clock.h"

void qn_store_init(struct qn_store *s, struct event_base *base, const char *dsn, const char *application)
{
    s->conn = qn_pgconn_new(base, dsn, application, QN_STORE_STATEMENT_MS);
    s->arena = qn_arena_new(1 << 20);
    s->until = INT64_MAX;
}

void qn_store_clear(struct qn_store *s)
{
    qn_pgconn_free(s->conn);
    qn_arena_free(s->arena);
}

static int64_t deadline_of(const struct qn_store *s)
{
    int64_t deadline = qn_clock_mono_ms() + QN_STORE_STATEMENT_MS;
    return deadline < s->until ? deadline : s->until;
}

enum qn_err qn_store_connect(struct qn_store *s, const struct qn_stmt *stmts, size_t n, int connect_ms)
{
    return qn_pgconn_run_connect(s->conn, stmts, n, qn_clock_mono_ms() + connect_ms);
}

void qn_store_close(struct qn_store *s)
{
    qn_pgconn_close(s->conn);
}

bool qn_store_connected(const struct qn_store *s)
{
    return qn_pgconn_state(s->conn) == QN_PG_IDLE;
}

enum qn_err qn_store_run(struct qn_store *s, const char *sql, int nparams, const struct qn_str *params,
                         struct qn_rows *rows)
{
    qn_arena_reset(s->arena);
    return qn_pgconn_run(s->conn, sql, nparams, params, deadline_of(s), rows ? s->arena : NULL, rows);
}

enum qn_err qn_store_run_prepared(struct qn_store *s, const struct qn_query *query, struct qn_arena *arena,
                                  struct qn_rows *rows)
{
    return qn_pgconn_run_stmt(s->conn, query->stmt, query->params, deadline_of(s), arena, rows);
}

enum qn_err qn_store_fetch(struct qn_store *s, const char *cursor, int n, struct qn_rows *rows)
{
    char sql[80];
    snprintf(sql, sizeof sql, "FETCH FORWARD %d FROM %s", n, cursor);
    return qn_store_run(s, sql, 0, NULL, rows);
}

enum qn_err qn_store_i64(const struct qn_rows *rows, size_t row, size_t col, int64_t *out)
{
    struct qn_str digits = qn_rows_cell(rows, row, col);
    bool negative = digits.n > 0 && digits.p[0] == '-';
    if (negative)
        digits = (struct qn_str){digits.p + 1, digits.n - 1};
    uint64_t v;
    if (!digits.p || qn_str_u64(digits, INT64_MAX, &v) != QN_OK)
        return QN_ECORRUPT;
    *out = negative ? -(int64_t)v : (int64_t)v;
    return QN_OK;
}

enum qn_err qn_store_i64_or(const struct qn_rows *rows, size_t row, size_t col, int64_t null, int64_t *out)
{
    if (qn_rows_cell(rows, row, col).p)
        return qn_store_i64(rows, row, col, out);
    *out = null;
    return QN_OK;
}

bool qn_store_bool(const struct qn_rows *rows, size_t row, size_t col)
{
    return qn_str_eq(qn_rows_cell(rows, row, col), QN_STR("t"));
}
