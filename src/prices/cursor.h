/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Paging cursors (contract-prices, section 4): opaque to clients; hold the range, the order and the last key, and are of
 * one query only. Pure.
 */
#ifndef QN_PRICES_CURSOR_H
#define QN_PRICES_CURSOR_H

#include "base/arena.h"

struct qn_cursor {
    struct qn_str query;   /* what the query is, but for range and order: a cursor of another is refused */
    int64_t from_ms, to_ms;
    bool has_to;           /* false: to_ms means nothing, the range has no end of its own */
    bool asc;
    struct qn_str key;     /* the last row's; any bytes but NUL */
};

/* Reads milliseconds within the years 1-9999. */
QN_MUST bool qn_cursor_moment(struct qn_str s, int64_t *out);

/* The text for a client: base64url. c->query is NUL-terminated. In arena. */
struct qn_str qn_cursor_put(struct qn_arena *arena, const struct qn_cursor *c);
/* Reads one; c->query is what it must be of, the rest is set: from <= to, both of the years 1-9999. QN_EINVAL: not ours,
 * or of another query, or changed. (The hash finds changes; it is no secret, so the key is the caller's to check.) */
QN_MUST enum qn_err qn_cursor_read(struct qn_arena *arena, struct qn_str text, struct qn_cursor *c);

#endif
