/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/num.h"

#include <stdlib.h>

enum { SMALL_DIGITS = 18 /* always fit 64 bits */, MAX_U64_POWER = 19 };

static const uint64_t power10[MAX_U64_POWER + 1] = {
    UINT64_C(1),
    UINT64_C(10),
    UINT64_C(100),
    UINT64_C(1000),
    UINT64_C(10000),
    UINT64_C(100000),
    UINT64_C(1000000),
    UINT64_C(10000000),
    UINT64_C(100000000),
    UINT64_C(1000000000),
    UINT64_C(10000000000),
    UINT64_C(100000000000),
    UINT64_C(1000000000000),
    UINT64_C(10000000000000),
    UINT64_C(100000000000000),
    UINT64_C(1000000000000000),
    UINT64_C(10000000000000000),
    UINT64_C(100000000000000000),
    UINT64_C(1000000000000000000),
    UINT64_C(10000000000000000000),
};

/* GMP's _ui functions take unsigned long, which has 32 bits on some hosts. */
static const bool ulong_is_64 = sizeof(unsigned long) == 8;

static void set_u64(mpz_t z, uint64_t v)
{
    if (ulong_is_64 || v <= UINT32_MAX)
        mpz_set_ui(z, (unsigned long)v);
    else
        mpz_import(z, 1, 1, sizeof v, 0, 0, &v);
}

static uint64_t get_u64(const mpz_t z) /* |z| < 2^64 */
{
    if (ulong_is_64)
        return mpz_get_ui(z);
    uint64_t v = 0;
    mpz_export(&v, NULL, 1, sizeof v, 0, 0, z);
    return v;
}

static void set_power10(mpz_t z, unsigned exponent)
{
    if (exponent <= MAX_U64_POWER)
        set_u64(z, power10[exponent]);
    else
        mpz_ui_pow_ui(z, 10, exponent);
}

static void mul_power10(mpz_t z, const mpz_t x, unsigned exponent)
{
    if (exponent <= MAX_U64_POWER && (ulong_is_64 || exponent <= 9)) {
        mpz_mul_ui(z, x, (unsigned long)power10[exponent]);
        return;
    }
    mpz_t p;
    mpz_init(p);
    set_power10(p, exponent);
    mpz_mul(z, x, p);
    mpz_clear(p);
}

/* ---- reading */

static size_t count_digits(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && p[n] >= '0' && p[n] <= '9')
        n++;
    return n;
}

/* whole and fraction: digits that are one number when written behind each other. */
static void set_digits(mpz_t z, struct qn_str whole, struct qn_str fraction, bool negative)
{
    size_t n = whole.n + fraction.n;
    if (n <= SMALL_DIGITS) {
        uint64_t v = 0;
        for (size_t i = 0; i < whole.n; i++)
            v = v * 10 + (uint64_t)(whole.p[i] - '0');
        for (size_t i = 0; i < fraction.n; i++)
            v = v * 10 + (uint64_t)(fraction.p[i] - '0');
        set_u64(z, v);
    } else {
        char on_stack[128];
        char *text = n < sizeof on_stack ? on_stack : qn_xmalloc(n + 1);
        memcpy(text, whole.p, whole.n);
        if (fraction.n)
            memcpy(text + whole.n, fraction.p, fraction.n);
        text[n] = '\0';
        mpz_set_str(z, text, 10); /* digits only: can't fail */
        if (text != on_stack)
            free(text);
    }
    if (negative)
        mpz_neg(z, z);
}

void qn_dec_init(struct qn_dec *x)
{
    mpz_init(x->m);
    x->scale = 0;
}

void qn_dec_clear(struct qn_dec *x)
{
    mpz_clear(x->m);
}

void qn_dec_set(struct qn_dec *x, const struct qn_dec *y)
{
    mpz_set(x->m, y->m);
    x->scale = y->scale;
}

enum qn_err qn_dec_parse(struct qn_dec *x, struct qn_str text, unsigned max_digits)
{
    const char *p = text.p, *end = text.p + text.n;
    bool negative = p < end && *p == '-';
    p += negative;
    struct qn_str whole = {p, count_digits(p, end)}, fraction = {NULL, 0};
    p += whole.n;
    if (whole.n == 0)
        return QN_EINVAL;
    if (p < end && *p == '.') {
        fraction = (struct qn_str){p + 1, count_digits(p + 1, end)};
        p += 1 + fraction.n;
        if (fraction.n == 0)
            return QN_EINVAL;
    }
    if (p != end)
        return QN_EINVAL;
    if ((max_digits && whole.n + fraction.n > max_digits) || fraction.n > UINT32_MAX / 2)
        return QN_ERANGE;
    set_digits(x->m, whole, fraction, negative);
    x->scale = (unsigned)fraction.n;
    return QN_OK;
}

