/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "aggregate/rebuild.h"

/* Reading a few minutes that nobody asked for is cheaper than one more index scan. */
enum { GAP_MS = 3 * 60000 };

/* Both statements give pair, time (ms) and then what one item is made of, in the order that candles are built in.
 * OFFSET 0 keeps the planner at one index scan a span, whatever it thinks of the number of rows; $4 and $5, the bounds
 * of all spans, let it leave partitions out. */
#define SPANS " FROM unnest($1::int4[], $2::int8[], $3::int8[]) AS u(pair_id, since, till)"

static const char TRADES[] =
    "DECLARE quoin_items NO SCROLL CURSOR FOR"
    " SELECT t.pair_id, (extract(epoch FROM t.ts) * 1000)::int8, t.source_id, t.base_amount, t.quote_amount,"
    "  t.price_n, t.price_d, t.flags & 2" SPANS
    " CROSS JOIN LATERAL (SELECT * FROM trades x WHERE x.pair_id = u.pair_id AND x.ts >= to_timestamp(u.since)"
    "  AND x.ts < to_timestamp(u.till) AND x.ts >= to_timestamp($4::int8) AND x.ts < to_timestamp($5::int8)"
    "  AND x.price_n IS NOT NULL OFFSET 0) t"
    " JOIN sources s ON s.id = t.source_id"
    " ORDER BY t.pair_id, t.ts, s.name, t.ord, t.trade_id";

static const char CANDLES[] =
    "DECLARE quoin_items NO SCROLL CURSOR FOR"
    " SELECT c.pair_id, (extract(epoch FROM c.t) * 1000)::int8, " QN_CANDLE_ROWS_COLUMNS SPANS
    " CROSS JOIN LATERAL (SELECT * FROM candles x WHERE x.pair_id = u.pair_id AND x.grain = $6::int4"
    "  AND x.t >= to_timestamp(u.since) AND x.t < to_timestamp(u.till) AND x.t >= to_timestamp($4::int8)"
    "  AND x.t < to_timestamp($5::int8) OFFSET 0) c"
    " ORDER BY c.pair_id, c.t";

struct rebuild {
    struct qn_store *store;
    struct qn_span *spans;
    struct qn_columns params;
    struct qn_candle_rows out;
    struct qn_candle candle;   /* the bucket that is being built */
    struct qn_candle finer;    /* a row, read */
    mpq_t price;
    struct qn_dec base, quote;
};

static enum qn_err open_items(struct rebuild *r, enum qn_grain grain, const struct qn_bucket *buckets, size_t n)
{
    qn_columns_reset(&r->params);
    size_t n_spans = qn_buckets_spans(buckets, n, grain, grain == QN_1M ? GAP_MS : 0, r->spans);
    int64_t since = INT64_MAX, till = INT64_MIN;
    for (size_t i = 0; i < n_spans; i++) {
        qn_columns_int(&r->params, 0, r->spans[i].pair);
        qn_columns_int(&r->params, 1, r->spans[i].from / 1000);
        qn_columns_int(&r->params, 2, r->spans[i].to / 1000);
        since = r->spans[i].from < since ? r->spans[i].from : since;
        till = r->spans[i].to > till ? r->spans[i].to : till;
    }
    struct qn_str params[6];
    qn_columns_params(&r->params, 3, params);
    qn_buf_i64(&r->params.column[3], since / 1000);
    qn_buf_i64(&r->params.column[4], till / 1000);
    qn_buf_i64(&r->params.column[5], qn_grain_id(qn_grain_finer(grain)));
    for (size_t i = 3; i < 6; i++)
        params[i] = qn_buf_view(&r->params.column[i]);
    return grain == QN_1M ? qn_store_run(r->store, TRADES, 5, params, NULL)
                          : qn_store_run(r->store, CANDLES, 6, params, NULL);
}

static enum qn_err add_trade(struct rebuild *r, const struct qn_rows *rows, size_t row)
{
    int64_t source, dust;
    if (qn_store_i64(rows, row, 2, &source) != QN_OK || qn_store_i64(rows, row, 7, &dust) != QN_OK ||
        qn_dec_parse(&r->base, qn_rows_cell(rows, row, 3), 0) != QN_OK ||
        qn_dec_parse(&r->quote, qn_rows_cell(rows, row, 4), 0) != QN_OK ||
        qn_num_parse_ratio(r->price, qn_rows_cell(rows, row, 5), qn_rows_cell(rows, row, 6)) != QN_OK)
        return QN_ECORRUPT;
    qn_candle_add_trade(&r->candle, r->price, &r->base, &r->quote, (int16_t)source, dust != 0);
    return QN_OK;
}

