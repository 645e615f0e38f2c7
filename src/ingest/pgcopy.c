/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/pgcopy.h"

#include <stdlib.h>

/* numeric on the wire: four words of 16 bits (how many digits, weight of the first, sign, digits after the point as
 * shown), then the digits, base 10,000, without zeros at either end. */
enum { GROUP = 4, GROUPS_MAX = 64, HEAD_WORDS = 4, NEGATIVE = 0x4000 };

/* Of integers longer than this the digits are on the heap. */
enum { INTEGER_STACK = 160 };

static const int64_t epoch_2000_ms = INT64_C(946684800000);

static void put_u16(char *p, uint16_t v)
{
    p[0] = (char)(v >> 8);
    p[1] = (char)v;
}

static void put_u32(char *p, uint32_t v)
{
    put_u16(p, (uint16_t)(v >> 16));
    put_u16(p + 2, (uint16_t)v);
}

static uint16_t get_u16(const char *p)
{
    return (uint16_t)((unsigned char)p[0] << 8 | (unsigned char)p[1]);
}

static uint32_t get_u32(const char *p)
{
    return (uint32_t)get_u16(p) << 16 | get_u16(p + 2);
}

/* Room for a field of n bytes with its length written; returns where the value goes. */
static char *field(struct qn_buf *b, size_t n)
{
    qn_buf_reserve(b, QN_PGCOPY_LEN + n);
    char *p = b->p + b->n;
    put_u32(p, (uint32_t)n);
    b->n += QN_PGCOPY_LEN + n;
    b->p[b->n] = '\0';
    return p + QN_PGCOPY_LEN;
}

void qn_pgcopy_begin(struct qn_buf *b)
{
    static const char head[19] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
    qn_buf_put(b, head, sizeof head);
}

void qn_pgcopy_end(struct qn_buf *b)
{
    qn_buf_put(b, "\377\377", 2);
}

void qn_pgcopy_row(struct qn_buf *b, int16_t nfields)
{
    char word[2];
    put_u16(word, (uint16_t)nfields);
    qn_buf_put(b, word, sizeof word);
}

void qn_pgcopy_i16(struct qn_buf *b, int16_t v)
{
    put_u16(field(b, 2), (uint16_t)v);
}

void qn_pgcopy_i32(struct qn_buf *b, int32_t v)
{
    put_u32(field(b, 4), (uint32_t)v);
}

void qn_pgcopy_ts(struct qn_buf *b, int64_t ms)
{
    uint64_t us = (uint64_t)((ms - epoch_2000_ms) * 1000);
    char *p = field(b, 8);
    put_u32(p, (uint32_t)(us >> 32));
    put_u32(p + 4, (uint32_t)us);
}

void qn_pgcopy_bytes(struct qn_buf *b, const void *p, size_t n)
{
    memcpy(field(b, n), p, n);
}

void qn_pgcopy_null(struct qn_buf *b)
{
    qn_buf_put(b, "\377\377\377\377", QN_PGCOPY_LEN);
}

/* Writes a numeric whose digits are in groups[0, n), the first of which weighs 10,000^weight. */
static void put_numeric(struct qn_buf *b, const uint16_t *groups, size_t n, int weight, bool negative, size_t dscale)
{
    while (n > 0 && groups[0] == 0) {
        groups++;
        n--;
        weight--;
    }
    while (n > 0 && groups[n - 1] == 0)
        n--;
    char *p = field(b, 2 * (HEAD_WORDS + n));
    put_u16(p, (uint16_t)n);
    put_u16(p + 2, (uint16_t)(n ? weight : 0));
    put_u16(p + 4, negative && n ? NEGATIVE : 0);
    put_u16(p + 6, (uint16_t)dscale);
    for (size_t i = 0; i < n; i++)
        put_u16(p + 2 * (HEAD_WORDS + i), groups[i]);
}

