/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "aggregate/progress.h"
#include "base/clock.h"
#include "base/log.h"

enum { DAY_MS = 86400000, MAX_FOLLOWS = 256 };

struct qn_progress_was {
    int64_t closed_until;
    bool alive;
    bool followed;             /* by a pair */
    char name[33];
};

void qn_progress_clear(struct qn_progress *p)
{
    free(p->sources);
    free(p->was);
    qn_columns_clear(&p->hold);
    qn_columns_clear(&p->release);
    qn_columns_clear(&p->join);
    memset(p, 0, sizeof *p);
}

/* NULL for what isn't finite; ms else. */
#define MS(column) "CASE WHEN isfinite(" column ") THEN (extract(epoch FROM " column ") * 1000)::int8 END"

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static enum qn_err load_sources(struct qn_progress *p, struct qn_store *store)
{
    static const char SQL[] =
        "SELECT f.source_id, " MS("f.watermark") ", " MS("f.seen_at") ", " MS("f.closed_until") ", f.alive, s.name,"
        " EXISTS (SELECT FROM pair_followed x WHERE x.source_id = f.source_id),"
        " (extract(epoch FROM clock_timestamp()) * 1000)::int8"
        " FROM progress f LEFT JOIN sources s ON s.id = f.source_id ORDER BY f.source_id";
    struct qn_rows rows;
    enum qn_err err = qn_store_run(store, SQL, 0, NULL, &rows);
    if (err != QN_OK)
        return err;
    if (rows.nrows == 0)
        return QN_ECORRUPT;
    p->sources = qn_xcalloc(rows.nrows, sizeof *p->sources);
    p->was = qn_xcalloc(rows.nrows, sizeof *p->was);
    for (size_t i = 0; i < rows.nrows; i++) {
        struct qn_horizon_source s;
        int64_t id;
        if (qn_store_i64(&rows, i, 0, &id) != QN_OK ||
            qn_store_i64_or(&rows, i, 1, QN_HORIZON_NEVER, &s.watermark) != QN_OK ||
            qn_store_i64_or(&rows, i, 2, QN_HORIZON_NEVER, &s.seen_at) != QN_OK ||
            qn_store_i64_or(&rows, i, 3, QN_HORIZON_NEVER, &s.closed_until) != QN_OK || (i == 0) != (id == 0))
            return QN_ECORRUPT;
        if (id == 0) {
            p->clock.closed_until = p->was_clock = s.closed_until;
            if (qn_store_i64(&rows, i, 7, &p->store_now) != QN_OK)
                return QN_ECORRUPT;
            continue;
        }
        s.id = (int16_t)id;
        s.alive = qn_store_bool(&rows, i, 4);
        struct qn_progress_was *was = &p->was[p->n];
        struct qn_str name = qn_rows_cell(&rows, i, 5);
        was->closed_until = s.closed_until;
        was->alive = s.alive;
        was->followed = qn_store_bool(&rows, i, 6);
        if (name.n < sizeof was->name)
            memcpy(was->name, name.p ? name.p : "", name.n);
        p->sources[p->n++] = s;
    }
    return QN_OK;
}

/* The least horizon that any pair can have had, as far as held_until goes. */
static enum qn_err load_open_from(struct qn_progress *p, struct qn_store *store)
{
    struct qn_rows rows;
    enum qn_err err = qn_store_run(store, "SELECT count(*), " MS("min(held_until)") " FROM pairs"
                                   " WHERE held_until IS NOT NULL", 0, NULL, &rows);
    int64_t held = 0, least = INT64_MAX;
    if (err == QN_OK)
        err = qn_store_i64(&rows, 0, 0, &held);
    if (err == QN_OK && held > 0)
        err = qn_store_i64_or(&rows, 0, 1, QN_HORIZON_NEVER, &least);
    p->open_from = lesser(least, p->was_clock);
    for (size_t i = 0; i < p->n; i++)
        if (p->was[i].followed)
            p->open_from = lesser(p->open_from, p->was[i].closed_until);
    return err;
}

static const struct qn_horizon_source *find(const struct qn_progress *p, int64_t id)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->sources[i].id == id)
            return &p->sources[i];
    return NULL;
}

