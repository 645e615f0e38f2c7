/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Which buckets a set of minutes touches, and the spans of time that hold what they are made of. Pure.
 */
#ifndef QN_AGGREGATE_BUCKETS_H
#define QN_AGGREGATE_BUCKETS_H

#include "base/when.h"

struct qn_bucket {
    int32_t pair;
    int64_t start;         /* ms */
};

/* [from, to) of a pair, ms. */
struct qn_span {
    int32_t pair;
    int64_t from;
    int64_t to;
};

/* By pair, then start: < 0, 0, > 0. */
int qn_bucket_cmp(const struct qn_bucket *a, const struct qn_bucket *b);
/* Turns n buckets in order into those of the grain that they lie in, in order, each once; in place. Returns how
 * many. */
size_t qn_buckets_coarsen(struct qn_bucket *buckets, size_t n, enum qn_grain grain);
/* The spans of n buckets in order, each once, of one grain: neighbours, and those no more than gap ms apart, share one.
 * out has room for n. Returns how many. */
size_t qn_buckets_spans(const struct qn_bucket *buckets, size_t n, enum qn_grain grain, int64_t gap,
                        struct qn_span *out);

#endif
