/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Exact numbers on GMP: decimals for amounts, rationals (mpq_t) for prices, and the one division of the product
 * (contract-prices, section 2). No double ever touches either.
 */
#ifndef QN_BASE_NUM_H
#define QN_BASE_NUM_H

#include <gmp.h>

#include "base/buf.h"

/* m * 10^-scale. Init before use, clear after; not copied by assignment. */
struct qn_dec {
    mpz_t m;
    unsigned scale;
};

enum { QN_DEC_MAX_DIGITS = 40, QN_NUM_SIGNIFICANT = 18 };

void qn_dec_init(struct qn_dec *x); /* 0 */
void qn_dec_clear(struct qn_dec *x);
void qn_dec_set(struct qn_dec *x, const struct qn_dec *y);
/* Reads `-`? digits (`.` digits)?, at most max_digits digits in all (0: no limit, for our own stores; a Postgres
 * numeric reads too). No exponent, no `+`, no blanks, no bare point. The scale is the digits after the point as
 * written. QN_EINVAL, QN_ERANGE. On error x is unchanged. */
QN_MUST enum qn_err qn_dec_parse(struct qn_dec *x, struct qn_str text, unsigned max_digits);
/* x += y, exact. */
void qn_dec_add(struct qn_dec *x, const struct qn_dec *y);
/* -1, 0, 1. */
int qn_dec_sign(const struct qn_dec *x);
/* Exact comparison: < 0, 0, > 0. */
int qn_dec_cmp(const struct qn_dec *x, const struct qn_dec *y);
/* The exact rational. */
void qn_dec_get_q(mpq_t out, const struct qn_dec *x);
/* Plain decimal notation: no exponent, no trailing zeros after the point, no trailing point, "0" for zero, `-` only for
 * negatives. */
void qn_dec_put(struct qn_buf *out, const struct qn_dec *x);

/* q truncated toward zero to 18 significant digits in the same notation: the one division of the product. */
void qn_num_put_quotient(struct qn_buf *out, const mpq_t q);

/* A percentage (now/then - 1) * 100 with explicit sign and exactly two decimals, truncated toward zero; zero of either
 * side is "+0.00". then must be positive. */
void qn_num_put_change(struct qn_buf *out, const mpq_t now, const mpq_t then);

/* Reads integers n and d (optional `-` on n, no limit of digits, d > 0) into lowest terms. QN_EINVAL. */
QN_MUST enum qn_err qn_num_parse_ratio(mpq_t out, struct qn_str n, struct qn_str d);
/* The numerator or denominator in decimal digits. */
void qn_num_put_z(struct qn_buf *out, const mpz_t z);

#endif
