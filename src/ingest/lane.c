/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/lane.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/when.h"

enum {
    STEP_MS = 120 * 1000, /* one step of a batch; longer than any lock that our own programs hold */
    MAX_TRIES = 10,       /* of one batch */
    ARENA_SIZE = 64 * 1024,
    WHY_SIZE = 256,
};

enum step { BEGIN, CLEAR, STAGE, ASK, IDS, TRADES, DIRTY, PAIRS, PROGRESS, COMMIT, ROLLBACK };

struct qn_lane {
    struct event_base *base;
    struct qn_pgconn *pg;
    bool durable;
    void (*stored)(void *arg, struct qn_batch *batch);
    void *arg;
    enum qn_lane_state state;
    enum step step;
    struct qn_batch *batch;
    struct qn_lane_mark marks[QN_LANE_MAX_MARKS];
    size_t n_marks;
    struct qn_arena *arena;  /* parameters of the step under way */
    bool asks;               /* find out what is stored already before storing */
    int tries;
    char why[WHY_SIZE];
};

/* Statements without parameters, and the two that are prepared. */
static const struct qn_stmt begin = {"begin", "BEGIN", 0};
static const struct qn_stmt commit = {"commit", "COMMIT", 0};
static const struct qn_stmt rollback = {"rollback", "ROLLBACK", 0};
static const struct qn_stmt clear = {"clear", "TRUNCATE stage", 0};

/* Which staged trades are stored already, and whether with the same content: pair, moment, amounts and price by value.
 * Subqueries and not joins, so that each is a look-up by index whatever the planner knows of a table just filled. */
static const struct qn_stmt ask = {"ask",
    "SELECT s.source_id, s.trade_id, coalesce((SELECT true FROM trades t "
    "WHERE t.pair_id = s.pair_id AND t.ts = s.ts AND t.source_id = s.source_id AND t.trade_id = s.trade_id "
    "AND t.base_amount = s.base_amount AND t.quote_amount = s.quote_amount "
    "AND t.price_n IS NOT DISTINCT FROM s.price_n AND t.price_d IS NOT DISTINCT FROM s.price_d), false) "
    "FROM stage s WHERE (SELECT true FROM trade_ids i WHERE i.source_id = s.source_id AND i.trade_id = s.trade_id)", 0};

enum { STMT_PAIRS, STMT_PROGRESS, STMTS };
static const struct qn_stmt prepared[STMTS] = {
    [STMT_PAIRS] = {"pairs",
        "INSERT INTO pair_sources AS p (pair_id, source_id, first_ts, last_ts, last_ord, last_id, last_base_amount, "
        "last_quote_amount, last_n, last_d) "
        "SELECT * FROM unnest($1::int4[], $2::int2[], $3::timestamptz[], $4::timestamptz[], $5::bytea[], $6::text[], "
        "$7::numeric[], $8::numeric[], $9::numeric[], $10::numeric[]) "
        "ON CONFLICT (pair_id, source_id) DO UPDATE SET first_ts = LEAST(p.first_ts, excluded.first_ts), "
        "(last_ts, last_ord, last_id, last_base_amount, last_quote_amount, last_n, last_d) = (SELECT n.* FROM (VALUES "
        "(p.last_ts, p.last_ord, p.last_id, p.last_base_amount, p.last_quote_amount, p.last_n, p.last_d), "
        "(excluded.last_ts, excluded.last_ord, excluded.last_id, excluded.last_base_amount, "
        "excluded.last_quote_amount, excluded.last_n, excluded.last_d)) AS n (ts, ord, id) "
        "ORDER BY n.ts DESC, n.ord DESC, n.id COLLATE \"C\" DESC LIMIT 1)", QN_BATCH_PAIR_ARRAYS},
    [STMT_PROGRESS] = {"progress",
        "INSERT INTO progress AS p (source_id, watermark, seen_at) "
        "SELECT * FROM unnest($1::int2[], $2::timestamptz[], $3::timestamptz[]) "
        "ON CONFLICT (source_id) DO UPDATE SET watermark = GREATEST(p.watermark, excluded.watermark), "
        "seen_at = GREATEST(p.seen_at, excluded.seen_at)", 3},
};

#define COPY_BINARY " FROM STDIN (FORMAT binary)"