/* Decides on the pair whose rows are [from, to). */
static enum qn_err decide_pair(struct qn_progress *p, const struct qn_rows *rows, size_t from, size_t to)
{
    struct qn_horizon_pair pair = {.held = false};
    int64_t id;
    if (qn_store_i64(rows, from, 0, &id) != QN_OK ||
        qn_store_i64_or(rows, from, 3, QN_HORIZON_NEVER, &pair.horizon) != QN_OK ||
        qn_store_i64_or(rows, from, 5, QN_HORIZON_NEVER, &pair.held_until) != QN_OK)
        return QN_ECORRUPT;
    pair.held = qn_store_bool(rows, from, 4);
    pair.fresh = qn_store_bool(rows, from, 6);
    const struct qn_horizon_pair was = pair;
    const struct qn_horizon_source *follows[MAX_FOLLOWS];
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        int64_t source_id;
        if (qn_store_i64(rows, i, 1, &source_id) != QN_OK)
            return QN_ECORRUPT;
        const struct qn_horizon_source *source = find(p, source_id);
        if (!source || n == MAX_FOLLOWS) /* new in the table since it was read; or more than anybody follows */
            continue;
        if (!qn_store_bool(rows, i, 2)) {
            if (!qn_horizon_joins(&p->clock, &pair, source))
                continue;
            qn_columns_int(&p->join, 0, id);
            qn_columns_int(&p->join, 1, source_id);
        }
        follows[n++] = source;
    }
    qn_horizon_hold(&p->clock, &pair, follows, n);
    if (pair.held && (!was.held || pair.held_until != was.held_until)) {
        qn_columns_int(&p->hold, 0, id);
        if (pair.held_until == QN_HORIZON_NEVER)
            qn_buf_puts(qn_columns_item(&p->hold, 1), "NULL");
        else
            qn_columns_int(&p->hold, 1, pair.held_until / 1000);
    } else if (!pair.held && was.held) {
        qn_columns_int(&p->release, 0, id);
    }
    return QN_OK;
}

/* Pairs that are held, that follow a silent source, or that one traded within a day which they don't follow yet. */
static enum qn_err decide_pairs(struct qn_progress *p, struct qn_store *store)
{
    static const char SQL[] =
        "WITH links AS MATERIALIZED ("
        " SELECT pair_id, source_id, true AS followed FROM pair_followed"
        " UNION ALL SELECT ps.pair_id, ps.source_id, false FROM progress f"
        "  JOIN pair_sources ps ON ps.source_id = f.source_id"
        "  WHERE f.source_id > 0 AND ps.last_ts >= to_timestamp($1::int8) AND NOT EXISTS (SELECT FROM pair_followed x"
        "   WHERE x.pair_id = ps.pair_id AND x.source_id = ps.source_id)"
        "), concerned AS MATERIALIZED ("
        " SELECT pair_id FROM links WHERE NOT followed OR source_id = ANY ($2::int2[])"
        " UNION SELECT id FROM pairs WHERE held_until IS NOT NULL)"
        " SELECT p.id, l.source_id, l.followed, " MS("h.h") ", p.held_until IS NOT NULL, " MS("p.held_until") ","
        "  NOT EXISTS (SELECT FROM candles c WHERE c.pair_id = p.id)"
        " FROM concerned k JOIN pairs p ON p.id = k.pair_id CROSS JOIN LATERAL (SELECT horizon(p.id) AS h OFFSET 0) h"
        " JOIN links l ON l.pair_id = p.id ORDER BY p.id, l.source_id";
    struct qn_columns silent = {0};
    for (size_t i = 0; i < p->n; i++)
        if (!p->sources[i].alive)
            qn_columns_int(&silent, 0, p->sources[i].id);
    struct qn_buf day = {0};
    qn_buf_i64(&day, (p->clock.closed_until - DAY_MS) / 1000);
    struct qn_str params[2] = {qn_buf_view(&day), QN_STR_NULL};
    qn_columns_params(&silent, 1, &params[1]);
    struct qn_rows rows;
    enum qn_err err = qn_store_run(store, SQL, 2, params, &rows);
    for (size_t from = 0, to; err == QN_OK && from < rows.nrows; from = to) {
        to = from + 1;
        while (to < rows.nrows && qn_str_eq(qn_rows_cell(&rows, to, 0), qn_rows_cell(&rows, from, 0)))
            to++;
        err = decide_pair(p, &rows, from, to);
    }
    qn_buf_free(&day);
    qn_columns_clear(&silent);
    return err;
}

static void report(struct qn_progress *p)
{
    p->moved = p->clock.closed_until != p->was_clock || p->hold.column[0].n || p->release.column[0].n;
    p->changed = p->moved || p->join.column[0].n;
    for (size_t i = 0; i < p->n; i++) {
        const struct qn_horizon_source *s = &p->sources[i];
        if (s->alive != p->was[i].alive)
            qn_log_warn(s->alive ? "source-back" : "source-silent", QN_F_Z("source", p->was[i].name));
        if (s->alive != p->was[i].alive || s->closed_until != p->was[i].closed_until)
            p->moved = p->changed = true;
    }
}

/* A horizon that was once set by a clock that runs ahead would stand in the future for good: so two clocks have to agree
 * that a minute is over, this host's and the store's. */
static void doubt_clock(struct qn_progress *p, bool was_ahead)
{
    int64_t ahead = p->clock.now - (p->store_now + qn_clock_offset_ms());
    p->ahead = ahead > p->clock.grace;
    if (ahead > 0)
        p->clock.now -= ahead;
    if (p->ahead && !was_ahead)
        qn_log_warn("clock-ahead-of-store", QN_F_INT("by_ms", ahead));
}

