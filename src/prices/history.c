/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "market/statements.h"
#include "prices/history.h"
#include "prices/range.h"

struct state {
    struct qn_asset base, quote;  /* as asked */
    bool inverse;
    struct qn_range range;
    struct qn_str query;
    struct qn_str key;            /* the cursor's: `ts source ord id` of the last trade of the page before */
    unsigned divergence;
};

/* Columns behind the range's own six. */
enum { ID = QN_RANGE_COLUMNS, SOURCE, TS, BASE_AMOUNT, QUOTE_AMOUNT, PRICE_N, PRICE_D, ORD, COLUMNS };

/* Splits the cursor's key into the statement's parameters 6-9. The id, which may hold blanks, is last. */
static bool split_key(struct qn_turn *turn, struct qn_str key, struct qn_str out[4])
{
    for (int i = 0; i < 3; i++) {
        const char *blank = key.n ? memchr(key.p, ' ', key.n) : NULL;
        if (!blank)
            return false;
        out[i] = qn_arena_copy(turn->arena, (struct qn_str){key.p, (size_t)(blank - key.p)});
        key.n -= out[i].n + 1;
        key.p = blank + 1;
    }
    out[3] = qn_arena_copy(turn->arena, key);
    int64_t ms;
    bool hex = out[2].n % 2 == 0;
    for (size_t i = 0; i < out[2].n; i++)
        hex = hex && ((out[2].p[i] >= '0' && out[2].p[i] <= '9') || (out[2].p[i] >= 'a' && out[2].p[i] <= 'f'));
    return qn_cursor_moment(out[0], &ms) && hex && key.n > 0;
}

static enum qn_want plan(struct qn_turn *turn)
{
    struct state *s = qn_arena_zalloc(turn->arena, sizeof *s);
    enum qn_want want;
    turn->state = s;
    if (!qn_params_pair(turn, "base", false, &s->base, &s->quote, &want) ||
        !qn_params_range(turn, false, &s->range, &want))
        return want;
    s->query = qn_arena_printf(turn->arena, "history %s %s", s->base.text, s->quote.text);
    bool order_given = qn_request_param(turn->rq, "order").p != NULL;
    if (!qn_range_cursor(turn, s->query, order_given, &s->range, &s->key, &want))
        return want;
    return qn_range_ask_redis(turn, &s->base);
}

static enum qn_want replies(struct qn_turn *turn, enum qn_err err, const struct qn_val *r, size_t n)
{
    struct state *s = turn->state;
    struct qn_asset base, quote;
    s->divergence = qn_range_divergence(err, r, n, &s->quote);
    s->inverse = qn_asset_stored(&s->base, &s->quote, &base, &quote);
    struct qn_str *p = qn_arena_array(turn->arena, 9, sizeof *p);
    p[0] = qn_arena_copy(turn->arena, qn_asset_str(&base));
    p[1] = qn_arena_copy(turn->arena, qn_asset_str(&quote));
    p[2] = qn_range_param(turn->arena, s->range.has_from, s->range.from_ms);
    p[3] = qn_range_param(turn->arena, s->range.has_to, s->range.to_ms);
    p[4] = qn_arena_printf(turn->arena, "%d", s->range.limit + 1);
    if (s->key.p && !split_key(turn, s->key, p + 5))
        return qn_range_bad_cursor(turn);
    turn->query = (struct qn_query){&qn_market_stmts[s->range.asc ? QN_STMT_HISTORY_ASC : QN_STMT_HISTORY_DESC], p};
    return QN_WANT_ROWS;
}

/* One trade in the direction asked for. False: not a row of ours. */
static bool put_trade(struct qn_buf *b, const struct qn_str *c, bool inverse, struct qn_dec *amount, mpq_t q)
{
    uint64_t ts;
    if (!c[ID].p || !c[SOURCE].p || qn_str_u64(c[TS], INT64_MAX, &ts) != QN_OK || !c[ORD].p)
        return false;
    qn_buf_puts(b, "{\"id\":");
    qn_buf_json(b, c[ID]);
    qn_buf_puts(b, ",\"source\":");
    qn_buf_json(b, c[SOURCE]);
    qn_buf_puts(b, ",\"ts\":\"");
    qn_when_put(b, (int64_t)ts);
    if (c[PRICE_N].p) {
        if (qn_num_parse_ratio(q, c[PRICE_N], c[PRICE_D]) != QN_OK || mpq_sgn(q) <= 0)
            return false;
        if (inverse)
            mpq_inv(q, q);
        qn_buf_puts(b, "\",\"price\":\"");
        qn_num_put_quotient(b, q);
        qn_buf_puts(b, "\",\"base_amount\":\"");
    } else {
        qn_buf_puts(b, "\",\"price\":null,\"base_amount\":\"");
    }
    if (qn_dec_parse(amount, c[inverse ? QUOTE_AMOUNT : BASE_AMOUNT], 0) != QN_OK)
        return false;
    qn_dec_put(b, amount);
    qn_buf_puts(b, "\",\"quote_amount\":\"");
    if (qn_dec_parse(amount, c[inverse ? BASE_AMOUNT : QUOTE_AMOUNT], 0) != QN_OK)
        return false;
    qn_dec_put(b, amount);
    qn_buf_puts(b, "\"}");
    return true;
}

static bool put_trades(struct qn_turn *turn, struct qn_buf *b, const struct qn_rows *rows, size_t n,
                       struct qn_str *names)
{
    const struct state *s = turn->state;
    struct qn_dec amount;
    mpq_t q;
    bool ok = true;
    qn_dec_init(&amount);
    mpq_init(q);
    qn_buf_puts(b, ",\"trades\":[");
    for (size_t i = 0; ok && i < n; i++) {
        const struct qn_str *c = &rows->cells[i * rows->ncols];
        if (i)
            qn_buf_char(b, ',');
        ok = put_trade(b, c, s->inverse, &amount, q);
        *names = qn_range_merge(turn->arena, *names, c[SOURCE]);
    }
    qn_buf_char(b, ']');
    mpq_clear(q);
    qn_dec_clear(&amount);
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
    struct qn_str names = QN_STR(""), key = QN_STR_NULL;
    qn_buf_reserve(&b, 256 + n * 256);
    qn_buf_puts(&b, "{\"base\":");
    qn_buf_json(&b, qn_asset_str(&s->base));
    qn_buf_puts(&b, ",\"quote\":");
    qn_buf_json(&b, qn_asset_str(&s->quote));
    if (!put_trades(turn, &b, rows, n, &names))
        return qn_range_failed(turn, QN_ECORRUPT);
    qn_range_put_coverage(&b, &head);
    qn_buf_char(&b, '}');
    if (head.n > n) {
        const struct qn_str *last = &rows->cells[(n - 1) * rows->ncols];
        key = qn_arena_printf(turn->arena, "%s %s %s %s", last[TS].p, last[SOURCE].p, last[ORD].p, last[ID].p);
    }
    qn_range_put(turn, &s->range, &head, s->query, qn_buf_view(&b), names, s->divergence, head.to_ms, key, false);
    return QN_WANT_DONE;
}

static const char *const PARAMS[] = {"base", "quote", "from", "to", "limit", "order", "cursor", NULL};

const struct qn_route qn_prices_history = {"/v1/history", QN_GET, PARAMS, plan, replies, rows};
