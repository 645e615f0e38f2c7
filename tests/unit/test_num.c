/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/num.h"

static void put_quotient(const char *n, const char *d, struct qn_buf *b)
{
    mpq_t q;
    mpq_init(q);
    assert_int_equal(qn_num_parse_ratio(q, qn_str_of(n), qn_str_of(d)), QN_OK);
    qn_buf_clear(b);
    qn_num_put_quotient(b, q);
    mpq_clear(q);
}

static void expect_quotient(const char *n, const char *d, const char *want)
{
    struct qn_buf b = {0};
    put_quotient(n, d, &b);
    assert_string_equal(b.p, want);
    qn_buf_free(&b);
}

static void quotients_are_truncated_to_18_significant_digits(void **state)
{
    (void)state;
    expect_quotient("0", "5", "0");
    expect_quotient("1", "1", "1");
    expect_quotient("1", "3", "0.333333333333333333");
    expect_quotient("2", "3", "0.666666666666666666"); /* rounding up would give a price above every trade */
    expect_quotient("-2", "3", "-0.666666666666666666"); /* toward zero */
    expect_quotient("5", "2", "2.5");
    expect_quotient("10", "1", "10");
    expect_quotient("1000000000000000000000", "1", "1000000000000000000000");
    expect_quotient("123456789012345678999", "1", "123456789012345678000");
    expect_quotient("4611686018427387904", "3", "1537228672809129300"); /* 19 digits: the last one is cut */
    expect_quotient("999999999999999999", "1", "999999999999999999");
    expect_quotient("9999999999999999999", "1", "9999999999999999990");
    expect_quotient("9999999999999999999", "10000000000000000000", "0.999999999999999999");
    expect_quotient("1", "1000000000000000000", "0.000000000000000001");
    expect_quotient("18880", "618830673", "0.000030509153511206126");
    expect_quotient("9519999", "10000000", "0.9519999");
    expect_quotient("251697901411", "2388425", "105382.376005526654");
}

static void prices_have_no_exponent(void **state)
{
    (void)state;
    expect_quotient("1", "10000000", "0.0000001");
    expect_quotient("12", "100000000", "0.00000012");
    expect_quotient("1", "100000000000000000000000000000000000000000", "0.00000000000000000000000000000000000000001");
}

/* The powers of ten and their neighbours, where an estimate of the digits is off by one first. */
static void digits_are_counted_right_around_powers_of_ten(void **state)
{
    (void)state;
    char n[64], want[64];
    for (int e = 1; e <= 45; e++) {
        memset(n, '9', (size_t)e);
        n[e] = '\0';
        memcpy(want, n, sizeof want);
        if (e > QN_NUM_SIGNIFICANT)
            memset(want + QN_NUM_SIGNIFICANT, '0', (size_t)(e - QN_NUM_SIGNIFICANT));
        expect_quotient(n, "1", want);
        memset(n + 1, '0', (size_t)e);
        n[0] = '1';
        n[e + 1] = '\0';
        expect_quotient(n, "1", n);
        snprintf(want, sizeof want, "0.%0*d", e, 1);
        expect_quotient("1", n, want);
    }
}

/* Independent of the code under test: the digits come from long division by hand, one at a time. */
static void long_division(mpz_t n, const mpz_t d, struct qn_buf *b)
{
    mpz_t whole, rest;
    mpz_inits(whole, rest, NULL);
    mpz_tdiv_qr(whole, rest, n, d);
    char *digits = mpz_get_str(NULL, 10, whole);
    qn_buf_clear(b);
    qn_buf_puts(b, digits);
    size_t significant = mpz_sgn(whole) ? strlen(digits) : 0;
    for (size_t i = QN_NUM_SIGNIFICANT; i < significant; i++)
        b->p[i] = '0';
    if (mpz_sgn(rest) && significant < QN_NUM_SIGNIFICANT) {
        qn_buf_char(b, '.');
        while (significant < QN_NUM_SIGNIFICANT) {
            mpz_mul_ui(rest, rest, 10);
            mpz_tdiv_qr(whole, rest, rest, d);
            qn_buf_char(b, (char)('0' + mpz_get_ui(whole)));
            significant += significant || mpz_sgn(whole);
        }
        while (b->p[b->n - 1] == '0')
            b->n--;
        b->n -= b->p[b->n - 1] == '.';
        b->p[b->n] = '\0';
    }
    free(digits);
    mpz_clears(whole, rest, NULL);
}

