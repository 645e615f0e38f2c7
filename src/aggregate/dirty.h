/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The minutes that are to be made again: table dirty, read in batches ordered by pair and minute, so that a coarse
 * candle is made again once and not in every batch. What is read is deleted by its ids, never as a set of minutes: a
 * row that another session commits meanwhile, with whatever id, stays.
 */
#ifndef QN_AGGREGATE_DIRTY_H
#define QN_AGGREGATE_DIRTY_H

#include "aggregate/buckets.h"
#include "aggregate/columns.h"
#include "aggregate/store.h"

/* Which part of the table: minutes from a moment on (they close next), or before it (late ones). */
enum qn_dirty_part { QN_DIRTY_OPEN, QN_DIRTY_LATE };

/* A batch. Zero-initialised is valid; clear after use. */
struct qn_dirty {
    size_t rows;
    struct qn_columns ids;
    struct qn_bucket *minutes;   /* in order, each once */
    size_t n;
    size_t cap;
};

void qn_dirty_clear(struct qn_dirty *d);
/* Opens the part: the rows that are committed now. It stays open over transactions, until it is closed or the
 * connection is. Not within a transaction. */
QN_MUST enum qn_err qn_dirty_open(struct qn_store *store, enum qn_dirty_part part, int64_t from);
QN_MUST enum qn_err qn_dirty_close(struct qn_store *store, enum qn_dirty_part part);
/* The next batch, of at most max rows; rows == 0: there are no more. */
QN_MUST enum qn_err qn_dirty_next(struct qn_dirty *d, struct qn_store *store, enum qn_dirty_part part, int max);
/* Deletes the batch's rows, within the transaction that is open. Once a batch. */
QN_MUST enum qn_err qn_dirty_delete(struct qn_dirty *d, struct qn_store *store);

#endif
