/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "aggregate/candle_rows.h"

enum {
    C_PAIR,
    C_T,
    C_OPEN,
    C_HIGH = C_OPEN + 2,
    C_LOW = C_HIGH + 2,
    C_CLOSE = C_LOW + 2,
    C_BASE = C_CLOSE + 2,
    C_QUOTE,
    C_TRADES,
    C_SOURCES,
    C_DUST,
    C_COLUMNS,
};

void qn_candle_rows_init(struct qn_candle_rows *r)
{
    memset(r, 0, sizeof *r);
}

void qn_candle_rows_clear(struct qn_candle_rows *r)
{
    qn_columns_clear(&r->columns);
    qn_columns_clear(&r->empty);
}

static void put_price(struct qn_candle_rows *r, size_t column, const mpq_t price)
{
    qn_num_put_z(qn_columns_item(&r->columns, column), mpq_numref(price));
    qn_num_put_z(qn_columns_item(&r->columns, column + 1), mpq_denref(price));
}

static void put_sources(struct qn_buf *b, const struct qn_candle *candle)
{
    qn_buf_puts(b, "\"{"); /* an array in text, so that unnest gives it whole */
    for (size_t i = 0; i < candle->n_sources; i++) {
        if (i > 0)
            qn_buf_char(b, ',');
        qn_buf_i64(b, candle->sources[i]);
    }
    qn_buf_puts(b, "}\"");
}

void qn_candle_rows_put(struct qn_candle_rows *r, int32_t pair, const struct qn_candle *candle)
{
    struct qn_columns *c = candle->trades ? &r->columns : &r->empty;
    qn_columns_int(c, C_PAIR, pair);
    qn_columns_int(c, C_T, candle->start / 1000);
    if (candle->trades == 0) {
        r->n_empty++;
        return;
    }
    put_price(r, C_OPEN, candle->open);
    put_price(r, C_HIGH, candle->high);
    put_price(r, C_LOW, candle->low);
    put_price(r, C_CLOSE, candle->close);
    qn_dec_put(qn_columns_item(c, C_BASE), &candle->base);
    qn_dec_put(qn_columns_item(c, C_QUOTE), &candle->quote);
    qn_columns_int(c, C_TRADES, candle->trades);
    put_sources(qn_columns_item(c, C_SOURCES), candle);
    qn_buf_char(qn_columns_item(c, C_DUST), candle->dust ? 't' : 'f');
    r->n++;
}

static enum qn_err write_candles(struct qn_candle_rows *r, struct qn_store *store, struct qn_str grain)
{
    static const char SQL[] =
        "INSERT INTO candles AS c (pair_id, grain, t, open_n, open_d, high_n, high_d, low_n, low_d, close_n, close_d,"
        "  base_volume, quote_volume, trades, sources, dust)"
        " SELECT u.pair_id, $16::int4, to_timestamp(u.t), u.open_n, u.open_d, u.high_n, u.high_d, u.low_n, u.low_d,"
        "  u.close_n, u.close_d, u.base_volume, u.quote_volume, u.trades, u.sources::int2[], u.dust"
        " FROM unnest($1::int4[], $2::int8[], $3::numeric[], $4::numeric[], $5::numeric[], $6::numeric[],"
        "  $7::numeric[], $8::numeric[], $9::numeric[], $10::numeric[], $11::numeric[], $12::numeric[], $13::int8[],"
        "  $14::text[], $15::boolean[]) AS u(pair_id, t, open_n, open_d, high_n, high_d, low_n, low_d, close_n,"
        "  close_d, base_volume, quote_volume, trades, sources, dust)"
        " ON CONFLICT (pair_id, grain, t) DO UPDATE SET open_n = excluded.open_n, open_d = excluded.open_d,"
        "  high_n = excluded.high_n, high_d = excluded.high_d, low_n = excluded.low_n, low_d = excluded.low_d,"
        "  close_n = excluded.close_n, close_d = excluded.close_d, base_volume = excluded.base_volume,"
        "  quote_volume = excluded.quote_volume, trades = excluded.trades, sources = excluded.sources,"
        "  dust = excluded.dust, version = c.version + 1";
    struct qn_str params[C_COLUMNS + 1];
    qn_columns_params(&r->columns, C_COLUMNS, params);
    params[C_COLUMNS] = grain;
    return qn_store_run(store, SQL, C_COLUMNS + 1, params, NULL);
}

static enum qn_err delete_empty(struct qn_candle_rows *r, struct qn_store *store, struct qn_str grain)
{
    static const char SQL[] =
        "DELETE FROM candles c USING unnest($1::int4[], $2::int8[]) AS u(pair_id, t)"
        " WHERE c.pair_id = u.pair_id AND c.grain = $3::int4 AND c.t = to_timestamp(u.t)";
    struct qn_str params[3];
    qn_columns_params(&r->empty, 2, params);
    params[2] = grain;
    return qn_store_run(store, SQL, 3, params, NULL);
}

enum qn_err qn_candle_rows_write(struct qn_candle_rows *r, struct qn_store *store)
{
    struct qn_buf grain = {0};
    qn_buf_i64(&grain, qn_grain_id(r->grain));
    enum qn_err err = QN_OK;
    if (r->n > 0)
        err = write_candles(r, store, qn_buf_view(&grain));
    if (err == QN_OK && r->n_empty > 0)
        err = delete_empty(r, store, qn_buf_view(&grain));
    qn_buf_free(&grain);
    r->written += r->n;
    r->n = 0;
    r->n_empty = 0;
    qn_columns_reset(&r->columns);
    qn_columns_reset(&r->empty);
    return err;
}

static enum qn_err read_sources(struct qn_str text, struct qn_candle *out)
{
    out->n_sources = 0;
    if (text.n < 2 || text.p[0] != '{' || text.p[text.n - 1] != '}')
        return QN_ECORRUPT;
    const char *p = text.p + 1, *end = text.p + text.n - 1;
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma ? comma : end;
        uint64_t id;
        if (out->n_sources == QN_CANDLE_MAX_SOURCES ||
            qn_str_u64((struct qn_str){p, (size_t)(stop - p)}, INT16_MAX, &id) != QN_OK)
            return QN_ECORRUPT;
        out->sources[out->n_sources++] = (int16_t)id;
        p = comma ? comma + 1 : end;
    }
    return QN_OK;
}

enum qn_err qn_candle_rows_read(const struct qn_rows *rows, size_t row, size_t col, struct qn_candle *out)
{
    mpq_ptr prices[] = {out->open, out->high, out->low, out->close};
    for (size_t i = 0; i < QN_LEN(prices); i++) {
        struct qn_str n = qn_rows_cell(rows, row, col + 2 * i), d = qn_rows_cell(rows, row, col + 2 * i + 1);
        if (qn_num_parse_ratio(prices[i], n, d) != QN_OK)
            return QN_ECORRUPT;
    }
    if (qn_dec_parse(&out->base, qn_rows_cell(rows, row, col + 8), 0) != QN_OK ||
        qn_dec_parse(&out->quote, qn_rows_cell(rows, row, col + 9), 0) != QN_OK ||
        qn_store_i64(rows, row, col + 10, &out->trades) != QN_OK)
        return QN_ECORRUPT;
    out->dust = qn_store_bool(rows, row, col + 12);
    return read_sources(qn_rows_cell(rows, row, col + 11), out);
}
