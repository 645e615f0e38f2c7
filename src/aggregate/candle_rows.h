/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Candles as rows of table candles: written by one statement for many, read back cell by cell.
 */
#ifndef QN_AGGREGATE_CANDLE_ROWS_H
#define QN_AGGREGATE_CANDLE_ROWS_H

#include "aggregate/columns.h"
#include "aggregate/store.h"
#include "base/when.h"
#include "market/candle.h"

/* Buckets of one grain that are ready to be written; kept until there are so many. */
enum { QN_CANDLE_ROWS_FULL = 4000 };

struct qn_candle_rows {
    enum qn_grain grain;
    size_t n;                     /* candles */
    struct qn_columns columns;
    size_t n_empty;               /* buckets without a priced trade: there must be no candle */
    struct qn_columns empty;
    size_t written;               /* candles, since init */
};

void qn_candle_rows_init(struct qn_candle_rows *r);
void qn_candle_rows_clear(struct qn_candle_rows *r);
/* Adds a bucket of r->grain: a candle, or (trades == 0) the fact that there is none. */
void qn_candle_rows_put(struct qn_candle_rows *r, int32_t pair, const struct qn_candle *candle);
static inline bool qn_candle_rows_full(const struct qn_candle_rows *r)
{
    return r->n >= QN_CANDLE_ROWS_FULL || r->n_empty >= QN_CANDLE_ROWS_FULL;
}
/* Writes what was put, within the transaction that is open; version goes up. A bucket may be put once a write. */
QN_MUST enum qn_err qn_candle_rows_write(struct qn_candle_rows *r, struct qn_store *store);

/* The columns that qn_candle_rows_read reads, in SQL. */
#define QN_CANDLE_ROWS_COLUMNS \
    "c.open_n, c.open_d, c.high_n, c.high_d, c.low_n, c.low_d, c.close_n, c.close_d, c.base_volume, c.quote_volume," \
    " c.trades, c.sources, c.dust"
/* Reads them from column col on into an initialised candle (start is left). QN_ECORRUPT. */
QN_MUST enum qn_err qn_candle_rows_read(const struct qn_rows *rows, size_t row, size_t col, struct qn_candle *out);

#endif
