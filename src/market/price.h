/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * From an asset and a quote to hot values: which markets answer, the one statement that asks for their sums, and the
 * choice of path (contract-prices, section 1: reference quote). The cold path of the workers and the aggregator's hot
 * values both go through here, so that they are the same bytes. Pure.
 */
#ifndef QN_MARKET_PRICE_H
#define QN_MARKET_PRICE_H

#include "base/config.h"
#include "link/command.h"
#include "market/hot.h"

/* One price asked for. The two are not of one family. */
struct qn_price_ask {
    struct qn_asset asset;
    struct qn_asset quote;
    bool resolve;      /* quote is the reference quote: stand-ins and one hop count too; else the literal market */
};

struct qn_price_answer {
    enum qn_err err;   /* QN_OK, or QN_MISS: no trade of any age */
    struct qn_hot hot; /* in arena */
};

/* The query for n asks times nw windows (seconds); its parameters are in arena. */
struct qn_query qn_price_query(const struct qn_config *config, struct qn_arena *arena, const struct qn_price_ask *asks,
                               size_t n, const int *windows, size_t nw);
/* Whether this market is native's leg of the hop in the reference quote: any asset's price there may depend on it. */
bool qn_price_carries_hops(const struct qn_config *config, const struct qn_asset *base, const struct qn_asset *quote);
/* Reads its rows: out[ask * nw + window], an array in arena. QN_ECORRUPT: rows that are not of that query. */
QN_MUST enum qn_err qn_price_answers(struct qn_arena *arena,
                                     const struct qn_price_ask *asks, size_t n, const int *windows, size_t nw,
                                     const struct qn_rows *rows, struct qn_price_answer **out);

#endif
