/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "aggregate/buckets.h"

int qn_bucket_cmp(const struct qn_bucket *a, const struct qn_bucket *b)
{
    if (a->pair != b->pair)
        return a->pair < b->pair ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

size_t qn_buckets_coarsen(struct qn_bucket *buckets, size_t n, enum qn_grain grain)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        struct qn_bucket b = {buckets[i].pair, qn_grain_start(grain, buckets[i].start)};
        if (m == 0 || qn_bucket_cmp(&buckets[m - 1], &b) != 0)
            buckets[m++] = b;
    }
    return m;
}

size_t qn_buckets_spans(const struct qn_bucket *buckets, size_t n, enum qn_grain grain, int64_t gap,
                        struct qn_span *out)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        const struct qn_bucket *b = &buckets[i];
        int64_t end = qn_grain_end(grain, b->start);
        if (m > 0 && out[m - 1].pair == b->pair && b->start - out[m - 1].to <= gap)
            out[m - 1].to = end;
        else
            out[m++] = (struct qn_span){b->pair, b->start, end};
    }
    return m;
}