struct qn_lane *qn_lane_new(struct event_base *base, const char *dsn, bool durable,
                            void (*stored)(void *arg, struct qn_batch *batch), void *arg)
{
    struct qn_lane *l = qn_xcalloc(1, sizeof *l);
    l->base = base;
    l->pg = qn_pgconn_new(base, dsn, "quoin-indexer", 0);
    l->durable = durable;
    l->stored = stored;
    l->arg = arg;
    l->state = QN_LANE_GONE;
    l->arena = qn_arena_new(ARENA_SIZE);
    return l;
}

void qn_lane_free(struct qn_lane *l)
{
    if (!l)
        return;
    l->stored = NULL; /* closing ends a step under way: then nothing is stored */
    qn_pgconn_free(l->pg);
    qn_arena_free(l->arena);
    free(l);
}

enum qn_err qn_lane_connect(struct qn_lane *l, int64_t deadline)
{
    enum qn_err err = qn_pgconn_run_connect(l->pg, prepared, STMTS, deadline);
    if (!err)
        err = qn_pgconn_run_script(l->pg, "CREATE TEMPORARY TABLE stage (LIKE trades)", deadline);
    if (!err && !l->durable)
        err = qn_pgconn_run_script(l->pg, "SET synchronous_commit = off", deadline);
    if (!err)
        l->state = QN_LANE_IDLE;
    return err;
}

enum qn_lane_state qn_lane_state(const struct qn_lane *l)
{
    return l->state;
}

const char *qn_lane_why(const struct qn_lane *l)
{
    return l->why;
}

struct qn_pgconn *qn_lane_conn(struct qn_lane *l)
{
    return l->pg;
}

/* ---- steps */

static void on_step(void *arg, const struct qn_pgresult *result);

static void submit(struct qn_lane *l, const struct qn_stmt *stmt, const struct qn_str *params, bool is_prepared)
{
    struct qn_query q = {stmt, params};
    qn_pgconn_query(l->pg, &q, is_prepared, qn_clock_mono_ms() + STEP_MS, on_step, l);
}

static void copy(struct qn_lane *l, const char *sql, struct qn_str data)
{
    qn_pgconn_copy(l->pg, sql, data, qn_clock_mono_ms() + STEP_MS, on_step, l);
}

static void send_pairs(struct qn_lane *l)
{
    struct qn_str params[QN_BATCH_PAIR_ARRAYS];
    qn_arena_reset(l->arena);
    qn_batch_pairs(l->batch, l->arena, params);
    submit(l, &prepared[STMT_PAIRS], params, true);
}

static struct qn_str time_text(struct qn_arena *arena, int64_t ms)
{
    struct qn_buf out = {.arena = arena};
    qn_when_put(&out, ms);
    return qn_buf_view(&out);
}

static void send_progress(struct qn_lane *l)
{
    struct qn_str source[QN_LANE_MAX_MARKS], watermark[QN_LANE_MAX_MARKS], seen[QN_LANE_MAX_MARKS];
    qn_arena_reset(l->arena);
    for (size_t i = 0; i < l->n_marks; i++) {
        source[i] = qn_arena_printf(l->arena, "%d", l->marks[i].source_id);
        watermark[i] = time_text(l->arena, l->marks[i].watermark_ms);
        seen[i] = time_text(l->arena, l->marks[i].seen_ms);
    }
    struct qn_str params[] = {qn_pg_array(l->arena, source, l->n_marks), qn_pg_array(l->arena, watermark, l->n_marks),
                              qn_pg_array(l->arena, seen, l->n_marks)};
    submit(l, &prepared[STMT_PROGRESS], params, true);
}

