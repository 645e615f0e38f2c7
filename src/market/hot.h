/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The hot value: what Redis holds under price: and vwap: (contract-prices, section 9), and the exact sums it is made of.
 *
 *   line 1  1 <H ms> <observed ms> <flag bits, hex> <etag16>
 *   line 2  the exact sums and n/d pairs that the inverse needs
 *   line 3  `data`, finished JSON
 *   line 4  `sources`, finished JSON
 *
 * A reader splits at newlines and copies lines 3 and 4; only an inverse is computed, from line 2, by the function that
 * wrote line 3. Pure.
 */
#ifndef QN_MARKET_HOT_H
#define QN_MARKET_HOT_H

#include "base/asset.h"
#include "base/num.h"

/* Flag bits of line 1 and of the envelope. */
enum {
    QN_FLAG_TRIANGULATED = 1,
    QN_FLAG_DIVERGENCE_WARNING = 2,
    QN_FLAG_DIVERGENCE_CHECKED = 4,
    QN_FLAG_REDUCED_REDUNDANCY = 8,
    QN_FLAG_SINGLE_SOURCE = 16,
    QN_FLAG_LAST_TRADE = 32, /* price_type last_trade: stale by definition */
    QN_FLAG_STALE = 64,      /* never stored: known when read */
};

/* What a price consists of, in the direction asked. Init before use, clear after. */
struct qn_sums {
    bool last_trade;        /* price is the newest close, not a VWAP */
    int window;             /* seconds, as asked */
    int64_t h_ms;
    int64_t observed_ms;
    mpq_t price;            /* > 0 */
    struct qn_dec base;     /* the window's volumes; 0 for last_trade */
    struct qn_dec quote;    /* of a hop: the asset's own leg's, in native */
    int64_t trades;
    struct qn_dec day_base; /* [H - 24 h, H) */
    struct qn_dec day_quote;
    int64_t day_trades;
    bool has_reference;     /* a price of a day before exists */
    mpq_t reference;        /* > 0 */
    bool hop;
    mpq_t second;           /* of a hop: native in the quote; volumes in the quote are quote * second */
};

void qn_sums_init(struct qn_sums *s);
void qn_sums_clear(struct qn_sums *s);
/* Turns a direct market's sums round. Not for hops (they are never stored in a market's direction). */
void qn_sums_invert(struct qn_sums *s);

/* A hot value's parts; text is borrowed from where it was read or made. */
struct qn_hot {
    int64_t h_ms;
    int64_t observed_ms;
    unsigned flags;         /* without QN_FLAG_STALE */
    struct qn_str etag;     /* 16 hex */
    struct qn_str sums;     /* line 2 */
    struct qn_str data;     /* line 3 */
    struct qn_str sources;  /* line 4 */
    struct qn_str text;     /* the whole value */
};

/* Makes the value in arena: `asset` and `quote` are what data names; sources are names in order. Etag = BLAKE2b (8 bytes,
 * hex) over all of it but itself. */
void qn_hot_make(struct qn_arena *arena, const struct qn_sums *s, struct qn_str asset, struct qn_str quote,
                 unsigned flags, const struct qn_str *sources, size_t n_sources, struct qn_hot *out);
/* Splits a stored value. QN_ECORRUPT: not of this form, or the etag isn't that of the rest. */
QN_MUST enum qn_err qn_hot_read(struct qn_str text, struct qn_hot *out);
/* Computes the value of the other direction from lines 1, 2 and 4. QN_ECORRUPT: line 2 is not of our form, or a hop. */
QN_MUST enum qn_err qn_hot_invert(struct qn_arena *arena, const struct qn_hot *hot, struct qn_str asset,
                                  struct qn_str quote, struct qn_hot *out);

#endif