enum qn_err qn_num_parse_ratio(mpq_t out, struct qn_str n, struct qn_str d)
{
    bool negative = n.n && n.p[0] == '-';
    struct qn_str digits = {n.p + negative, n.n - negative};
    if (digits.n == 0 || d.n == 0 || count_digits(digits.p, digits.p + digits.n) != digits.n ||
        count_digits(d.p, d.p + d.n) != d.n)
        return QN_EINVAL;
    bool zero = true;
    for (size_t i = 0; i < d.n && zero; i++)
        zero = d.p[i] == '0';
    if (zero)
        return QN_EINVAL;
    set_digits(mpq_numref(out), digits, QN_STR_NULL, negative);
    set_digits(mpq_denref(out), d, QN_STR_NULL, false);
    mpq_canonicalize(out);
    return QN_OK;
}

/* ---- arithmetic */

void qn_dec_add(struct qn_dec *x, const struct qn_dec *y)
{
    if (x->scale < y->scale) {
        mul_power10(x->m, x->m, y->scale - x->scale);
        x->scale = y->scale;
    }
    unsigned shift = x->scale - y->scale;
    if (shift == 0) {
        mpz_add(x->m, x->m, y->m);
    } else if (shift <= MAX_U64_POWER && (ulong_is_64 || shift <= 9)) {
        mpz_addmul_ui(x->m, y->m, (unsigned long)power10[shift]);
    } else {
        mpz_t t;
        mpz_init(t);
        mul_power10(t, y->m, shift);
        mpz_add(x->m, x->m, t);
        mpz_clear(t);
    }
}

int qn_dec_sign(const struct qn_dec *x)
{
    return mpz_sgn(x->m);
}

int qn_dec_cmp(const struct qn_dec *x, const struct qn_dec *y)
{
    if (x->scale == y->scale || mpz_sgn(x->m) != mpz_sgn(y->m))
        return x->scale == y->scale ? mpz_cmp(x->m, y->m) : mpz_sgn(x->m) - mpz_sgn(y->m);
    const struct qn_dec *coarse = x->scale < y->scale ? x : y;
    const struct qn_dec *fine = coarse == x ? y : x;
    mpz_t t;
    mpz_init(t);
    mul_power10(t, coarse->m, fine->scale - coarse->scale);
    int c = mpz_cmp(t, fine->m);
    mpz_clear(t);
    return coarse == x ? c : -c;
}

void qn_dec_get_q(mpq_t out, const struct qn_dec *x)
{
    mpz_set(mpq_numref(out), x->m);
    set_power10(mpq_denref(out), x->scale);
    mpq_canonicalize(out);
}

/* ---- writing */

static void put_zeros(struct qn_buf *out, size_t n)
{
    qn_buf_reserve(out, n);
    memset(out->p + out->n, '0', n);
    out->n += n;
    out->p[out->n] = '\0';
}

/* digits * 10^-scale without the zeros that end a fraction. digits: no leading zeros but for a bare "0". */
static void put_plain(struct qn_buf *out, const char *digits, size_t n, size_t scale)
{
    while (scale > 0 && n > 0 && digits[n - 1] == '0') {
        n--;
        scale--;
    }
    if (n == 0) { /* it was 0 */
        qn_buf_char(out, '0');
    } else if (scale == 0) {
        qn_buf_put(out, digits, n);
    } else if (n > scale) {
        qn_buf_put(out, digits, n - scale);
        qn_buf_char(out, '.');
        qn_buf_put(out, digits + n - scale, scale);
    } else {
        qn_buf_put(out, "0.", 2);
        put_zeros(out, scale - n);
        qn_buf_put(out, digits, n);
    }
}

enum { U64_DIGITS = 20 };

/* The digits of v at the end of text; returns where they start. */
static char *digits_of(char text[U64_DIGITS], uint64_t v)
{
    char *p = text + U64_DIGITS;
    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    return p;
}

void qn_dec_put(struct qn_buf *out, const struct qn_dec *x)
{
    if (mpz_sgn(x->m) < 0)
        qn_buf_char(out, '-');
    if (mpz_sizeinbase(x->m, 2) <= 64) {
        char text[U64_DIGITS];
        char *p = digits_of(text, get_u64(x->m)); /* the absolute value */
        put_plain(out, p, (size_t)(text + U64_DIGITS - p), x->scale);
        return;
    }
    char on_stack[128];
    size_t room = mpz_sizeinbase(x->m, 10) + 2;
    char *text = room <= sizeof on_stack ? on_stack : qn_xmalloc(room);
    mpz_get_str(text, 10, x->m);
    char *p = text + (text[0] == '-');
    put_plain(out, p, strlen(p), x->scale);
    if (text != on_stack)
        free(text);
}