/* Takes the step, or the first after it that there is something to do for. */
static void take_step(struct qn_lane *l, enum step step)
{
    bool trades = l->batch && qn_batch_trades(l->batch) > 0;
    struct qn_str data;
    size_t n;
    for (;; step++) {
        l->step = step;
        switch (step) {
        case BEGIN:
            submit(l, &begin, NULL, false);
            return;
        case CLEAR:
            if (!trades || !l->asks)
                continue;
            submit(l, &clear, NULL, false);
            return;
        case STAGE:
            if (!trades || !l->asks)
                continue;
            copy(l, "COPY stage (" QN_BATCH_TRADE_COLUMNS ")" COPY_BINARY, qn_batch_copy_trades(l->batch));
            return;
        case ASK:
            if (!trades || !l->asks)
                continue;
            submit(l, &ask, NULL, false);
            return;
        case IDS:
            if (!trades)
                continue;
            copy(l, "COPY trade_ids (source_id, trade_id, ts)" COPY_BINARY, qn_batch_copy_ids(l->batch));
            return;
        case TRADES:
            if (!trades)
                continue;
            copy(l, "COPY trades (" QN_BATCH_TRADE_COLUMNS ")" COPY_BINARY, qn_batch_copy_trades(l->batch));
            return;
        case DIRTY:
            if (!trades)
                continue;
            data = qn_batch_copy_dirty(l->batch, &n);
            if (n == 0)
                continue;
            copy(l, "COPY dirty (pair_id, minute)" COPY_BINARY, data);
            return;
        case PAIRS:
            if (!trades)
                continue;
            send_pairs(l);
            return;
        case PROGRESS:
            if (l->n_marks == 0)
                continue;
            send_progress(l);
            return;
        case COMMIT:
            submit(l, &commit, NULL, false);
            return;
        case ROLLBACK:
            submit(l, &rollback, NULL, false);
            return;
        }
    }
}

/* Marks what is stored already; says whether there was any. QN_ECORRUPT: rows that are not of `ask`. */
static enum qn_err mark_stored(struct qn_lane *l, const struct qn_rows *rows)
{
    for (size_t i = 0; i < rows->nrows; i++) {
        uint64_t source_id;
        if (rows->ncols != 3 || qn_str_u64(qn_rows_cell(rows, i, 0), INT16_MAX, &source_id) ||
            qn_batch_mark(l->batch, (int16_t)source_id, qn_rows_cell(rows, i, 1),
                          qn_str_eq(qn_rows_cell(rows, i, 2), QN_STR("t"))))
            return QN_ECORRUPT;
    }
    return QN_OK;
}

static bool is_state(const struct qn_pgresult *result, const char *sqlstate)
{
    return result->err == QN_EPEER && strcmp(result->sqlstate, sqlstate) == 0;
}

static void give_up(struct qn_lane *l, enum qn_lane_state state, const struct qn_pgresult *result)
{
    l->state = state;
    if (result->err == QN_EPEER)
        snprintf(l->why, sizeof l->why, "%s (SQLSTATE %s)", result->message ? result->message : "", result->sqlstate);
    else
        snprintf(l->why, sizeof l->why, "%s", result->message && *result->message ? result->message
                                                                                 : qn_err_name(result->err));
    qn_pgconn_close(l->pg); /* rolls back */
}

static void on_failure(struct qn_lane *l, const struct qn_pgresult *result)
{
    bool known = l->step == IDS && is_state(result, "23505"); /* an identity is there */
    bool lost = is_state(result, "40001") || is_state(result, "40P01") || is_state(result, "55P03");
    if ((known || lost) && ++l->tries < MAX_TRIES) {
        l->asks |= known;
        take_step(l, ROLLBACK);
        return;
    }
    give_up(l, qn_pg_gone(result->err, result->sqlstate) ? QN_LANE_GONE : QN_LANE_BROKEN, result);
}

static void on_step(void *arg, const struct qn_pgresult *result)
{
    struct qn_lane *l = arg;
    if (!l->stored)
        return; /* being freed */
    if (result->err) {
        on_failure(l, result);
        return;
    }
    if (l->step == ASK) {
        if (result->rows.nrows == 0)
            l->asks = false;
        enum qn_err err = mark_stored(l, &result->rows);
        if (err) {
            give_up(l, QN_LANE_BROKEN, &(struct qn_pgresult){.err = err});
            return;
        }
    }
    if (l->step == ROLLBACK) {
        take_step(l, BEGIN);
        return;
    }
    if (l->step != COMMIT) {
        take_step(l, l->step + 1);
        return;
    }
    struct qn_batch *batch = l->batch;
    l->batch = NULL;
    if (batch)
        l->stored(l->arg, batch);
    l->state = QN_LANE_IDLE;
}

void qn_lane_store(struct qn_lane *l, struct qn_batch *batch, const struct qn_lane_mark *marks, size_t n)
{
    l->batch = batch;
    l->n_marks = n;
    if (n)
        memcpy(l->marks, marks, n * sizeof *marks);
    l->tries = 0;
    l->state = QN_LANE_BUSY;
    take_step(l, BEGIN);
}
