/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "market/statements.h"
#include "prices/ohlc.h"
#include "prices/range.h"

struct state {
    struct qn_asset base, quote;  /* as asked */
    bool inverse;
    enum qn_grain grain;
    bool include_open;
    struct qn_range range;
    struct qn_str query;          /* what a cursor is bound to */
    struct qn_str key;            /* the cursor's: start of the oldest candle of the page before, ms */
    unsigned divergence;
};

/* Columns behind the range's own six. */
enum { T = QN_RANGE_COLUMNS, OPEN_N, OPEN_D, HIGH_N, HIGH_D, LOW_N, LOW_D, CLOSE_N, CLOSE_D, BASE_VOLUME, QUOTE_VOLUME,
       TRADES, NAMES, CLOSED, COLUMNS };

static const struct {
    const char *length;
    const char *unit;   /* behind a count: the default range's length */
    int factor;
} INTERVALS[QN_GRAINS] = {
    [QN_1M] = {"1 minute", "minutes", 1},    [QN_5M] = {"5 minutes", "minutes", 5},
    [QN_15M] = {"15 minutes", "minutes", 15}, [QN_30M] = {"30 minutes", "minutes", 30},
    [QN_1H] = {"1 hour", "hours", 1},        [QN_4H] = {"4 hours", "hours", 4},
    [QN_1D] = {"1 day", "days", 1},          [QN_1W] = {"7 days", "days", 7},
    [QN_1MO] = {"1 month", "months", 1},
};

static bool grain_param(struct qn_turn *turn, enum qn_grain *grain, enum qn_want *want)
{
    struct qn_str v = qn_request_param(turn->rq, "granularity");
    *grain = QN_1H;
    if (!v.p || qn_grain_parse(v, grain) == QN_OK)
        return true;
    *want = qn_turn_problem(turn, QN_P_INVALID_GRANULARITY, "granularity",
                            QN_STR("The granularities are 1m 5m 15m 30m 1h 4h 1d 1w 1mo."));
    return false;
}

static enum qn_want plan(struct qn_turn *turn)
{
    struct state *s = qn_arena_zalloc(turn->arena, sizeof *s);
    enum qn_want want;
    turn->state = s;
    if (!qn_params_pair(turn, "base", false, &s->base, &s->quote, &want) || !grain_param(turn, &s->grain, &want) ||
        !qn_params_range(turn, true, &s->range, &want) ||
        !qn_params_bool(turn, "include_open", false, &s->include_open, &want))
        return want;
    s->query = qn_arena_printf(turn->arena, "ohlc %s %s %s %d", s->base.text, s->quote.text, qn_grain_name(s->grain),
                               s->include_open);
    bool order_given = qn_request_param(turn->rq, "order").p != NULL;
    int64_t before;
    if (!qn_range_cursor(turn, s->query, order_given, &s->range, &s->key, &want))
        return want;
    if (s->key.p && !qn_cursor_moment(s->key, &before))
        return qn_range_bad_cursor(turn);
    return qn_range_ask_redis(turn, &s->base);
}

static enum qn_want replies(struct qn_turn *turn, enum qn_err err, const struct qn_val *r, size_t n)
{
    struct state *s = turn->state;
    struct qn_asset base, quote;
    s->divergence = qn_range_divergence(err, r, n, &s->quote);
    s->inverse = qn_asset_stored(&s->base, &s->quote, &base, &quote);
    struct qn_str *p = qn_arena_array(turn->arena, 10, sizeof *p);
    p[0] = qn_arena_copy(turn->arena, qn_asset_str(&base));
    p[1] = qn_arena_copy(turn->arena, qn_asset_str(&quote));
    p[2] = qn_arena_printf(turn->arena, "%d", qn_grain_id(s->grain));
    p[3] = qn_range_param(turn->arena, s->range.has_from, s->range.from_ms);
    p[4] = qn_range_param(turn->arena, s->range.has_to, s->range.to_ms);
    p[5] = qn_arena_printf(turn->arena, "%d", s->range.limit + 1);
    p[6] = s->include_open ? QN_STR("true") : QN_STR("false");
    p[7] = s->key;
    p[8] = qn_str_of(INTERVALS[s->grain].length);
    p[9] = qn_arena_printf(turn->arena, "%d %s", s->range.limit * INTERVALS[s->grain].factor, INTERVALS[s->grain].unit);
    turn->query = (struct qn_query){&qn_market_stmts[QN_STMT_OHLC], p};
    return QN_WANT_ROWS;
}

static bool put_price(struct qn_buf *b, const char *name, struct qn_str n, struct qn_str d, bool inverse, mpq_t q)
{
    if (qn_num_parse_ratio(q, n, d) != QN_OK || mpq_sgn(q) <= 0)
        return false;
    if (inverse)
        mpq_inv(q, q);
    qn_buf_puts(b, name);
    qn_num_put_quotient(b, q);
    return true;
}

