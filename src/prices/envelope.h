/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The envelope around market data: flags, staleness, ETag, Cache-Control (contract-prices, section 3). Pure.
 */
#ifndef QN_PRICES_ENVELOPE_H
#define QN_PRICES_ENVELOPE_H

#include "market/hot.h"
#include "web/turn.h"

struct qn_envelope {
    struct qn_str data;        /* finished JSON */
    struct qn_str sources;     /* finished JSON */
    int64_t as_of_ms;
    unsigned flags;            /* QN_FLAG_ bits, QN_FLAG_STALE among them */
    bool list;                 /* has `pagination` */
    struct qn_str next;        /* its cursor; p == NULL: null */
};

/* QN_FLAG_STALE or 0: Redis could not be asked; or H is further behind the clock than prices.max_lag; or ahead of it by
 * more than the grace: then somebody's clock is wrong, and what is called closed may not be. */
unsigned qn_envelope_stale(const struct qn_turn *turn, int64_t h_ms);

/* The bits that div:<asset> adds for this quote: text is the key's value, empty when it isn't there. A value that is
 * not of the contract's form counts as absent. */
unsigned qn_envelope_divergence(struct qn_str text, const struct qn_asset *quote);

/* The command that reads a value: its first 64 KiB, and no value of ours is near that. Whatever stands under our key, it
 * can't hold the connection up for longer than that takes. A key that isn't there reads as "". */
struct qn_cmd qn_envelope_get(struct qn_turn *turn, struct qn_str key);
/* The command that reads div:<asset>. */
struct qn_cmd qn_envelope_divergence_cmd(struct qn_turn *turn, const struct qn_asset *asset);

/* Makes turn->rs the 200. etag: what goes between the quotes (the read-time flags are appended here), or p == NULL: a
 * hash over the body. cacheable: the Cache-Control of an anonymous answer; no_store overrules it: what is stale because
 * of Redis or the horizon (qn_envelope_stale) isn't cached, what is only an old observation is. */
void qn_envelope_put(struct qn_turn *turn, const struct qn_envelope *e, struct qn_str etag, struct qn_str cacheable,
                     bool no_store);

#endif
