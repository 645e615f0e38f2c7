/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One connection that stores batches, one transaction a batch:
 *
 *   BEGIN; COPY trade_ids; COPY trades; COPY dirty; upsert of pair_sources (and progress); COMMIT
 *
 * identities first, in the order of their key. It hopes that every trade is new, which costs least. When an identity is
 * there already (23505), it rolls back, asks by way of a temporary table which ones, compares their content with that
 * of what is stored, and stores the rest; it goes on asking until a batch was all new. A batch that lost to a deadlock
 * or a serialization failure is stored again.
 *
 * It moves on while the loop of its connection turns, so that several lanes work in parallel.
 */
#ifndef QN_INGEST_LANE_H
#define QN_INGEST_LANE_H

#include "ingest/batch.h"
#include "link/pgconn.h"

struct qn_lane;

/* What a followed source has reached when a batch is stored: goes into `progress` with it. */
struct qn_lane_mark {
    int16_t source_id;
    int64_t watermark_ms;
    int64_t seen_ms;
};
enum { QN_LANE_MAX_MARKS = 256 };

enum qn_lane_state {
    QN_LANE_IDLE,
    QN_LANE_BUSY,
    QN_LANE_GONE,   /* the store can't be reached any more: what isn't committed is rolled back */
    QN_LANE_BROKEN, /* the store refuses what it is asked: a bug, or a schema that isn't ours */
};

/* stored is called from the loop once a batch is committed, before the lane is idle again. durable: every commit waits
 * for the disk; else the caller makes all of them durable at the end. */
struct qn_lane *qn_lane_new(struct event_base *base, const char *dsn, bool durable,
                            void (*stored)(void *arg, struct qn_batch *batch), void *arg);
void qn_lane_free(struct qn_lane *l);
/* Connects and makes the session ready. Turns the loop. */
QN_MUST enum qn_err qn_lane_connect(struct qn_lane *l, int64_t deadline);

enum qn_lane_state qn_lane_state(const struct qn_lane *l);
/* Starts storing a batch that isn't empty, or marks, or both. Only when IDLE. The batch belongs to the lane until it is
 * idle again; marks are copied. */
void qn_lane_store(struct qn_lane *l, struct qn_batch *batch, const struct qn_lane_mark *marks, size_t n);
/* Why it is GONE or BROKEN, for a message. */
const char *qn_lane_why(const struct qn_lane *l);
/* The connection, to use while the lane is IDLE. */
struct qn_pgconn *qn_lane_conn(struct qn_lane *l);

#endif
