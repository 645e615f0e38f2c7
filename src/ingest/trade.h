/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * A trade: what a source says of it, checked, turned into its market's stored direction, priced
 * (contract-prices, sections 1, 2 and 8). Pure.
 */
#ifndef QN_INGEST_TRADE_H
#define QN_INGEST_TRADE_H

#include "base/asset.h"
#include "base/config.h"
#include "base/num.h"
#include "ingest/ord.h"

enum { QN_TRADE_SOURCE_MAX = 32 };

/* What the column trades.flags holds. */
enum {
    QN_TRADE_UNPRICED = 1, /* an amount is zero or negative: kept, never priced */
    QN_TRADE_DUST = 2,     /* the price is only the ratio of amounts so small that rounding moves it by over 1 % */
    QN_TRADE_MISMATCH = 4, /* the source's n/d contradicts the amounts */
    QN_TRADE_QUOTED = 8,   /* the price is the source's n/d, and not merely the ratio of the amounts */
};

/* A market in stored direction; flip: what was asked for is the inverse of it. */
struct qn_trade_market {
    struct qn_asset base, quote;
    bool flip;
};

/* Reads the two sides of a market in any spelling. QN_EINVAL: *why is a static text ("base is not an asset"). */
QN_MUST enum qn_err qn_trade_market_read(const struct qn_config *config, struct qn_str base, struct qn_str quote,
                                         struct qn_trade_market *out, const char **why);

/* A trade as its source tells it: its direction, its text. p == NULL is absent; all but the two of the price must be
 * there. */
struct qn_trade_text {
    struct qn_str id, source;
    struct qn_str base_amount, quote_amount;
    struct qn_str price_n, price_d;
    int64_t ts_ms;
};

/* A trade in stored direction. Init before use, clear after; read over and over; not copied by assignment. id, source
 * and the amounts are borrowed from the text that was read. */
struct qn_trade {
    struct qn_str id, source;
    int64_t ts_ms;
    struct qn_str base_amount, quote_amount; /* as written: the digits after the point are their ulp */
    unsigned flags;
    mpq_t price;                             /* lowest terms; means nothing when QN_TRADE_UNPRICED */
    size_t ord_len;
    unsigned char ord[QN_ORD_MAX];
    struct qn_dec base, quote;               /* the amounts' values */
    mpz_t x, y, z, left, right;              /* workspace */
};

void qn_trade_init(struct qn_trade *t);
void qn_trade_clear(struct qn_trade *t);

/* Reads a trade of a market whose stored direction is the inverse when flip. scale and dust_units decide what is dust:
 * the digits after the point of the source's amounts (-1: it has no dust) and prices.dust_units. now_ms is the wall
 * clock. QN_EINVAL: *why is a static text that says what is wrong; *t means nothing then. */
QN_MUST enum qn_err qn_trade_read(struct qn_trade *t, const struct qn_trade_text *in, bool flip, int scale,
                                  int64_t dust_units, int64_t now_ms, const char **why);

/* Whether a moment can be a trade's: not before 2009, not more than 5 minutes ahead of now. */
bool qn_trade_ts_valid(int64_t ts_ms, int64_t now_ms);
/* Whether text is a source's name: [a-z0-9._-]{1,32}. */
bool qn_trade_source_valid(struct qn_str text);

#endif