enum qn_err qn_progress_load(struct qn_progress *p, struct qn_store *store, const struct qn_config *config, int64_t now)
{
    bool was_ahead = p->ahead;
    qn_progress_clear(p);
    p->clock.now = now;
    p->clock.grace = config->prices.grace_ms;
    p->clock.timeout = config->prices.source_timeout_ms;
    enum qn_err err = load_sources(p, store);
    if (err == QN_OK)
        err = load_open_from(p, store);
    if (err != QN_OK)
        return err;
    doubt_clock(p, was_ahead);
    if (p->was_clock > p->clock.now)
        qn_log_warn("clock-behind", QN_F_INT("by_ms", p->was_clock - p->clock.now));
    qn_horizon_decide(&p->clock, p->sources, p->n);
    if (p->n > 0)
        err = decide_pairs(p, store);
    report(p);
    return err;
}

static enum qn_err store_sources(struct qn_progress *p, struct qn_store *store)
{
    static const char SQL[] =
        "UPDATE progress f SET closed_until = coalesce(to_timestamp(u.closed), '-infinity'), alive = u.alive"
        " FROM unnest($1::int2[], $2::int8[], $3::boolean[]) AS u(id, closed, alive) WHERE f.source_id = u.id";
    struct qn_columns rows = {0};
    if (p->clock.closed_until != p->was_clock) {
        qn_columns_int(&rows, 0, 0);
        qn_columns_int(&rows, 1, p->clock.closed_until / 1000);
        qn_buf_char(qn_columns_item(&rows, 2), 't');
    }
    for (size_t i = 0; i < p->n; i++) {
        const struct qn_horizon_source *s = &p->sources[i];
        if (s->alive == p->was[i].alive && s->closed_until == p->was[i].closed_until)
            continue; /* the indexer writes these rows too: not touched without need */
        qn_columns_int(&rows, 0, s->id);
        if (s->closed_until == QN_HORIZON_NEVER)
            qn_buf_puts(qn_columns_item(&rows, 1), "NULL");
        else
            qn_columns_int(&rows, 1, s->closed_until / 1000);
        qn_buf_char(qn_columns_item(&rows, 2), s->alive ? 't' : 'f');
    }
    struct qn_str params[3];
    qn_columns_params(&rows, 3, params);
    enum qn_err err = qn_store_run(store, SQL, 3, params, NULL);
    qn_columns_clear(&rows);
    return err;
}

/* One statement for one set of rows; none when there is nothing. */
static enum qn_err store_set(struct qn_store *store, struct qn_columns *rows, size_t columns, const char *sql)
{
    if (rows->column[0].n == 0)
        return QN_OK;
    struct qn_str params[2];
    qn_columns_params(rows, columns, params);
    return qn_store_run(store, sql, (int)columns, params, NULL);
}

enum qn_err qn_progress_store(struct qn_progress *p, struct qn_store *store)
{
    enum qn_err err = store_sources(p, store);
    if (err == QN_OK)
        err = store_set(store, &p->join, 2,
                        "INSERT INTO pair_followed (pair_id, source_id) SELECT * FROM unnest($1::int4[], $2::int2[])");
    if (err == QN_OK)
        err = store_set(store, &p->hold, 2,
                        "UPDATE pairs p SET held_until = coalesce(to_timestamp(u.held), '-infinity')"
                        " FROM unnest($1::int4[], $2::int8[]) AS u(id, held) WHERE p.id = u.id");
    if (err == QN_OK)
        err = store_set(store, &p->release, 1,
                        "UPDATE pairs SET held_until = NULL WHERE id = ANY ($1::int4[])");
    if (err != QN_OK || p->clock.closed_until == p->was_clock)
        return err;
    /* Once a minute: what a pair follows no longer, because it wasn't traded there for a day; and what no longer holds
     * a pair, because nothing that it followed is a followed source any more. A pair that is held keeps its sources. */
    struct qn_buf day = {0};
    qn_buf_i64(&day, (p->clock.closed_until - DAY_MS) / 1000);
    struct qn_str param = qn_buf_view(&day);
    err = qn_store_run(store,
                       "DELETE FROM pair_followed x USING pair_sources ps, pairs p WHERE ps.pair_id = x.pair_id"
                       " AND ps.source_id = x.source_id AND ps.last_ts < to_timestamp($1::int8)"
                       " AND p.id = x.pair_id AND p.held_until IS NULL", 1, &param, NULL);
    qn_buf_free(&day);
    if (err == QN_OK)
        err = qn_store_run(store,
                           "UPDATE pairs p SET held_until = NULL WHERE p.held_until IS NOT NULL"
                           " AND NOT EXISTS (SELECT FROM pair_followed x WHERE x.pair_id = p.id)", 0, NULL, NULL);
    return err;
}
