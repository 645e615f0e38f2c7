/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "link/breaker.h"

static void closed_lets_all_through(void **state)
{
    (void)state;
    struct qn_breaker b = {0};
    for (int64_t t = 0; t < 10; t++)
        assert_true(qn_breaker_allows(&b, t));
    assert_false(qn_breaker_worked(&b));
    assert_int_equal(b.opened, 0);
}

static void open_lets_one_probe_a_second_through(void **state)
{
    (void)state;
    struct qn_breaker b = {0};
    assert_true(qn_breaker_failed(&b, 5000));
    int probes = 0;
    for (int64_t t = 5000; t <= 15000; t++)
        probes += qn_breaker_allows(&b, t);
    assert_int_equal(probes, 10);
    assert_int_equal(b.opened, 1);
}

static void first_probe_is_a_second_after_the_failure(void **state)
{
    (void)state;
    struct qn_breaker b = {0};
    (void)qn_breaker_failed(&b, 100);
    assert_false(qn_breaker_allows(&b, 1099));
    assert_true(qn_breaker_allows(&b, 1100));
    assert_false(qn_breaker_allows(&b, 1100));
}

static void stragglers_do_not_put_the_probe_off(void **state)
{
    (void)state;
    struct qn_breaker b = {0};
    assert_true(qn_breaker_failed(&b, 0));
    for (int64_t t = 1; t < 1000; t++)
        assert_false(qn_breaker_failed(&b, t));
    assert_true(qn_breaker_allows(&b, 1000));
}

static void a_failed_probe_keeps_it_open(void **state)
{
    (void)state;
    struct qn_breaker b = {0};
    (void)qn_breaker_failed(&b, 0);
    assert_true(qn_breaker_allows(&b, 1000));
    assert_false(qn_breaker_failed(&b, 1100));
    assert_false(qn_breaker_allows(&b, 1101));
    assert_true(qn_breaker_allows(&b, 2000));
    assert_int_equal(b.opened, 1);
}

static void a_probe_that_works_closes_it(void **state)
{
    (void)state;
    struct qn_breaker b = {0};
    (void)qn_breaker_failed(&b, 0);
    assert_true(qn_breaker_allows(&b, 1000));
    assert_true(qn_breaker_worked(&b));
    assert_true(qn_breaker_allows(&b, 1001));
    assert_true(qn_breaker_allows(&b, 1001));
    assert_true(qn_breaker_failed(&b, 1002));
    assert_int_equal(b.opened, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_lets_all_through),
        cmocka_unit_test(open_lets_one_probe_a_second_through),
        cmocka_unit_test(first_probe_is_a_second_after_the_failure),
        cmocka_unit_test(stragglers_do_not_put_the_probe_off),
        cmocka_unit_test(a_failed_probe_keeps_it_open),
        cmocka_unit_test(a_probe_that_works_closes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