/* The digits whole and fraction as a numeric. */
static void put_digits(struct qn_buf *b, struct qn_str whole, struct qn_str fraction, bool negative)
{
    size_t nw = (whole.n + GROUP - 1) / GROUP, nf = (fraction.n + GROUP - 1) / GROUP;
    uint16_t on_stack[GROUPS_MAX];
    uint16_t *groups = nw + nf <= GROUPS_MAX ? on_stack : qn_xmalloc((nw + nf) * sizeof *groups);
    size_t at = 0;
    for (size_t i = 0; i < nw; i++) {
        size_t end = whole.n - (nw - 1 - i) * GROUP;
        uint16_t v = 0;
        for (; at < end; at++)
            v = (uint16_t)(v * 10 + (whole.p[at] - '0'));
        groups[i] = v;
    }
    at = 0;
    for (size_t i = 0; i < nf; i++) {
        uint16_t v = 0;
        for (size_t k = 0; k < GROUP; k++, at++)
            v = (uint16_t)(v * 10 + (at < fraction.n ? fraction.p[at] - '0' : 0));
        groups[nw + i] = v;
    }
    put_numeric(b, groups, nw + nf, (int)nw - 1, negative, fraction.n);
    if (groups != on_stack)
        free(groups);
}

void qn_pgcopy_numeric(struct qn_buf *b, struct qn_str text)
{
    bool negative = text.n && text.p[0] == '-';
    struct qn_str whole = {text.p + negative, text.n - negative}, fraction = {NULL, 0};
    const char *point = memchr(whole.p, '.', whole.n);
    if (point) {
        fraction = (struct qn_str){point + 1, (size_t)(whole.p + whole.n - point) - 1};
        whole.n = (size_t)(point - whole.p);
    }
    put_digits(b, whole, fraction, negative);
}

void qn_pgcopy_integer(struct qn_buf *b, const mpz_t z)
{
    enum { U64_GROUPS = 5 };
    if (mpz_sizeinbase(z, 2) <= 64) {
        uint64_t v = 0;
        mpz_export(&v, NULL, -1, sizeof v, 0, 0, z);
        uint16_t groups[U64_GROUPS];
        for (int i = U64_GROUPS - 1; i >= 0; i--) {
            groups[i] = (uint16_t)(v % 10000);
            v /= 10000;
        }
        put_numeric(b, groups, U64_GROUPS, U64_GROUPS - 1, false, 0);
        return;
    }
    char on_stack[INTEGER_STACK];
    size_t need = mpz_sizeinbase(z, 10) + 2;
    char *text = need <= sizeof on_stack ? on_stack : qn_xmalloc(need);
    mpz_get_str(text, 10, z);
    put_digits(b, qn_str_of(text), QN_STR_NULL, false);
    if (text != on_stack)
        free(text);
}

/* ---- reading back */

struct qn_str qn_pgcopy_get(const char **p)
{
    uint32_t n = get_u32(*p);
    *p += QN_PGCOPY_LEN;
    if (n == UINT32_MAX)
        return QN_STR_NULL;
    struct qn_str out = {*p, n};
    *p += n;
    return out;
}

int64_t qn_pgcopy_get_ts(struct qn_str value)
{
    uint64_t us = (uint64_t)get_u32(value.p) << 32 | get_u32(value.p + 4);
    return (int64_t)us / 1000 + epoch_2000_ms;
}

static int digits_at(struct qn_str value, int weight, int exponent)
{
    int i = weight - exponent;
    return i >= 0 && i < get_u16(value.p) ? get_u16(value.p + 2 * (HEAD_WORDS + i)) : 0;
}

void qn_pgcopy_get_numeric(struct qn_buf *out, struct qn_str value)
{
    int weight = (int16_t)get_u16(value.p + 2);
    int dscale = get_u16(value.p + 6);
    if (get_u16(value.p + 4) == NEGATIVE)
        qn_buf_char(out, '-');
    qn_buf_printf(out, "%d", digits_at(value, weight, weight > 0 ? weight : 0));
    for (int e = weight - 1; e >= 0; e--)
        qn_buf_printf(out, "%04d", digits_at(value, weight, e));
    if (dscale == 0)
        return;
    qn_buf_char(out, '.');
    size_t end = out->n + (size_t)dscale;
    for (int e = -1; out->n < end; e--)
        qn_buf_printf(out, "%04d", digits_at(value, weight, e));
    out->n = end;
    out->p[end] = '\0';
}

bool qn_pgcopy_numeric_eq(struct qn_str a, struct qn_str b)
{
    enum { SHOWN = 6 /* offset of the digits after the point as shown */ };
    if (!a.p || !b.p)
        return !a.p && !b.p;
    return a.n == b.n && memcmp(a.p, b.p, SHOWN) == 0 && memcmp(a.p + SHOWN + 2, b.p + SHOWN + 2, a.n - SHOWN - 2) == 0;
}
