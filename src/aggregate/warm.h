/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Hot values: which prices are kept in Redis, which of them are due, and writing them a chunk at a time, so that the
 * aggregator's ticks never wait for a long pass. Most traded first. Values come from market/price.c, as the workers'
 * do.
 */
#ifndef QN_AGGREGATE_WARM_H
#define QN_AGGREGATE_WARM_H

#include "aggregate/store.h"
#include "link/redis.h"

struct qn_warm;

/* store, redis and config are borrowed. */
struct qn_warm *qn_warm_new(struct qn_store *store, struct qn_redis *redis, const struct qn_config *config);
void qn_warm_free(struct qn_warm *w);

/* Every value is due: a horizon moved, or the time has come. A pass begins with a new list of what is hot; when one is
 * under way, it is not cut short: the next one follows it. */
void qn_warm_all(struct qn_warm *w);
/* The values of these pairs are due, and of the assets in them: a correction. */
void qn_warm_pairs(struct qn_warm *w, const int32_t *pairs, size_t n);
/* Whether anything is due. */
bool qn_warm_due(const struct qn_warm *w);
/* Monotonic ms when qn_warm_all was last called. */
int64_t qn_warm_since(const struct qn_warm *w);

/* Writes the next chunk. Logs the end of a pass. When Redis is back, everything is due.
 *   QN_OK        written (or refused by Redis, which is logged)
 *   QN_MISS      nothing is due
 *   QN_EUNAVAIL  Redis can't be reached: nothing was done; try again in a second
 *   QN_EPEER, QN_ETIMEOUT, QN_ECANCEL, QN_ECORRUPT  Postgres: the connection must be closed */
QN_MUST enum qn_err qn_warm_step(struct qn_warm *w);
/* Looks whether Redis lost what was written (restarted, flushed): then everything is due. Asks nothing when there is
 * nothing that must still be there. */
void qn_warm_check(struct qn_warm *w);

#endif
