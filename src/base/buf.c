/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/buf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIN_CAP = 256 };

void qn_buf_free(struct qn_buf *b)
{
    if (b->arena)
        return;
    free(b->p);
    *b = (struct qn_buf){0};
}

void qn_buf_clear(struct qn_buf *b)
{
    b->n = 0;
    if (b->p)
        b->p[0] = '\0';
}

void qn_buf_reserve(struct qn_buf *b, size_t n)
{
    if (b->cap > b->n && b->cap - b->n > n)
        return;
    size_t want, cap;
    if (__builtin_add_overflow(b->n, n, &want) || __builtin_add_overflow(want, (size_t)1, &want))
        want = SIZE_MAX / 4; /* more than any allocator gives: out of memory */
    if (__builtin_mul_overflow(b->cap, (size_t)2, &cap) || cap < want)
        cap = want;
    if (cap < MIN_CAP)
        cap = MIN_CAP;
    if (b->arena) {
        char *p = qn_arena_alloc(b->arena, cap);
        if (b->n)
            memcpy(p, b->p, b->n);
        b->p = p;
    } else {
        b->p = qn_xrealloc(b->p, cap);
    }
    b->cap = cap;
    b->p[b->n] = '\0';
}

void qn_buf_put(struct qn_buf *b, const char *p, size_t n)
{
    qn_buf_reserve(b, n);
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
}

void qn_buf_puts(struct qn_buf *b, const char *z)
{
    qn_buf_put(b, z, strlen(z));
}

void qn_buf_str(struct qn_buf *b, struct qn_str s)
{
    qn_buf_put(b, s.p, s.n);
}

void qn_buf_char(struct qn_buf *b, char c)
{
    qn_buf_put(b, &c, 1);
}

void qn_buf_u64(struct qn_buf *b, uint64_t v)
{
    char digits[20];
    size_t i = sizeof digits;
    do {
        digits[--i] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    qn_buf_put(b, digits + i, sizeof digits - i);
}

void qn_buf_i64(struct qn_buf *b, int64_t v)
{
    if (v < 0)
        qn_buf_char(b, '-');
    qn_buf_u64(b, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void qn_buf_printf(struct qn_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) /* as in qn_arena_printf */
        abort();
    qn_buf_reserve(b, (size_t)n);
    va_start(ap, fmt);
    vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

size_t qn_buf_json_step(char out[6], size_t *n, struct qn_str s)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char c = (unsigned char)s.p[0];
    static const char special[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const char *found = c ? strchr(special, c) : NULL;
    if (found) {
        out[0] = '\\';
        out[1] = letters[found - special];
        *n = 2;
        return 1;
    }
    if (c < 0x20) {
        memcpy(out, "\\u00", 4);
        out[4] = hex[c >> 4];
        out[5] = hex[c & 15];
        *n = 6;
        return 1;
    }
    size_t len;
    bool valid = qn_utf8_step(s.p, s.n, &len);
    *n = valid ? len : 3;
    memcpy(out, valid ? s.p : "\xef\xbf\xbd", *n);
    return len;
}

static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

void qn_buf_json(struct qn_buf *b, struct qn_str s)
{
    qn_buf_reserve(b, s.n + 2);
    qn_buf_char(b, '"');
    for (size_t i = 0; i < s.n;) {
        size_t run = i;
        while (run < s.n && is_plain(s.p[run]))
            run++;
        qn_buf_put(b, s.p + i, run - i);
        if ((i = run) == s.n)
            break;
        char out[6];
        size_t n;
        i += qn_buf_json_step(out, &n, (struct qn_str){s.p + i, s.n - i});
        qn_buf_put(b, out, n);
    }
    qn_buf_char(b, '"');
}
