/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The trades that one transaction stores: encoded for COPY as they come in, found again by identity (source, id), and
 * what follows from them: identities, dirty minutes, the newest trade of each pair and source. Pure.
 *
 * Two lines of one identity and content in a batch are one trade and its twin. Which trades are stored already is found
 * out by the lane (lane.h) and marked here; what is marked is left out of all that is made afterwards.
 */
#ifndef QN_INGEST_BATCH_H
#define QN_INGEST_BATCH_H

#include "base/arena.h"
#include "base/buf.h"
#include "ingest/trade.h"

struct qn_batch;

/* max: lines that fit. */
struct qn_batch *qn_batch_new(size_t max);
void qn_batch_free(struct qn_batch *b);
/* Empty again; keeps the memory. */
void qn_batch_reset(struct qn_batch *b);

/* A hash of an identity, for qn_batch_add and to choose a lane by. */
uint64_t qn_batch_hash(int16_t source_id, struct qn_str id);

enum qn_batch_added {
    QN_BATCH_ADDED,
    QN_BATCH_FULL,     /* not added: store the batch first */
    QN_BATCH_CONFLICT, /* not added: its identity is there with other content; store the batch, then it can be judged */
};
enum qn_batch_added qn_batch_add(struct qn_batch *b, const struct qn_trade *t, uint64_t hash, int16_t source_id,
                                 int32_t pair_id, uint64_t line);
/* Lines in it, twins and marked ones included. */
size_t qn_batch_lines(const struct qn_batch *b);
/* Trades in it that are not marked. */
size_t qn_batch_trades(const struct qn_batch *b);

/* Marks the trade of this identity as stored already: same content or other. QN_MISS: it isn't here, or marked. */
QN_MUST enum qn_err qn_batch_mark(struct qn_batch *b, int16_t source_id, struct qn_str id, bool same);

/* What became of the lines, if what isn't marked is stored now. */
struct qn_batch_counts {
    uint64_t stored, duplicates, refused;
    uint64_t unpriced, mismatches; /* of those stored */
};
struct qn_batch_counts qn_batch_count(const struct qn_batch *b);
/* Calls refused for the line of each trade that was marked as stored with other content, and for its twins'. */
void qn_batch_refused(const struct qn_batch *b, void (*refused)(void *arg, uint64_t line), void *arg);

/* COPY data of what isn't marked, valid until the next call on b. */
#define QN_BATCH_TRADE_COLUMNS \
    "source_id, trade_id, ord, ts, pair_id, base_amount, quote_amount, price_n, price_d, flags"
struct qn_str qn_batch_copy_trades(struct qn_batch *b);
/* trade_ids (source_id, trade_id, ts), in the order of the key: two writers of the same identities can't deadlock. */
struct qn_str qn_batch_copy_ids(struct qn_batch *b);
/* dirty (pair_id, minute): each once, in order; *n of them. Unpriced trades make none. */
struct qn_str qn_batch_copy_dirty(struct qn_batch *b, size_t *n);

/* What isn't marked, by pair and source in order: arrays in Postgres' text form, in arena, for the upsert of
 * pair_sources: pair, source, first ts, then last ts, ord, id, base_amount, quote_amount, price_n, price_d, of the last
 * trade by (ts, ord, id). */
enum { QN_BATCH_PAIR_ARRAYS = 10 };
void qn_batch_pairs(struct qn_batch *b, struct qn_arena *arena, struct qn_str arrays[QN_BATCH_PAIR_ARRAYS]);

#endif
