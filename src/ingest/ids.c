/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/ids.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/when.h"
#include "ingest/map.h"

enum {
    STATEMENT_MS = 120 * 1000, /* a partition waits for transactions of others */
    MAX_MARKETS = 65536,       /* names remembered */
    ARENA_SIZE = 4096,
};

struct qn_ids {
    const struct qn_config *config;
    struct qn_pgconn *pg;
    struct qn_arena *arena;
    struct qn_map *markets;       /* name of qn_ids_market -> pair_id << 1 | flip */
    int64_t month_from, month_to; /* of the partition that was made sure of last */
};

struct qn_ids *qn_ids_new(const struct qn_config *config, struct qn_pgconn *pg)
{
    struct qn_ids *ids = qn_xcalloc(1, sizeof *ids);
    ids->config = config;
    ids->pg = pg;
    ids->arena = qn_arena_new(ARENA_SIZE);
    ids->markets = qn_map_new(MAX_MARKETS);
    return ids;
}

void qn_ids_free(struct qn_ids *ids)
{
    if (!ids)
        return;
    qn_map_free(ids->markets);
    qn_arena_free(ids->arena);
    free(ids);
}

static enum qn_err run(struct qn_ids *ids, const char *sql, int n, const struct qn_str *params, struct qn_rows *rows)
{
    return qn_pgconn_run(ids->pg, sql, n, params, qn_clock_mono_ms() + STATEMENT_MS, ids->arena, rows);
}

/* One number, or QN_MISS when there is no row. */
static enum qn_err number(struct qn_ids *ids, const char *sql, int n, const struct qn_str *params, uint64_t max,
                          uint64_t *out)
{
    struct qn_rows rows;
    enum qn_err err = run(ids, sql, n, params, &rows);
    if (err)
        return err;
    if (rows.nrows == 0)
        return QN_MISS;
    return qn_str_u64(qn_rows_cell(&rows, 0, 0), max, out) ? QN_ECORRUPT : QN_OK;
}

/* What is looked for by the same parameters as it is made. */
struct name {
    const char *find;
    const char *make[2]; /* in turn; the second may be NULL */
    int nparams;
    uint64_t max;
};

/* Looks, and only if there is nothing makes it and looks again: an INSERT … ON CONFLICT uses a number up each time. */
static enum qn_err find_or_make(struct qn_ids *ids, const struct name *name, const struct qn_str *params, uint64_t *out)
{
    enum qn_err err = number(ids, name->find, name->nparams, params, name->max, out);
    if (err != QN_MISS)
        return err;
    for (size_t i = 0; i < QN_LEN(name->make) && name->make[i]; i++) {
        err = run(ids, name->make[i], name->nparams, params, NULL);
        if (err)
            return err;
    }
    err = number(ids, name->find, name->nparams, params, name->max, out);
    return err == QN_MISS ? QN_ECORRUPT : err;
}

enum qn_err qn_ids_source(struct qn_ids *ids, struct qn_str name, int16_t *id)
{
    static const struct name source = {"SELECT id FROM sources WHERE name = $1",
                                       {"INSERT INTO sources (name) VALUES ($1) ON CONFLICT DO NOTHING"}, 1, INT16_MAX};
    qn_arena_reset(ids->arena);
    struct qn_str params[] = {qn_arena_copy(ids->arena, name)};
    uint64_t v;
    enum qn_err err = find_or_make(ids, &source, params, &v);
    if (!err)
        *id = (int16_t)v;
    return err;
}

enum qn_err qn_ids_find(struct qn_ids *ids, struct qn_str base, struct qn_str quote, struct qn_ids_market *m,
                        const char **why)
{
    m->n = 0;
    m->pair_id = 0;
    if (base.n + 1 + quote.n <= sizeof m->name) {
        memcpy(m->name, base.p, base.n);
        m->name[base.n] = '\n'; /* in no name of an asset */
        memcpy(m->name + base.n + 1, quote.p, quote.n);
        m->n = base.n + 1 + quote.n;
        int64_t value;
        if (qn_map_get(ids->markets, (struct qn_str){m->name, m->n}, &value) == QN_OK) {
            m->flip = value & 1;
            m->pair_id = (int32_t)(value >> 1);
            return QN_OK;
        }
    }
    if (qn_trade_market_read(ids->config, base, quote, &m->sides, why))
        return QN_EINVAL;
    m->flip = m->sides.flip;
    return QN_OK;
}

enum qn_err qn_ids_number(struct qn_ids *ids, struct qn_ids_market *m)
{
    static const struct name pair = {
        "SELECT p.id FROM pairs p JOIN assets b ON b.id = p.base JOIN assets q ON q.id = p.quote "
        "WHERE b.canonical = $1 AND q.canonical = $2",
        /* Assets in order, so that two processes that make the same ones can't deadlock. */
        {"INSERT INTO assets (canonical) SELECT c FROM (VALUES ($1::text), ($2::text)) AS v (c) "
         "ORDER BY c COLLATE \"C\" ON CONFLICT DO NOTHING",
         "INSERT INTO pairs (base, quote) SELECT b.id, q.id FROM assets b, assets q "
         "WHERE b.canonical = $1 AND q.canonical = $2 ON CONFLICT DO NOTHING"}, 2, INT32_MAX};
    if (m->pair_id)
        return QN_OK;
    qn_arena_reset(ids->arena);
    struct qn_str params[] = {qn_arena_copy(ids->arena, qn_asset_str(&m->sides.base)),
                              qn_arena_copy(ids->arena, qn_asset_str(&m->sides.quote))};
    uint64_t v;
    enum qn_err err = find_or_make(ids, &pair, params, &v);
    if (err)
        return err;
    m->pair_id = (int32_t)v;
    if (m->n)
        qn_map_put(ids->markets, (struct qn_str){m->name, m->n}, (int64_t)m->pair_id << 1 | m->flip);
    return QN_OK;
}

enum qn_err qn_ids_partition(struct qn_ids *ids, int64_t ts_ms)
{
    if (ts_ms >= ids->month_from && ts_ms < ids->month_to)
        return QN_OK;
    qn_arena_reset(ids->arena);
    struct qn_buf text = {.arena = ids->arena};
    qn_when_put(&text, ts_ms);
    struct qn_str params[] = {qn_buf_view(&text)};
    enum qn_err err = run(ids, "SELECT trades_partition($1::timestamptz)", QN_LEN(params), params, NULL);
    if (!err) {
        ids->month_from = qn_grain_start(QN_1MO, ts_ms);
        ids->month_to = qn_grain_end(QN_1MO, ts_ms);
    }
    return err;
}
