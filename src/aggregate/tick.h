/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What the aggregator does to Postgres: dirty minutes to candles, and the horizon. A tick makes all minutes that were
 * not closed yet, and commits the horizon with the last of them; so what a reader sees closed is complete. Late minutes
 * lie before every pair's horizon: they are made between ticks, so that a bulk import doesn't make the horizon stand
 * still.
 */
#ifndef QN_AGGREGATE_TICK_H
#define QN_AGGREGATE_TICK_H

#include "aggregate/dirty.h"
#include "aggregate/progress.h"

struct qn_tick_counts {
    int64_t rows;          /* dirty rows */
    int64_t minutes;
    int64_t candles;       /* written, of all grains */
    int64_t corrections;   /* minutes that were closed already */
};

/* Zero-initialise, set store and config; clear after use. */
struct qn_tick {
    struct qn_store *store;
    const struct qn_config *config;
    const volatile bool *stop;   /* looked at between batches: QN_ECANCEL */
    struct qn_progress progress;
    struct qn_dirty dirty;
    bool late_open;
    int64_t late_from;
    struct qn_tick_counts counts;
    int32_t *touched;            /* pairs with corrections, since the caller set n_touched to 0 */
    size_t n_touched;
    size_t cap_touched;
};

void qn_tick_clear(struct qn_tick *t);
/* The connection is another one: nothing is open on it. */
void qn_tick_reset(struct qn_tick *t);
/* One tick as of now (wall ms). *moved: whether it changed what a reader can see of any horizon. Logs what it did. On
 * any error the connection must be closed. */
QN_MUST enum qn_err qn_tick_run(struct qn_tick *t, int64_t now, bool *moved);
/* One batch of late minutes. QN_MISS: there are none. Errors as above. */
QN_MUST enum qn_err qn_tick_late(struct qn_tick *t);

#endif
