/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <gmp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ingest/ord.h"

static int by_ord(const char *a, const char *b)
{
    unsigned char x[QN_ORD_MAX], y[QN_ORD_MAX];
    size_t n = qn_ord_encode(qn_str_of(a), x), m = qn_ord_encode(qn_str_of(b), y);
    assert_true(n <= QN_ORD_MAX && m <= QN_ORD_MAX);
    return qn_str_cmp((struct qn_str){(char *)x, n}, (struct qn_str){(char *)y, m});
}

/* The length of the run at p: digits or no digits. */
static size_t run_length(const char *p, bool digits)
{
    return digits ? strspn(p, "0123456789") : strcspn(p, "0123456789");
}

/* The order as the contract words it, another way: run by run, numbers by their value, a number before text. */
static int natural(const char *a, const char *b)
{
    while (*a && *b) {
        bool da = *a >= '0' && *a <= '9', db = *b >= '0' && *b <= '9';
        if (da != db)
            return da ? -1 : 1;
        size_t n = run_length(a, da), m = run_length(b, db);
        char *x = qn_xstrndup(a, n), *y = qn_xstrndup(b, m);
        int c;
        if (da) {
            mpz_t p, q;
            mpz_init_set_str(p, x, 10);
            mpz_init_set_str(q, y, 10);
            c = mpz_cmp(p, q);
            mpz_clears(p, q, NULL);
        } else {
            c = strcmp(x, y);
        }
        free(x);
        free(y);
        if (c)
            return c;
        a += n;
        b += m;
    }
    return (*a != 0) - (*b != 0);
}

static int sign(int c)
{
    return (c > 0) - (c < 0);
}

static void digits_count_as_numbers(void **state)
{
    (void)state;
    assert_true(by_ord("10-2", "10-10") < 0); /* as text it is the other way round: open and close were swapped */
    assert_true(by_ord("9-0", "10-2") < 0);
    assert_true(by_ord("54975713776340993-1", "54975713776340993-2") < 0);
    assert_true(by_ord("99999999999999999999999999999999999998", "99999999999999999999999999999999999999") < 0);
    assert_true(by_ord("9", "10000000000000000000000000000000000000000") < 0);
    assert_true(by_ord("1", "a") < 0);
    assert_true(by_ord("a", "a1") < 0);
    assert_true(by_ord("a1", "ab") < 0); /* the run "a" is before the run "ab" */
    assert_true(by_ord("", "0") < 0);
    assert_true(by_ord("0", "1") < 0);
}

static void leading_zeros_tie(void **state)
{
    (void)state;
    assert_int_equal(by_ord("007", "7"), 0); /* the id itself breaks the tie */
    assert_int_equal(by_ord("000", "0"), 0);
    assert_true(by_ord("00-2", "0-10") < 0);
}

static void longest_ids_fit(void **state)
{
    (void)state;
    char id[QN_ORD_ID_MAX + 1] = {0};
    unsigned char out[QN_ORD_MAX];
    for (size_t i = 0; i < QN_ORD_ID_MAX; i++)
        id[i] = i % 2 ? 'a' : '1';
    assert_int_equal(qn_ord_encode(qn_str_of(id), out), QN_ORD_MAX);
    memset(id, '9', QN_ORD_ID_MAX);
    assert_int_equal(qn_ord_encode(qn_str_of(id), out), 2 + QN_ORD_ID_MAX);
    assert_int_equal(out[1], QN_ORD_ID_MAX);
}

static void order_is_the_natural_one(void **state)
{
    (void)state;
    static const char letters[] = "0012399-a~ Z";
    unsigned seed = 1;
    for (int round = 0; round < 200000; round++) {
        char id[2][12] = {{0}};
        for (int k = 0; k < 2; k++) {
            size_t n = (size_t)rand_r(&seed) % 10;
            for (size_t i = 0; i < n; i++)
                id[k][i] = letters[(size_t)rand_r(&seed) % (sizeof letters - 1)];
        }
        if (sign(by_ord(id[0], id[1])) != sign(natural(id[0], id[1])))
            fail_msg("'%s' and '%s': %d, not %d", id[0], id[1], by_ord(id[0], id[1]), natural(id[0], id[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_count_as_numbers),
        cmocka_unit_test(leading_zeros_tie),
        cmocka_unit_test(longest_ids_fit),
        cmocka_unit_test(order_is_the_natural_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
