/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Trades to candles: makes the candles of given minutes again, and all coarser ones that they are part of, from what
 * the tables hold now. The same trades give the same candles, in whatever order and however often it is done.
 */
#ifndef QN_AGGREGATE_REBUILD_H
#define QN_AGGREGATE_REBUILD_H

#include "aggregate/buckets.h"
#include "aggregate/candle_rows.h"
#include "aggregate/store.h"

/* Within the transaction that is open. minutes: in order (qn_bucket_cmp), each once; their candles, then those of each
 * coarser grain, are written. The array is used up: it holds other buckets afterwards. Memory is bounded by n, however
 * many trades the minutes hold. *candles: how many were written. QN_ECORRUPT: a row that isn't of our form. */
QN_MUST enum qn_err qn_rebuild(struct qn_store *store, struct qn_bucket *minutes, size_t n, size_t *candles);

#endif
