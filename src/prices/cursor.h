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
    bool asc;
    struct qn_str key;     /* the last row's; any bytes but NUL */
};

/* The text for a client: base64url. In arena. */
struct qn_str qn_cursor_put(struct qn_arena *arena, const struct qn_cursor *c);
/* Reads one; c->query is what it must be of, the rest is set. QN_EINVAL: not ours, or of another query. */
QN_MUST enum qn_err qn_cursor_read(struct qn_arena *arena, struct qn_str text, struct qn_cursor *c);

#endif
