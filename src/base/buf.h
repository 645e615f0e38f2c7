/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * A growing byte buffer, and the JSON that is written into one.
 */
#ifndef QN_BASE_BUF_H
#define QN_BASE_BUF_H

#include "base/arena.h"

/* Owns p through malloc, or borrows it from arena when that is set (then qn_buf_free does nothing).
 * Zero-initialised is a valid empty buffer. p is NUL-terminated behind n whenever it isn't NULL. */
struct qn_buf {
    char *p;
    size_t n;
    size_t cap;
    struct qn_arena *arena;
};

void qn_buf_free(struct qn_buf *b);
/* n = 0; keeps the memory. */
void qn_buf_clear(struct qn_buf *b);
/* Room for n more bytes (and the NUL). */
void qn_buf_reserve(struct qn_buf *b, size_t n);
void qn_buf_put(struct qn_buf *b, const char *p, size_t n);
void qn_buf_puts(struct qn_buf *b, const char *z);
void qn_buf_str(struct qn_buf *b, struct qn_str s);
void qn_buf_char(struct qn_buf *b, char c);
void qn_buf_i64(struct qn_buf *b, int64_t v);
void qn_buf_u64(struct qn_buf *b, uint64_t v);
QN_PRINTF(2, 3) void qn_buf_printf(struct qn_buf *b, const char *fmt, ...);
static inline struct qn_str qn_buf_view(const struct qn_buf *b)
{
    return (struct qn_str){b->p ? b->p : "", b->n};
}

/* A JSON string with its quotes: `"`, `\` and control bytes are escaped, `/` is not; bytes that are not UTF-8 become
 * U+FFFD (RFC 8259, section 7). */
void qn_buf_json(struct qn_buf *b, struct qn_str s);
/* One step of it: the first character of s (not empty) as it stands inside a JSON string, into out; *n is the bytes
 * written (1-6). Returns the bytes of s that it stands for. */
size_t qn_buf_json_step(char out[6], size_t *n, struct qn_str s);

#endif
