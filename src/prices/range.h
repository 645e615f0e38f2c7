/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What answers over a range of one market share: the resolved range, its cursor, coverage, cacheability
 * (contract-prices, sections 3 and 4). Pure.
 */
#ifndef QN_PRICES_RANGE_H
#define QN_PRICES_RANGE_H

#include "prices/cursor.h"
#include "prices/envelope.h"
#include "prices/params.h"

enum { QN_RANGE_COLUMNS = 7 };

/* The first columns of a range statement's rows (market/statements.c). */
struct qn_range_head {
    int64_t h_ms;
    bool reduced;
    int64_t from_ms, to_ms;         /* resolved */
    bool covered;                   /* anything of the range was ingested */
    int64_t since_ms, till_ms;      /* coverage, clipped to the range */
    bool pending;                   /* trades of the range wait to be aggregated: it will change */
    size_t n;                       /* rows with data */
};

/* 400 invalid-cursor. */
QN_MUST enum qn_want qn_range_bad_cursor(struct qn_turn *turn);

/* Reads `cursor` if it is given, for a query that is identified by `query`: sets range from it and *key to the last row's
 * (else p == NULL). False: answered 400 invalid-cursor (of another query, or at odds with from, to or order). */
QN_MUST bool qn_range_cursor(struct qn_turn *turn, struct qn_str query, bool order_given, struct qn_range *range,
                             struct qn_str *key, enum qn_want *want);

/* What a range asks of Redis, until it is served from there: the divergence of its base. So an answer knows whether Redis
 * could be asked. */
QN_MUST enum qn_want qn_range_ask_redis(struct qn_turn *turn, const struct qn_asset *base);
/* The flag bits that the reply to it adds. */
unsigned qn_range_divergence(enum qn_err err, const struct qn_val *r, size_t n, const struct qn_asset *quote);

/* Milliseconds, or SQL NULL where has is false. */
struct qn_str qn_range_param(struct qn_arena *arena, bool has, int64_t ms);

/* QN_MISS: nothing is aggregated yet, there is no H. QN_ECORRUPT: not rows of a range statement. */
QN_MUST enum qn_err qn_range_read(const struct qn_rows *rows, size_t ncols, const struct qn_range *range,
                                  struct qn_range_head *head);

/* Appends `,"coverage":{"from":…,"to":…}`. */
void qn_range_put_coverage(struct qn_buf *b, const struct qn_range_head *head);

/* The answer: last_end_ms is the end of the range's last bucket; key the last row's when there is another page (p == NULL:
 * none); open: buckets that are not closed may be in it; names: the sources, comma-separated. */
void qn_range_put(struct qn_turn *turn, const struct qn_range *range, const struct qn_range_head *head,
                  struct qn_str query, struct qn_str data, struct qn_str names, unsigned divergence,
                  int64_t last_end_ms, struct qn_str key, bool open);

/* Sets the problem for a query that gave no rows, for no H (QN_MISS), or for rows that can't be used. */
QN_MUST enum qn_want qn_range_failed(struct qn_turn *turn, enum qn_err err);

/* Merges comma-separated names into a sorted list without duplicates, comma-separated. In arena. */
struct qn_str qn_range_merge(struct qn_arena *arena, struct qn_str list, struct qn_str names);

#endif