static void quotients_equal_long_division_for_random_ratios(void **state)
{
    (void)state;
    gmp_randstate_t random;
    gmp_randinit_mt(random);
    gmp_randseed_ui(random, 20260422);
    mpq_t q;
    mpq_init(q);
    struct qn_buf got = {0}, want = {0};
    for (int i = 0; i < 20000; i++) {
        mp_bitcnt_t n_bits = 1 + gmp_urandomm_ui(random, i % 4 ? 70 : 300);
        mp_bitcnt_t d_bits = 1 + gmp_urandomm_ui(random, i % 4 ? 70 : 300);
        /* rrandomb makes long runs of 0 and 1 bits: the values near powers of two */
        (i % 3 ? mpz_urandomb : mpz_rrandomb)(mpq_numref(q), random, n_bits);
        mpz_rrandomb(mpq_denref(q), random, d_bits);
        mpq_canonicalize(q);
        qn_buf_clear(&got);
        qn_num_put_quotient(&got, q);
        long_division(mpq_numref(q), mpq_denref(q), &want);
        assert_string_equal(got.p, want.p);
    }
    qn_buf_free(&got);
    qn_buf_free(&want);
    mpq_clear(q);
    gmp_randclear(random);
}

static void expect_decimal(const char *text, const char *want, unsigned scale)
{
    struct qn_dec x;
    struct qn_buf b = {0};
    qn_dec_init(&x);
    assert_int_equal(qn_dec_parse(&x, qn_str_of(text), QN_DEC_MAX_DIGITS), QN_OK);
    assert_int_equal(x.scale, scale);
    qn_dec_put(&b, &x);
    assert_string_equal(b.p, want);
    qn_buf_free(&b);
    qn_dec_clear(&x);
}

static void decimals_print_plainly(void **state)
{
    (void)state;
    expect_decimal("0", "0", 0);
    expect_decimal("-0.000", "0", 3);
    expect_decimal("10", "10", 0);
    expect_decimal("100.0000000", "100", 7);
    expect_decimal("0.0000001", "0.0000001", 7);
    expect_decimal("-1.50", "-1.5", 2);
    expect_decimal("007.5", "7.5", 1);
    expect_decimal("922337203685.4775807", "922337203685.4775807", 7); /* a double keeps ….4775 only */
    expect_decimal("0.0000000000000000000000000000000000001", "0.0000000000000000000000000000000000001", 37);
    expect_decimal("9999999999999999999999999999999999999999", "9999999999999999999999999999999999999999", 0);
    expect_decimal("-12345678901234567890123456789.1234567890", "-12345678901234567890123456789.123456789", 10);
}

static void malformed_decimals_are_refused_and_change_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "-",  "+1",  ".5",  "5.",  "1e5",  "1E5", "1/3",  " 1",       "1 ",
                                      "1.2.3", "--1", "0x1", "NaN", "Infinity", "-.5", "1,5", "1.-5", "\xd9\xa1"};
    struct qn_dec x;
    qn_dec_init(&x);
    assert_int_equal(qn_dec_parse(&x, QN_STR("42.5"), 0), QN_OK);
    for (size_t i = 0; i < QN_LEN(bad); i++)
        assert_int_equal(qn_dec_parse(&x, qn_str_of(bad[i]), QN_DEC_MAX_DIGITS), QN_EINVAL);
    assert_int_equal(qn_dec_parse(&x, (struct qn_str){"1\0", 2}, 0), QN_EINVAL);
    assert_int_equal(qn_dec_parse(&x, QN_STR("12345678901234567890123456789012345678901"), 40), QN_ERANGE);
    assert_int_equal(qn_dec_parse(&x, QN_STR("1234567890123456789012345678901234567890.x"), 40), QN_EINVAL);
    assert_int_equal(mpz_cmp_ui(x.m, 425), 0);
    assert_int_equal(x.scale, 1);
    qn_dec_clear(&x);
}

static void expect_sum(const char *a, const char *b, const char *want)
{
    struct qn_dec x, y;
    struct qn_buf out = {0};
    qn_dec_init(&x);
    qn_dec_init(&y);
    assert_int_equal(qn_dec_parse(&x, qn_str_of(a), 0), QN_OK);
    assert_int_equal(qn_dec_parse(&y, qn_str_of(b), 0), QN_OK);
    qn_dec_add(&x, &y);
    qn_dec_put(&out, &x);
    assert_string_equal(out.p, want);
    qn_buf_free(&out);
    qn_dec_clear(&x);
    qn_dec_clear(&y);
}

static void volumes_do_not_wrap_at_int64(void **state)
{
    (void)state;
    expect_sum("9223372036854775807", "9223372036854775807", "18446744073709551614");
    expect_sum("922337203685.4775807", "922337203685.4775807", "1844674407370.9551614");
}

/* A venue with 7 decimals and one with 8 weigh what they are: 2 + 3, not 10 : 1. */
static void sources_of_other_scales_add_by_value(void **state)
{
    (void)state;
    expect_sum("2.0000000", "3.00000000", "5");
    expect_sum("3.00000000", "2.0000000", "5");
    expect_sum("0.1", "0.00000000000000000000000000001", "0.10000000000000000000000000001");
    expect_sum("0.00000000000000000000000000001", "0.1", "0.10000000000000000000000000001");
    expect_sum("-1.5", "1.50", "0");
}

