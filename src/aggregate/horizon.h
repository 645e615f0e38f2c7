/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What is closed: decides, from the rows that the indexers wrote and the time, how far every source is closed, which of
 * them are alive, and which pairs stand still (design, section 6). Pure. All times are ms; the table's -infinity is
 * QN_HORIZON_NEVER.
 *
 * A pair's horizon is the smallest of the clock's closed_until, its own held_until, and the closed_until of the sources
 * it follows: SQL's horizon(), and qn_horizon_of() here. It never goes backwards:
 *  - a source's closed_until never does;
 *  - a pair begins to follow a source only when that doesn't put it back (qn_horizon_joins);
 *  - a pair whose followed sources are all silent is held where it was, and let go when the revived ones caught up.
 */
#ifndef QN_AGGREGATE_HORIZON_H
#define QN_AGGREGATE_HORIZON_H

#include "base/base.h"

#define QN_HORIZON_NEVER INT64_MIN

/* The clock's row (source 0), and what the decisions are taken by. */
struct qn_horizon_clock {
    int64_t now;           /* taken before the dirty rows were read */
    int64_t grace;
    int64_t timeout;       /* of a silent source */
    int64_t closed_until;  /* as of the last tick; qn_horizon_decide sets it */
};

/* A followed source: a row of table progress but the clock's. */
struct qn_horizon_source {
    int16_t id;
    int64_t watermark;     /* everything before it was read */
    int64_t seen_at;
    int64_t closed_until;  /* as of the last tick; qn_horizon_decide sets it and alive */
    bool alive;
};

/* A pair that is held, follows a silent source, or may begin to follow one. */
struct qn_horizon_pair {
    bool fresh;            /* it had no candle yet: no reader ever saw a horizon of it */
    int64_t horizon;       /* as of the last tick; of no meaning when fresh */
    bool held;
    int64_t held_until;
};

/* The start of the minute that ms is in; NEVER stays. */
int64_t qn_horizon_floor(int64_t ms);

/* Moves the clock and every source on. Silent: not seen for more than the timeout, or never; it follows the clock then,
 * and holds nothing back. A source whose watermark ran ahead of the clock is closed as far as the clock. */
void qn_horizon_decide(struct qn_horizon_clock *clock, struct qn_horizon_source *sources, size_t n);

/* Whether a pair begins to follow a source that traded it within a day. Call after qn_horizon_decide. One that has not
 * read as far as the pair's horizon (it reads the past) does not begin to hold it back until it has; one that is silent
 * begins nothing, unless the pair is fresh. */
bool qn_horizon_joins(const struct qn_horizon_clock *clock, const struct qn_horizon_pair *pair,
                      const struct qn_horizon_source *source);

/* Holds the pair or lets it go, from the sources it follows (those that just joined included). Call after
 * qn_horizon_decide. follows: pointers, n of them; n == 0 lets it go. A fresh pair begins where its sources have
 * read. */
void qn_horizon_hold(const struct qn_horizon_clock *clock, struct qn_horizon_pair *pair,
                     const struct qn_horizon_source *const *follows, size_t n);

/* The pair's horizon: what SQL's horizon() gives once the decisions are stored. */
int64_t qn_horizon_of(const struct qn_horizon_clock *clock, const struct qn_horizon_pair *pair,
                      const struct qn_horizon_source *const *follows, size_t n);

#endif
