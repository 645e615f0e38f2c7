/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * A candle, exact: built from trades in total order, or from finer candles in order of time
 * (contract-prices, section 2: OHLC, dust). Pure.
 */
#ifndef QN_MARKET_CANDLE_H
#define QN_MARKET_CANDLE_H

#include "base/num.h"

enum { QN_CANDLE_MAX_SOURCES = 64 };

/* Init before use, clear after; not copied by assignment. trades == 0 means empty: then the prices mean nothing. */
struct qn_candle {
    int64_t start;                           /* ms */
    mpq_t open, high, low, close;
    struct qn_dec base, quote;               /* volumes */
    int64_t trades;
    bool dust;                               /* the four prices are of dust: there is nothing else */
    size_t n_sources;
    int16_t sources[QN_CANDLE_MAX_SOURCES];  /* ascending, without duplicates */
};

void qn_candle_init(struct qn_candle *c);
void qn_candle_clear(struct qn_candle *c);
/* Empty again, at this start; keeps the memory. */
void qn_candle_reset(struct qn_candle *c, int64_t start);

/* The next trade in total order (ts, source name, ord, id). Amounts are positive (unpriced trades are never added).
 * A 65th source is not listed, but counted in all else. */
void qn_candle_add_trade(struct qn_candle *c, const mpq_t price, const struct qn_dec *base, const struct qn_dec *quote,
                         int16_t source, bool dust);
/* The next finer candle in order of time. Empty ones change nothing. */
void qn_candle_add_candle(struct qn_candle *c, const struct qn_candle *finer);

#endif
