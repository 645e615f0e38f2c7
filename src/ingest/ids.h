/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The numbers that Postgres has for sources and pairs, made on first need, and the partition of a month. Each is a
 * transaction of its own (autocommit) on the connection given, so that two processes that meet the same new name both
 * end up with its one number. Turns the loop.
 */
#ifndef QN_INGEST_IDS_H
#define QN_INGEST_IDS_H

#include "base/asset.h"
#include "link/pgconn.h"

/* All return what qn_pgconn_run returns, or QN_ECORRUPT: the answer isn't one number. arena is the caller's workspace;
 * it is reset. */
QN_MUST enum qn_err qn_ids_source(struct qn_pgconn *pg, struct qn_arena *arena, struct qn_str name, int16_t *id);
QN_MUST enum qn_err qn_ids_pair(struct qn_pgconn *pg, struct qn_arena *arena, const struct qn_asset *base,
                                const struct qn_asset *quote, int32_t *id);
/* Makes sure that a trade of this moment can be stored. */
QN_MUST enum qn_err qn_ids_partition(struct qn_pgconn *pg, struct qn_arena *arena, int64_t ts_ms);

#endif