void qn_num_put_z(struct qn_buf *out, const mpz_t z)
{
    qn_buf_reserve(out, mpz_sizeinbase(z, 10) + 2);
    mpz_get_str(out->p + out->n, 10, z);
    out->n += strlen(out->p + out->n);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* An exponent e with 10^e <= 2^k, at most one below the greatest: log10(2) is between 1292913986 and 1292913987 parts
 * of 2^32, and the one that errs downward is taken. |k| < 2^31. */
static int64_t exponent10_below(int64_t k)
{
    return floor_div(k * (k >= 0 ? 1292913986 : 1292913987), INT64_C(1) << 32);
}

/* floor(|q| * 10^places) where the caller knows that it is below 4 * 10^19. Returns it reduced to 18 digits and *places
 * with it. */
static uint64_t significant_digits(const mpq_t q, int64_t *places)
{
    mpz_srcptr n = mpq_numref(q), d = mpq_denref(q);
#ifdef __SIZEOF_INT128__
    /* Nearly every price: the whole division in 128 bits, without a big number. 10^places < 2^(places * 10 / 3 + 1). */
    if (*places >= 0 && *places <= 36 && mpz_sizeinbase(d, 2) <= 64 && mpz_sizeinbase(n, 2) <= 64 &&
        mpz_sizeinbase(n, 2) + (size_t)*places * 10 / 3 + 1 <= 127) {
        unsigned __int128 v = get_u64(n);
        v *= power10[*places > MAX_U64_POWER ? MAX_U64_POWER : *places];
        v *= power10[*places > MAX_U64_POWER ? *places - MAX_U64_POWER : 0];
        v /= get_u64(d);
        for (; v >= power10[QN_NUM_SIGNIFICANT]; v /= 10)
            --*places;
        return (uint64_t)v;
    }
#endif
    mpz_t v;
    mpz_init(v);
    if (*places >= 0) {
        mul_power10(v, n, (unsigned)*places);
        mpz_tdiv_q(v, v, d);
    } else {
        mul_power10(v, d, (unsigned)-*places);
        mpz_tdiv_q(v, n, v);
    }
    mpz_abs(v, v);
    while (mpz_sizeinbase(v, 2) > 64 || get_u64(v) >= power10[QN_NUM_SIGNIFICANT]) {
        mpz_tdiv_q_ui(v, v, 10); /* truncating twice is truncating once */
        --*places;
    }
    uint64_t whole = get_u64(v);
    mpz_clear(v);
    return whole;
}

void qn_num_put_quotient(struct qn_buf *out, const mpq_t q)
{
    if (mpq_sgn(q) == 0) {
        qn_buf_char(out, '0');
        return;
    }
    if (mpq_sgn(q) < 0)
        qn_buf_char(out, '-');
    /* 2^(k-1) < |q| < 2^(k+1) where k is the difference of the lengths in bits; so |q| is at least 10^exponent and
     * |q| * 10^places at least 10^17: never fewer than 18 digits, at most two more. */
    int64_t k = (int64_t)mpz_sizeinbase(mpq_numref(q), 2) - (int64_t)mpz_sizeinbase(mpq_denref(q), 2);
    int64_t places = QN_NUM_SIGNIFICANT - 1 - exponent10_below(k - 1);
    char text[U64_DIGITS];
    char *p = digits_of(text, significant_digits(q, &places));
    size_t n = (size_t)(text + U64_DIGITS - p);
    put_plain(out, p, n, places > 0 ? (size_t)places : 0);
    if (places < 0)
        put_zeros(out, (size_t)-places);
}

void qn_num_put_change(struct qn_buf *out, const mpq_t now, const mpq_t then)
{
    /* In hundredths of a percent: (a/b - c/d) / (c/d) * 10000 = (ad - cb) * 10000 / cb. */
    mpz_t top, bottom;
    mpz_inits(top, bottom, NULL);
    mpz_mul(bottom, mpq_numref(then), mpq_denref(now));
    mpz_mul(top, mpq_numref(now), mpq_denref(then));
    mpz_sub(top, top, bottom);
    mpz_mul_ui(top, top, 10000);
    mpz_tdiv_q(top, top, bottom);
    qn_buf_char(out, mpz_sgn(top) < 0 ? '-' : '+');
    mpz_abs(top, top);
    unsigned long hundredths = mpz_tdiv_q_ui(top, top, 100);
    qn_num_put_z(out, top);
    qn_buf_char(out, '.');
    qn_buf_char(out, (char)('0' + hundredths / 10));
    qn_buf_char(out, (char)('0' + hundredths % 10));
    mpz_clears(top, bottom, NULL);
}
