/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/trade.h"

static const int64_t earliest_ms = INT64_C(1230768000000); /* 2009-01-01 */
static const int64_t ahead_ms = INT64_C(5) * 60 * 1000;

enum qn_err qn_trade_market_read(const struct qn_config *config, struct qn_str base, struct qn_str quote,
                                 struct qn_trade_market *out, const char **why)
{
    struct qn_asset a, b;
    if (qn_asset_parse(config, base, &a)) {
        *why = "base is not an asset";
        return QN_EINVAL;
    }
    if (qn_asset_parse(config, quote, &b)) {
        *why = "quote is not an asset";
        return QN_EINVAL;
    }
    if (qn_asset_same_family(config, &a, &b)) {
        *why = "base and quote are the same asset";
        return QN_EINVAL;
    }
    out->flip = qn_asset_stored(&a, &b, &out->base, &out->quote);
    return QN_OK;
}

void qn_trade_init(struct qn_trade *t)
{
    memset(t, 0, sizeof *t);
    mpq_init(t->price);
    qn_dec_init(&t->base);
    qn_dec_init(&t->quote);
    mpz_inits(t->x, t->y, t->z, t->left, t->right, NULL);
}

void qn_trade_clear(struct qn_trade *t)
{
    mpq_clear(t->price);
    qn_dec_clear(&t->base);
    qn_dec_clear(&t->quote);
    mpz_clears(t->x, t->y, t->z, t->left, t->right, NULL);
}

bool qn_trade_ts_valid(int64_t ts_ms, int64_t now_ms)
{
    return ts_ms >= earliest_ms && ts_ms <= now_ms + ahead_ms;
}

bool qn_trade_source_valid(struct qn_str text)
{
    if (text.n < 1 || text.n > QN_TRADE_SOURCE_MAX)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

static bool id_valid(struct qn_str id)
{
    if (id.n < 1 || id.n > QN_ORD_ID_MAX)
        return false;
    for (size_t i = 0; i < id.n; i++) {
        if (id.p[i] < 0x20 || id.p[i] > 0x7e)
            return false;
    }
    return true;
}

/* A positive integer of at most 40 digits into z, which t owns. */
static bool read_positive(struct qn_trade *t, mpz_ptr z, struct qn_str text)
{
    if (text.n < 1 || text.n > QN_DEC_MAX_DIGITS)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
    }
    if (qn_dec_parse(&t->base, text, QN_DEC_MAX_DIGITS) || qn_dec_sign(&t->base) == 0)
        return false;
    mpz_swap(z, t->base.m);
    return true;
}

static void scale_up(mpz_ptr z, unsigned digits)
{
    if (digits == 0)
        return;
    mpz_t power;
    mpz_init(power);
    mpz_ui_pow_ui(power, 10, digits);
    mpz_mul(z, z, power);
    mpz_clear(power);
}

/* Leaves n/d, which is in t->price, if it agrees with the amounts, |n/d * base - quote| <= ulp(quote) + n/d *
 * ulp(base), else puts quote/base there; quoted false: there is no n/d. All is multiplied by d and the scales: nothing
 * is divided. */
static void choose_price(struct qn_trade *t, bool quoted)
{
    unsigned sb = t->base.scale, sq = t->quote.scale;
    unsigned up_base = sq > sb ? sq - sb : 0, up_quote = sb > sq ? sb - sq : 0;
    mpz_set(t->x, t->base.m);
    scale_up(t->x, up_base);
    mpz_set(t->y, t->quote.m);
    scale_up(t->y, up_quote);
    if (quoted) {
        mpz_ptr n = mpq_numref(t->price), d = mpq_denref(t->price);
        mpz_mul(t->left, n, t->x);
        mpz_submul(t->left, d, t->y);
        if (mpz_sgn(t->left) == 0) {
            mpq_canonicalize(t->price); /* the ratio of the amounts in other words */
            return;
        }
        mpz_set(t->right, d);
        scale_up(t->right, up_quote);
        mpz_set(t->z, n);
        scale_up(t->z, up_base);
        mpz_add(t->right, t->right, t->z);
        if (mpz_cmpabs(t->left, t->right) <= 0) {
            mpq_canonicalize(t->price);
            t->flags |= QN_TRADE_QUOTED;
            return;
        }
        t->flags |= QN_TRADE_MISMATCH;
    }
    mpz_set(mpq_numref(t->price), t->y);
    mpz_set(mpq_denref(t->price), t->x);
    mpq_canonicalize(t->price);
}

/* x < units * 10^-scale, for a positive x. */
static bool fewer_units(struct qn_trade *t, const struct qn_dec *x, int scale, int64_t units)
{
    mpz_set(t->left, x->m);
    scale_up(t->left, (unsigned)scale);
    mpz_set_ui(t->right, 1);
    scale_up(t->right, x->scale);
    mpz_mul_si(t->right, t->right, (long)units);
    return mpz_cmp(t->left, t->right) < 0;
}

enum qn_err qn_trade_read(struct qn_trade *t, const struct qn_trade_text *in, bool flip, int scale,
                          int64_t dust_units, int64_t now_ms, const char **why)
{
    if (!id_valid(in->id)) {
        *why = "id is not 1 to 128 printable ASCII characters";
        return QN_EINVAL;
    }
    if (!qn_trade_source_valid(in->source)) {
        *why = "source is not 1 to 32 of a-z 0-9 . _ -";
        return QN_EINVAL;
    }
    if (!qn_trade_ts_valid(in->ts_ms, now_ms)) {
        *why = in->ts_ms < earliest_ms ? "ts is before 2009" : "ts is more than 5 minutes ahead of the clock";
        return QN_EINVAL;
    }
    bool quoted = in->price_n.p || in->price_d.p;
    if (quoted) {
        if (!in->price_n.p || !in->price_d.p) {
            *why = "price_n and price_d must come together";
            return QN_EINVAL;
        }
        if (!read_positive(t, mpq_numref(t->price), flip ? in->price_d : in->price_n) ||
            !read_positive(t, mpq_denref(t->price), flip ? in->price_n : in->price_d)) {
            *why = "price_n and price_d must be positive integers of at most 40 digits";
            return QN_EINVAL;
        }
    }
    t->base_amount = flip ? in->quote_amount : in->base_amount;
    t->quote_amount = flip ? in->base_amount : in->quote_amount;
    if (qn_dec_parse(&t->base, t->base_amount, QN_DEC_MAX_DIGITS) ||
        qn_dec_parse(&t->quote, t->quote_amount, QN_DEC_MAX_DIGITS)) {
        *why = "an amount is not a plain decimal number of at most 40 digits";
        return QN_EINVAL;
    }
    t->id = in->id;
    t->source = in->source;
    t->ts_ms = in->ts_ms;
    t->ord_len = qn_ord_encode(in->id, t->ord);
    t->flags = 0;
    if (qn_dec_sign(&t->base) <= 0 || qn_dec_sign(&t->quote) <= 0) {
        t->flags = QN_TRADE_UNPRICED;
        return QN_OK;
    }
    choose_price(t, quoted);
    if (scale >= 0 && !(t->flags & QN_TRADE_QUOTED) &&
        (fewer_units(t, &t->base, scale, dust_units) || fewer_units(t, &t->quote, scale, dust_units)))
        t->flags |= QN_TRADE_DUST;
    return QN_OK;
}
