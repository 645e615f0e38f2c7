/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "market/candle.h"

void qn_candle_init(struct qn_candle *c)
{
    mpq_inits(c->open, c->high, c->low, c->close, NULL);
    qn_dec_init(&c->base);
    qn_dec_init(&c->quote);
    c->start = 0;
    c->trades = 0;
    c->dust = false;
    c->n_sources = 0;
}

void qn_candle_clear(struct qn_candle *c)
{
    mpq_clears(c->open, c->high, c->low, c->close, NULL);
    qn_dec_clear(&c->base);
    qn_dec_clear(&c->quote);
}

void qn_candle_reset(struct qn_candle *c, int64_t start)
{
    mpz_set_ui(c->base.m, 0);
    c->base.scale = 0;
    mpz_set_ui(c->quote.m, 0);
    c->quote.scale = 0;
    c->start = start;
    c->trades = 0;
    c->dust = false;
    c->n_sources = 0;
}

static void add_source(struct qn_candle *c, int16_t source)
{
    size_t at = c->n_sources;
    while (at > 0 && c->sources[at - 1] > source)
        at--;
    if ((at > 0 && c->sources[at - 1] == source) || c->n_sources == QN_CANDLE_MAX_SOURCES)
        return;
    memmove(&c->sources[at + 1], &c->sources[at], (c->n_sources - at) * sizeof(c->sources[0]));
    c->sources[at] = source;
    c->n_sources++;
}

/* Whether prices of that kind start the candle's prices anew: the first ones, and the first that are not dust after
 * nothing but dust. Sets the kind. */
static bool starts_prices(struct qn_candle *c, bool dust)
{
    if (c->trades != 0 && (!c->dust || dust))
        return false;
    c->dust = dust;
    return true;
}

void qn_candle_add_trade(struct qn_candle *c, const mpq_t price, const struct qn_dec *base, const struct qn_dec *quote,
                         int16_t source, bool dust)
{
    if (starts_prices(c, dust)) {
        mpq_set(c->open, price);
        mpq_set(c->high, price);
        mpq_set(c->low, price);
        mpq_set(c->close, price);
    } else if (c->dust == dust) {
        if (mpq_cmp(price, c->high) > 0)
            mpq_set(c->high, price);
        if (mpq_cmp(price, c->low) < 0)
            mpq_set(c->low, price);
        mpq_set(c->close, price);
    }
    qn_dec_add(&c->base, base);
    qn_dec_add(&c->quote, quote);
    c->trades++;
    add_source(c, source);
}

void qn_candle_add_candle(struct qn_candle *c, const struct qn_candle *finer)
{
    if (finer->trades == 0)
        return;
    if (starts_prices(c, finer->dust)) {
        mpq_set(c->open, finer->open);
        mpq_set(c->high, finer->high);
        mpq_set(c->low, finer->low);
        mpq_set(c->close, finer->close);
    } else if (c->dust == finer->dust) {
        if (mpq_cmp(finer->high, c->high) > 0)
            mpq_set(c->high, finer->high);
        if (mpq_cmp(finer->low, c->low) < 0)
            mpq_set(c->low, finer->low);
        mpq_set(c->close, finer->close);
    }
    qn_dec_add(&c->base, &finer->base);
    qn_dec_add(&c->quote, &finer->quote);
    c->trades += finer->trades;
    for (size_t i = 0; i < finer->n_sources; i++)
        add_source(c, finer->sources[i]);
}
