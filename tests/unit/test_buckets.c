/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Which buckets and spans a set of minutes touches.
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka.h needs the three above */
#include <cmocka.h>

#include "aggregate/buckets.h"

static int64_t ms(const char *text)
{
    int64_t out = 0;
    assert_int_equal(qn_when_parse(qn_str_of(text), &out), QN_OK);
    return out;
}

static void bucket_is(const struct qn_bucket *b, int32_t pair, const char *start)
{
    assert_int_equal(b->pair, pair);
    assert_true(b->start == ms(start));
}

static void span_is(const struct qn_span *s, int32_t pair, const char *from, const char *to)
{
    assert_int_equal(s->pair, pair);
    assert_true(s->from == ms(from));
    assert_true(s->to == ms(to));
}

static void order_is_by_pair_then_time(void **state)
{
    (void)state;
    struct qn_bucket a = {1, 60000}, b = {2, 0}, c = {1, 120000}, early = {-1, 0};
    assert_true(qn_bucket_cmp(&a, &b) < 0);
    assert_true(qn_bucket_cmp(&c, &a) > 0);
    assert_true(qn_bucket_cmp(&a, &a) == 0);
    assert_true(qn_bucket_cmp(&early, &a) < 0);
}

static void minutes_of_one_bucket_become_one(void **state)
{
    (void)state;
    struct qn_bucket b[] = {
        {1, ms("2026-02-01T00:58:00Z")}, {1, ms("2026-02-01T00:59:00Z")}, {1, ms("2026-02-01T01:00:00Z")},
        {2, ms("2026-02-01T01:00:00Z")}, {2, ms("2026-02-01T01:04:00Z")},
    };
    assert_int_equal(qn_buckets_coarsen(b, 5, QN_5M), 3);
    bucket_is(&b[0], 1, "2026-02-01T00:55:00Z");
    bucket_is(&b[1], 1, "2026-02-01T01:00:00Z");
    bucket_is(&b[2], 2, "2026-02-01T01:00:00Z");
    assert_int_equal(qn_buckets_coarsen(b, 0, QN_5M), 0);
}

/* A month made from the weeks would put Sunday, 1 February 2026 into January. */
static void weeks_straddle_months(void **state)
{
    (void)state;
    struct qn_bucket day = {1, ms("2026-02-01T00:00:00Z")}, week = day;
    qn_buckets_coarsen(&week, 1, QN_1W);
    bucket_is(&week, 1, "2026-01-26T00:00:00Z");
    qn_buckets_coarsen(&day, 1, QN_1MO);
    bucket_is(&day, 1, "2026-02-01T00:00:00Z");
}

static void neighbours_share_a_span(void **state)
{
    (void)state;
    const struct qn_bucket b[] = {
        {1, ms("2026-02-01T00:00:00Z")}, {1, ms("2026-02-01T00:01:00Z")}, {1, ms("2026-02-01T00:04:00Z")},
        {1, ms("2026-02-01T00:09:00Z")}, {2, ms("2026-02-01T00:10:00Z")},
    };
    struct qn_span s[5];
    assert_int_equal(qn_buckets_spans(b, 5, QN_1M, 0, s), 4);
    span_is(&s[0], 1, "2026-02-01T00:00:00Z", "2026-02-01T00:02:00Z");
    span_is(&s[1], 1, "2026-02-01T00:04:00Z", "2026-02-01T00:05:00Z");
    span_is(&s[3], 2, "2026-02-01T00:10:00Z", "2026-02-01T00:11:00Z");
    assert_int_equal(qn_buckets_spans(b, 5, QN_1M, 120000, s), 3);
    span_is(&s[0], 1, "2026-02-01T00:00:00Z", "2026-02-01T00:05:00Z");
    span_is(&s[1], 1, "2026-02-01T00:09:00Z", "2026-02-01T00:10:00Z");
    span_is(&s[2], 2, "2026-02-01T00:10:00Z", "2026-02-01T00:11:00Z");
}

static void a_months_span_is_as_long_as_the_month(void **state)
{
    (void)state;
    const struct qn_bucket b[] = {{1, ms("2024-02-01T00:00:00Z")}, {1, ms("2024-03-01T00:00:00Z")}};
    struct qn_span s[2];
    assert_int_equal(qn_buckets_spans(b, 2, QN_1MO, 0, s), 1);
    span_is(&s[0], 1, "2024-02-01T00:00:00Z", "2024-04-01T00:00:00Z");
    assert_int_equal(qn_buckets_spans(b, 1, QN_1MO, 0, s), 1);
    span_is(&s[0], 1, "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_by_pair_then_time),
        cmocka_unit_test(minutes_of_one_bucket_become_one),
        cmocka_unit_test(weeks_straddle_months),
        cmocka_unit_test(neighbours_share_a_span),
        cmocka_unit_test(a_months_span_is_as_long_as_the_month),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
