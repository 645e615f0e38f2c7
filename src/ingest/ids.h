/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The numbers that Postgres has for sources and markets, made on first need and remembered, and the partition of a month.
 * Each is a transaction of its own (autocommit), so that two processes that meet the same new name both end up with its
 * one number. Whatever asks Postgres turns the loop.
 */
#ifndef QN_INGEST_IDS_H
#define QN_INGEST_IDS_H

#include "ingest/trade.h"
#include "link/pgconn.h"

struct qn_ids;

/* Both are borrowed; pg must be connected when Postgres is asked. */
struct qn_ids *qn_ids_new(const struct qn_config *config, struct qn_pgconn *pg);
void qn_ids_free(struct qn_ids *ids);

/* These three return what qn_pgconn_run returns, or QN_ECORRUPT: the answer isn't one number. */
QN_MUST enum qn_err qn_ids_source(struct qn_ids *ids, struct qn_str name, int16_t *id);

/* A market as a line writes it. Found first, which asks nobody, and numbered when the whole line is known to be good: a
 * bad line leaves nothing in the store. */
enum { QN_IDS_MARKET_NAME = 2 * 128 };
struct qn_ids_market {
    bool flip;                     /* it is the inverse of the stored direction */
    int32_t pair_id;               /* once numbered; 0: not yet */
    struct qn_trade_market sides;  /* unless numbered */
    size_t n;                      /* of name; 0: too long to be remembered */
    char name[QN_IDS_MARKET_NAME]; /* base, newline, quote, as written */
};
/* QN_EINVAL: it isn't a market; *why is a static text. */
QN_MUST enum qn_err qn_ids_find(struct qn_ids *ids, struct qn_str base, struct qn_str quote, struct qn_ids_market *m,
                                const char **why);
QN_MUST enum qn_err qn_ids_number(struct qn_ids *ids, struct qn_ids_market *m);

/* Makes sure that a trade of this moment has a partition to go to. */
QN_MUST enum qn_err qn_ids_partition(struct qn_ids *ids, int64_t ts_ms);

#endif