static enum qn_err add_candle(struct rebuild *r, const struct qn_rows *rows, size_t row)
{
    enum qn_err err = qn_candle_rows_read(rows, row, 2, &r->finer);
    if (err == QN_OK)
        qn_candle_add_candle(&r->candle, &r->finer);
    return err;
}

static enum qn_err build_grain(struct rebuild *r, enum qn_grain grain, const struct qn_bucket *buckets, size_t n)
{
    r->out.grain = grain;
    enum qn_err err = open_items(r, grain, buckets, n);
    size_t at = 0;
    qn_candle_reset(&r->candle, buckets[0].start);
    struct qn_rows rows = {0};
    do {
        if (err == QN_OK)
            err = qn_store_fetch(r->store, "quoin_items", QN_STORE_FETCH, &rows);
        for (size_t row = 0; err == QN_OK && row < rows.nrows; row++) {
            int64_t pair, ms;
            if (qn_store_i64(&rows, row, 0, &pair) != QN_OK || qn_store_i64(&rows, row, 1, &ms) != QN_OK)
                return QN_ECORRUPT;
            struct qn_bucket of = {(int32_t)pair, qn_grain_start(grain, ms)};
            while (at < n && qn_bucket_cmp(&buckets[at], &of) < 0) {
                qn_candle_rows_put(&r->out, buckets[at].pair, &r->candle);
                if (++at < n)
                    qn_candle_reset(&r->candle, buckets[at].start);
            }
            if (at < n && qn_bucket_cmp(&buckets[at], &of) == 0) /* else a minute between two that were asked for */
                err = grain == QN_1M ? add_trade(r, &rows, row) : add_candle(r, &rows, row);
        }
        if (err == QN_OK && qn_candle_rows_full(&r->out))
            err = qn_candle_rows_write(&r->out, r->store); /* only between pieces: it ends the life of their rows */
    } while (err == QN_OK && rows.nrows > 0);
    for (; err == QN_OK && at < n; at++) {
        qn_candle_rows_put(&r->out, buckets[at].pair, &r->candle);
        if (at + 1 < n)
            qn_candle_reset(&r->candle, buckets[at + 1].start);
    }
    if (err == QN_OK)
        err = qn_candle_rows_write(&r->out, r->store);
    if (err == QN_OK)
        err = qn_store_run(r->store, "CLOSE quoin_items", 0, NULL, NULL);
    return err;
}

enum qn_err qn_rebuild(struct qn_store *store, struct qn_bucket *minutes, size_t n, size_t *candles)
{
    struct rebuild r = {.store = store, .spans = qn_xcalloc(n ? n : 1, sizeof *r.spans)};
    qn_candle_rows_init(&r.out);
    qn_candle_init(&r.candle);
    qn_candle_init(&r.finer);
    mpq_init(r.price);
    qn_dec_init(&r.base);
    qn_dec_init(&r.quote);

    enum qn_err err = QN_OK;
    struct qn_bucket *weeks = qn_xcalloc(n ? n : 1, sizeof *weeks);
    for (enum qn_grain grain = QN_1M; err == QN_OK && n > 0 && grain < QN_GRAINS; grain++) {
        if (grain == QN_1W) { /* in a copy: the months after it are made of the days, and a week can begin in another */
            memcpy(weeks, minutes, n * sizeof *weeks);
            err = build_grain(&r, grain, weeks, qn_buckets_coarsen(weeks, n, grain));
            continue;
        }
        n = qn_buckets_coarsen(minutes, n, grain);
        err = build_grain(&r, grain, minutes, n);
    }
    free(weeks);
    *candles = r.out.written;

    qn_dec_clear(&r.quote);
    qn_dec_clear(&r.base);
    mpq_clear(r.price);
    qn_candle_clear(&r.finer);
    qn_candle_clear(&r.candle);
    qn_candle_rows_clear(&r.out);
    qn_columns_clear(&r.params);
    free(r.spans);
    return err;
}