/* One candle in the direction asked for. False: not a row of ours. */
static bool put_candle(struct qn_buf *b, const struct qn_str *c, bool inverse, struct qn_dec *base, struct qn_dec *quote,
                       mpq_t q, mpq_t v)
{
    uint64_t t;
    if (!c[T].p || qn_str_u64(c[T], INT64_MAX, &t) != QN_OK || !c[TRADES].p || !c[CLOSED].p ||
        qn_dec_parse(base, c[inverse ? QUOTE_VOLUME : BASE_VOLUME], 0) != QN_OK ||
        qn_dec_parse(quote, c[inverse ? BASE_VOLUME : QUOTE_VOLUME], 0) != QN_OK || qn_dec_sign(base) <= 0)
        return false;
    qn_buf_puts(b, "{\"t\":\"");
    qn_when_put_seconds(b, (int64_t)t);
    if (!put_price(b, "\",\"open\":\"", c[OPEN_N], c[OPEN_D], inverse, q) ||
        !put_price(b, "\",\"high\":\"", c[inverse ? LOW_N : HIGH_N], c[inverse ? LOW_D : HIGH_D], inverse, q) ||
        !put_price(b, "\",\"low\":\"", c[inverse ? HIGH_N : LOW_N], c[inverse ? HIGH_D : LOW_D], inverse, q) ||
        !put_price(b, "\",\"close\":\"", c[CLOSE_N], c[CLOSE_D], inverse, q))
        return false;
    qn_dec_get_q(q, quote);
    qn_dec_get_q(v, base);
    mpq_div(q, q, v);
    qn_buf_puts(b, "\",\"vwap\":\"");
    qn_num_put_quotient(b, q);
    qn_buf_puts(b, "\",\"base_volume\":\"");
    qn_dec_put(b, base);
    qn_buf_puts(b, "\",\"quote_volume\":\"");
    qn_dec_put(b, quote);
    qn_buf_puts(b, "\",\"trades\":");
    qn_buf_str(b, c[TRADES]);
    qn_buf_puts(b, c[CLOSED].p[0] == 't' ? ",\"closed\":true}" : ",\"closed\":false}");
    return true;
}

/* The page's candles, rows being newest first. False: not rows of ours. */
static bool put_candles(const struct state *s, struct qn_buf *b, const struct qn_rows *rows, size_t n)
{
    struct qn_dec base, quote;
    mpq_t q, v;
    bool ok = true;
    qn_dec_init(&base);
    qn_dec_init(&quote);
    mpq_inits(q, v, NULL);
    qn_buf_puts(b, ",\"candles\":[");
    for (size_t i = 0; ok && i < n; i++) {
        const struct qn_str *c = &rows->cells[(s->range.asc ? n - 1 - i : i) * rows->ncols];
        if (i)
            qn_buf_char(b, ',');
        ok = put_candle(b, c, s->inverse, &base, &quote, q, v);
    }
    qn_buf_char(b, ']');
    mpq_clears(q, v, NULL);
    qn_dec_clear(&base);
    qn_dec_clear(&quote);
    return ok;
}

static enum qn_want rows(struct qn_turn *turn, enum qn_err err, const struct qn_rows *rows)
{
    struct state *s = turn->state;
    struct qn_range_head head;
    if (err == QN_OK)
        err = qn_range_read(rows, COLUMNS, &s->range, &head);
    if (err != QN_OK)
        return qn_range_failed(turn, err);
    size_t n = head.n < (size_t)s->range.limit ? head.n : (size_t)s->range.limit;
    struct qn_buf b = {.arena = turn->arena};
    struct qn_str names = n ? qn_rows_cell(rows, 0, NAMES) : QN_STR("");
    qn_buf_reserve(&b, 256 + n * 320);
    qn_buf_puts(&b, "{\"base\":");
    qn_buf_json(&b, qn_asset_str(&s->base));
    qn_buf_puts(&b, ",\"quote\":");
    qn_buf_json(&b, qn_asset_str(&s->quote));
    qn_buf_printf(&b, ",\"granularity\":\"%s\"", qn_grain_name(s->grain));
    if (!put_candles(s, &b, rows, n))
        return qn_range_failed(turn, QN_ECORRUPT);
    qn_range_put_coverage(&b, &head);
    qn_buf_char(&b, '}');
    struct qn_str key = head.n > n ? qn_arena_copy(turn->arena, qn_rows_cell(rows, n - 1, T)) : QN_STR_NULL;
    qn_range_put(turn, &s->range, &head, s->query, qn_buf_view(&b), names, s->divergence,
                 qn_grain_end(s->grain, head.to_ms - 1), key, s->include_open);
    return QN_WANT_DONE;
}

static const char *const PARAMS[] = {"base", "quote", "granularity", "from", "to", "limit", "order", "cursor",
                                     "include_open", NULL};

const struct qn_route qn_prices_ohlc = {"/v1/ohlc", QN_GET, PARAMS, plan, replies, rows};
