/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/ids.h"

#include "base/clock.h"
#include "base/when.h"

enum { STATEMENT_MS = 120 * 1000 }; /* a partition waits for transactions of others */

static enum qn_err run(struct qn_pgconn *pg, struct qn_arena *arena, const char *sql, int n, const struct qn_str *params,
                       struct qn_rows *rows)
{
    return qn_pgconn_run(pg, sql, n, params, qn_clock_mono_ms() + STATEMENT_MS, arena, rows);
}

/* One number, or QN_MISS when there is no row. */
static enum qn_err number(struct qn_pgconn *pg, struct qn_arena *arena, const char *sql, int n,
                          const struct qn_str *params, uint64_t max, uint64_t *out)
{
    struct qn_rows rows;
    enum qn_err err = run(pg, arena, sql, n, params, &rows);
    if (err)
        return err;
    if (rows.nrows == 0)
        return QN_MISS;
    return qn_str_u64(qn_rows_cell(&rows, 0, 0), max, out) ? QN_ECORRUPT : QN_OK;
}

/* Looks, and only if there is nothing makes it and looks again: an INSERT … ON CONFLICT uses a number up each time. */
static enum qn_err find_or_make(struct qn_pgconn *pg, struct qn_arena *arena, const char *find, const char *const *make,
                                size_t n_make, int n, const struct qn_str *params, uint64_t max, uint64_t *out)
{
    enum qn_err err = number(pg, arena, find, n, params, max, out);
    if (err != QN_MISS)
        return err;
    for (size_t i = 0; i < n_make; i++) {
        err = run(pg, arena, make[i], n, params, NULL);
        if (err)
            return err;
    }
    err = number(pg, arena, find, n, params, max, out);
    return err == QN_MISS ? QN_ECORRUPT : err;
}

enum qn_err qn_ids_source(struct qn_pgconn *pg, struct qn_arena *arena, struct qn_str name, int16_t *id)
{
    static const char *const make[] = {"INSERT INTO sources (name) VALUES ($1) ON CONFLICT DO NOTHING"};
    qn_arena_reset(arena);
    struct qn_str params[] = {qn_arena_copy(arena, name)};
    uint64_t v;
    enum qn_err err = find_or_make(pg, arena, "SELECT id FROM sources WHERE name = $1", make, QN_LEN(make),
                                   QN_LEN(params), params, INT16_MAX, &v);
    if (!err)
        *id = (int16_t)v;
    return err;
}

enum qn_err qn_ids_pair(struct qn_pgconn *pg, struct qn_arena *arena, const struct qn_asset *base,
                        const struct qn_asset *quote, int32_t *id)
{
    /* In order, so that two processes that make the same assets can't deadlock. */
    static const char *const make[] = {
        "INSERT INTO assets (canonical) SELECT c FROM (VALUES ($1::text), ($2::text)) AS v (c) "
        "ORDER BY c COLLATE \"C\" ON CONFLICT DO NOTHING",
        "INSERT INTO pairs (base, quote) SELECT b.id, q.id FROM assets b, assets q "
        "WHERE b.canonical = $1 AND q.canonical = $2 ON CONFLICT DO NOTHING",
    };
    qn_arena_reset(arena);
    struct qn_str params[] = {qn_arena_copy(arena, qn_asset_str(base)), qn_arena_copy(arena, qn_asset_str(quote))};
    uint64_t v;
    enum qn_err err = find_or_make(pg, arena,
        "SELECT p.id FROM pairs p JOIN assets b ON b.id = p.base JOIN assets q ON q.id = p.quote "
        "WHERE b.canonical = $1 AND q.canonical = $2", make, QN_LEN(make), QN_LEN(params), params, INT32_MAX, &v);
    if (!err)
        *id = (int32_t)v;
    return err;
}

enum qn_err qn_ids_partition(struct qn_pgconn *pg, struct qn_arena *arena, int64_t ts_ms)
{
    qn_arena_reset(arena);
    struct qn_buf text = {.arena = arena};
    qn_when_put(&text, ts_ms);
    struct qn_str params[] = {qn_buf_view(&text)};
    return run(pg, arena, "SELECT trades_partition($1::timestamptz)", QN_LEN(params), params, NULL);
}
