/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Moments: RFC 3339 text and milliseconds since the epoch, UTC only; and the buckets that time is cut into
 * (design, section 6: [start, end), weeks from Monday, months from the 1st).
 */
#ifndef QN_BASE_WHEN_H
#define QN_BASE_WHEN_H

#include "base/buf.h"

/* Reads RFC 3339 with any offset and any number of second digits (finer than a millisecond is truncated before anything
 * else); `T` and `Z` in either case, a blank for `T`; a leap second :60 is the next second; years 0001-9999.
 * QN_EINVAL: not of that form, or no such day. */
QN_MUST enum qn_err qn_when_parse(struct qn_str text, int64_t *ms);
/* The same, or an integer of 1-10 digits: seconds since the epoch. For query parameters. */
QN_MUST enum qn_err qn_when_parse_param(struct qn_str text, int64_t *ms);
/* "2026-04-22T14:30:00.000Z". */
void qn_when_put(struct qn_buf *out, int64_t ms);
/* The same without any allocation, NUL-terminated; returns its length. */
enum { QN_WHEN_MAX = 32 };
size_t qn_when_text(char out[QN_WHEN_MAX], int64_t ms);
/* "2026-04-22T14:30:00Z" (the fraction dropped): bucket starts. */
void qn_when_put_seconds(struct qn_buf *out, int64_t ms);

enum qn_grain { QN_1M, QN_5M, QN_15M, QN_30M, QN_1H, QN_4H, QN_1D, QN_1W, QN_1MO, QN_GRAINS };

/* "1m" … "1mo", exactly. QN_EINVAL. */
QN_MUST enum qn_err qn_grain_parse(struct qn_str text, enum qn_grain *out);
const char *qn_grain_name(enum qn_grain grain);
/* Start of the bucket that ms is in; its end (= the next one's start); the start of the one before. ms in ms. */
int64_t qn_grain_start(enum qn_grain grain, int64_t ms);
int64_t qn_grain_end(enum qn_grain grain, int64_t ms);
int64_t qn_grain_previous(enum qn_grain grain, int64_t ms);
/* start of the bucket `count` buckets before the one that ms is in. */
int64_t qn_grain_back(enum qn_grain grain, int64_t ms, unsigned count);
/* The finer grain that a bucket of this grain is summed from (1m has none: returns QN_1M). */
enum qn_grain qn_grain_finer(enum qn_grain grain);
/* The id in table candles: the bucket's length in seconds; 1w = 604800, 1mo = 2592000. */
int qn_grain_id(enum qn_grain grain);

#endif
