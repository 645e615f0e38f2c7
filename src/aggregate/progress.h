/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The rows that the horizon is decided from, and the ones that say what was decided: progress, pair_followed and pairs'
 * held_until. horizon.c decides.
 */
#ifndef QN_AGGREGATE_PROGRESS_H
#define QN_AGGREGATE_PROGRESS_H

#include "aggregate/columns.h"
#include "aggregate/horizon.h"
#include "aggregate/store.h"
#include "base/config.h"

struct qn_progress_was;

/* Zero-initialised is valid; clear after use. */
struct qn_progress {
    struct qn_horizon_clock clock;
    struct qn_horizon_source *sources;
    struct qn_progress_was *was;   /* what the table said, by the side of sources */
    size_t n;
    int64_t was_clock;
    int64_t store_now;             /* Postgres's clock */
    bool ahead;                    /* this host's clock is ahead of it; said once */
    int64_t open_from;             /* no pair is closed beyond it: what lies before is late for every pair */
    bool changed;                  /* something is to be stored */
    bool moved;                    /* … that a reader can see: a horizon, or a source that fell silent or came back */
    struct qn_columns hold;        /* pair, held_until (s) */
    struct qn_columns release;     /* pair */
    struct qn_columns join;        /* pair, source */
};

void qn_progress_clear(struct qn_progress *p);
/* Reads the rows and decides. now: wall ms, taken before. Must come before the dirty rows are read: a watermark
 * promises only the trades that were committed with it or earlier. Logs sources that fell silent or came back. */
QN_MUST enum qn_err qn_progress_load(struct qn_progress *p, struct qn_store *store, const struct qn_config *config,
                                     int64_t now);
/* Stores what was decided, within the transaction that is open. */
QN_MUST enum qn_err qn_progress_store(struct qn_progress *p, struct qn_store *store);

#endif