static int cmp(const char *a, const char *b)
{
    struct qn_dec x, y;
    qn_dec_init(&x);
    qn_dec_init(&y);
    assert_int_equal(qn_dec_parse(&x, qn_str_of(a), 0), QN_OK);
    assert_int_equal(qn_dec_parse(&y, qn_str_of(b), 0), QN_OK);
    int c = qn_dec_cmp(&x, &y), back = qn_dec_cmp(&y, &x);
    assert_int_equal((c > 0) - (c < 0), (back < 0) - (back > 0));
    qn_dec_clear(&x);
    qn_dec_clear(&y);
    return (c > 0) - (c < 0);
}

static void decimals_compare_by_value(void **state)
{
    (void)state;
    assert_int_equal(cmp("1.0", "1.00000"), 0);
    assert_int_equal(cmp("1.1", "1.01"), 1);
    assert_int_equal(cmp("-2", "1.5"), -1);
    assert_int_equal(cmp("-2", "-2.0000001"), 1);
    assert_int_equal(cmp("0", "-0.0"), 0);
    assert_int_equal(cmp("9223372036854775807", "9223372036854775806.9999999999999999999999999"), 1);
}

static void a_decimal_is_its_exact_rational(void **state)
{
    (void)state;
    struct qn_dec x;
    mpq_t q;
    qn_dec_init(&x);
    mpq_init(q);
    assert_int_equal(qn_dec_parse(&x, QN_STR("-12.50"), 0), QN_OK);
    qn_dec_get_q(q, &x);
    assert_int_equal(mpz_cmp_si(mpq_numref(q), -25), 0);
    assert_int_equal(mpz_cmp_ui(mpq_denref(q), 2), 0);
    assert_int_equal(qn_dec_sign(&x), -1);
    mpq_clear(q);
    qn_dec_clear(&x);
}

static void ratios_are_read_into_lowest_terms(void **state)
{
    (void)state;
    mpq_t q;
    mpq_init(q);
    assert_int_equal(qn_num_parse_ratio(q, QN_STR("-9481000000000000000000000"), QN_STR("10000000000000000000000000")),
                     QN_OK);
    assert_int_equal(mpz_cmp_si(mpq_numref(q), -9481), 0);
    assert_int_equal(mpz_cmp_ui(mpq_denref(q), 10000), 0);
    static const char *const bad[][2] = {{"", "1"},  {"1", ""},   {"1", "0"},  {"1", "000"}, {"1", "-1"}, {"1.5", "1"},
                                         {"-", "1"}, {"+1", "1"}, {"1", "1 "}, {"1e3", "1"}, {"0x1", "1"}};
    for (size_t i = 0; i < QN_LEN(bad); i++)
        assert_int_equal(qn_num_parse_ratio(q, qn_str_of(bad[i][0]), qn_str_of(bad[i][1])), QN_EINVAL);
    mpq_clear(q);
}

static void expect_change(const char *now_n, const char *now_d, const char *then_n, const char *then_d,
                          const char *want)
{
    mpq_t now, then;
    struct qn_buf b = {0};
    mpq_inits(now, then, NULL);
    assert_int_equal(qn_num_parse_ratio(now, qn_str_of(now_n), qn_str_of(now_d)), QN_OK);
    assert_int_equal(qn_num_parse_ratio(then, qn_str_of(then_n), qn_str_of(then_d)), QN_OK);
    qn_num_put_change(&b, now, then);
    assert_string_equal(b.p, want);
    qn_buf_free(&b);
    mpq_clears(now, then, NULL);
}

static void changes_have_a_sign_and_two_truncated_decimals(void **state)
{
    (void)state;
    expect_change("1", "1", "1", "1", "+0.00");
    expect_change("99999", "100000", "1", "1", "+0.00"); /* -0.001 %: no negative zero */
    expect_change("110", "100", "1", "1", "+10.00");
    expect_change("2", "1", "3", "1", "-33.33");
    expect_change("3", "1", "2", "1", "+50.00");
    expect_change("199999", "100000", "1", "1", "+99.99"); /* 99.999 */
    expect_change("0", "1", "7", "3", "-100.00");
    expect_change("10000", "9995", "1", "1", "+0.05");
    expect_change("1000000000000000000000", "1", "1", "3", "+299999999999999999999900.00");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotients_are_truncated_to_18_significant_digits),
        cmocka_unit_test(prices_have_no_exponent),
        cmocka_unit_test(digits_are_counted_right_around_powers_of_ten),
        cmocka_unit_test(quotients_equal_long_division_for_random_ratios),
        cmocka_unit_test(decimals_print_plainly),
        cmocka_unit_test(malformed_decimals_are_refused_and_change_nothing),
        cmocka_unit_test(volumes_do_not_wrap_at_int64),
        cmocka_unit_test(sources_of_other_scales_add_by_value),
        cmocka_unit_test(decimals_compare_by_value),
        cmocka_unit_test(a_decimal_is_its_exact_rational),
        cmocka_unit_test(ratios_are_read_into_lowest_terms),
        cmocka_unit_test(changes_have_a_sign_and_two_truncated_decimals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
