/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The sources that one run has met: their numbers and scales, and, when the input is followed, how far each has come
 * and who may follow it (design, section 6).
 */
#ifndef QN_INGEST_SOURCES_H
#define QN_INGEST_SOURCES_H

#include "ingest/lane.h"
#include "link/redis.h"

struct qn_sources;

/* In order of appearance. watermark_ms and seen_ms mean something from the first line on. */
struct qn_source {
    char name[QN_TRADE_SOURCE_MAX + 1];
    int16_t id;            /* 0: Postgres was not asked yet */
    int scale;             /* of its amounts, -1: none */
    bool locked;           /* this process follows it */
    bool moved;            /* there was a line since qn_sources_marks */
    int64_t watermark_ms;  /* its newest trade or watermark; INT64_MIN: none */
    int64_t event_ms;      /* its newest trade; INT64_MIN: none */
    int64_t seen_ms;       /* when its last line came */
};

struct qn_sources *qn_sources_new(const struct qn_config *config);
void qn_sources_free(struct qn_sources *s);

/* The source of this name, which must be a valid one; made if it's new. NULL: it would be one more than
 * QN_LANE_MAX_MARKS. Valid until the next call. */
struct qn_source *qn_sources_get(struct qn_sources *s, struct qn_str name);

/* A trade's line came; a watermark's line came, for one source or, source == NULL, for all, also those yet to come. */
void qn_sources_trade(struct qn_source *source, int64_t ts_ms, int64_t now_ms);
void qn_sources_watermark(struct qn_sources *s, struct qn_source *source, int64_t ts_ms, int64_t now_ms);

/* What has moved since the last call, of sources that have a number. out has room for QN_LANE_MAX_MARKS. */
size_t qn_sources_marks(struct qn_sources *s, struct qn_lane_mark *out);

/* Writes health:<source> of every source that has moved to Redis, best effort: call it before qn_sources_marks. */
void qn_sources_health(const struct qn_sources *s, struct qn_redis *redis, int64_t now_ms);

#endif
