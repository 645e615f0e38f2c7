/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "base/when.h"

static int64_t at(const char *text)
{
    int64_t ms;
    if (qn_when_parse(qn_str_of(text), &ms) != QN_OK)
        fail_msg("not read: %s", text);
    return ms;
}

static void moments_are_read_with_any_offset_and_precision(void **state)
{
    (void)state;
    assert_int_equal(at("1970-01-01T00:00:00Z"), 0);
    assert_int_equal(at("2026-04-22T14:30:00.000Z"), INT64_C(1776868200000));
    assert_int_equal(at("2026-04-22t14:30:00z"), INT64_C(1776868200000));
    assert_int_equal(at("2026-04-22 14:30:00Z"), INT64_C(1776868200000));
    assert_int_equal(at("2026-04-22T16:30:00+02:00"), INT64_C(1776868200000));
    assert_int_equal(at("2026-04-22T09:00:00-05:30"), INT64_C(1776868200000));
    assert_int_equal(at("2026-04-22T14:30:00-00:00"), INT64_C(1776868200000));
    assert_int_equal(at("2026-04-22T14:30:00.5Z"), INT64_C(1776868200500));
    assert_int_equal(at("0001-01-01T00:00:00Z"), INT64_C(-62135596800000));
    assert_int_equal(at("9999-12-31T23:59:59.999Z"), INT64_C(253402300799999));
}

static void finer_than_a_millisecond_is_truncated_first(void **state)
{
    (void)state;
    assert_int_equal(at("2022-03-08T23:59:59.9999999Z"), at("2022-03-08T23:59:59.999Z"));
    assert_int_equal(at("1969-12-31T23:59:59.9999Z"), -1);
    assert_int_equal(at("2022-03-08T23:59:59.00000000000000000000000000001Z"), at("2022-03-08T23:59:59Z"));
}

static void a_leap_second_is_the_next_second(void **state)
{
    (void)state;
    assert_int_equal(at("2016-12-31T23:59:60Z"), at("2017-01-01T00:00:00Z"));
    assert_int_equal(at("2017-01-01T05:29:60.25+05:30"), at("2017-01-01T00:00:00.250Z"));
    int64_t ms;
    assert_int_equal(qn_when_parse(QN_STR("2016-12-31T12:00:60Z"), &ms), QN_EINVAL);
}

static void malformed_moments_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "2026-04-22", "2026-04-22T14:30Z", "2026-04-22T14:30:00", "2026-04-22T14:30:00.Z", "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z", "2026-04-22T24:00:00Z", "2026-04-22T14:60:00Z", "2026-04-22T14:30:61Z",
        "2026-04-22T14:30:00+24:00", "2026-04-22T14:30:00+02:60", "2026-04-22T14:30:00+0200", "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z", "9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:60Z",
        " 2026-04-22T14:30:00Z", "2026-04-22T14:30:00Z ", "2026-4-22T14:30:00Z", "+026-04-22T14:30:00Z",
        "2026-04-22T14:30:00,5Z", "2026-04-22_14:30:00Z", "now", "1776868200",
    };
    int64_t ms = 7;
    for (size_t i = 0; i < QN_LEN(bad); i++)
        assert_int_equal(qn_when_parse(qn_str_of(bad[i]), &ms), QN_EINVAL);
    assert_int_equal(qn_when_parse((struct qn_str){"2026-04-22T14:30:00Z\0", 21}, &ms), QN_EINVAL);
    assert_int_equal(qn_when_parse((struct qn_str){"2026-04-22\0" "14:30:00Z", 20}, &ms), QN_EINVAL);
    assert_int_equal(ms, 7);
}

static void a_parameter_may_be_seconds(void **state)
{
    (void)state;
    int64_t ms;
    assert_int_equal(qn_when_parse_param(QN_STR("1776868200"), &ms), QN_OK);
    assert_int_equal(ms, INT64_C(1776868200000));
    assert_int_equal(qn_when_parse_param(QN_STR("0"), &ms), QN_OK);
    assert_int_equal(ms, 0);
    assert_int_equal(qn_when_parse_param(QN_STR("2026-04-22T14:30:00Z"), &ms), QN_OK);
    assert_int_equal(qn_when_parse_param(QN_STR("17768682000"), &ms), QN_EINVAL);
    assert_int_equal(qn_when_parse_param(QN_STR("-1"), &ms), QN_EINVAL);
    assert_int_equal(qn_when_parse_param(QN_STR("1e9"), &ms), QN_EINVAL);
    assert_int_equal(qn_when_parse_param(QN_STR(""), &ms), QN_EINVAL);
}

static void expect_text(int64_t ms, const char *full, const char *seconds)
{
    struct qn_buf b = {0};
    char text[QN_WHEN_MAX];
    qn_when_put(&b, ms);
    assert_string_equal(b.p, full);
    assert_int_equal(qn_when_text(text, ms), b.n);
    assert_string_equal(text, full);
    qn_buf_clear(&b);
    qn_when_put_seconds(&b, ms);
    assert_string_equal(b.p, seconds);
    qn_buf_free(&b);
}

static void moments_are_printed_in_utc_whatever_TZ_says(void **state)
{
    (void)state;
    setenv("TZ", "America/New_York", 1);
    tzset();
    expect_text(INT64_C(1776868200000), "2026-04-22T14:30:00.000Z", "2026-04-22T14:30:00Z");
    expect_text(INT64_C(1776868200007), "2026-04-22T14:30:00.007Z", "2026-04-22T14:30:00Z");
    expect_text(-1, "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59Z");
    expect_text(at("0001-01-01T00:00:00Z"), "0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00Z");
    expect_text(at("9999-12-31T23:59:59.999Z"), "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59Z");
    expect_text(at("2000-02-29T12:00:00Z"), "2000-02-29T12:00:00.000Z", "2000-02-29T12:00:00Z");
    /* Nothing that an int64 holds may write past QN_WHEN_MAX. */
    char text[QN_WHEN_MAX];
    assert_in_range(qn_when_text(text, INT64_MAX), 1, QN_WHEN_MAX - 1);
    assert_in_range(qn_when_text(text, INT64_MIN), 1, QN_WHEN_MAX - 1);
    unsetenv("TZ");
    tzset();
}

static void dates_agree_with_gmtime_for_four_centuries(void **state)
{
    (void)state;
    for (int64_t day = -141427; day < 146097; day += 13) { /* from 1582 on */
        time_t t = (time_t)(day * 86400);
        struct tm tm;
        char want[32], got[QN_WHEN_MAX];
        gmtime_r(&t, &tm);
        strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
        qn_when_text(got, (int64_t)t * 1000);
        assert_string_equal(got, want);
        assert_int_equal(at(got), (int64_t)t * 1000);
    }
}

static void expect_bucket(enum qn_grain g, const char *ms, const char *start, const char *end)
{
    assert_int_equal(qn_grain_start(g, at(ms)), at(start));
    assert_int_equal(qn_grain_end(g, at(ms)), at(end));
    assert_int_equal(qn_grain_start(g, at(start)), at(start)); /* [start, */
    assert_int_equal(qn_grain_start(g, at(end)), at(end));     /* end)    */
    assert_int_equal(qn_grain_start(g, at(end) - 1), at(start));
    assert_int_equal(qn_grain_previous(g, at(end)), at(start));
}

static void a_trade_at_the_end_belongs_to_the_next_bucket(void **state)
{
    (void)state;
    expect_bucket(QN_1M, "2026-04-22T14:30:00Z", "2026-04-22T14:30:00Z", "2026-04-22T14:31:00Z");
    expect_bucket(QN_15M, "2026-04-22T14:29:59.999Z", "2026-04-22T14:15:00Z", "2026-04-22T14:30:00Z");
    expect_bucket(QN_4H, "2026-04-22T14:30:00Z", "2026-04-22T12:00:00Z", "2026-04-22T16:00:00Z");
    expect_bucket(QN_1D, "2022-03-08T23:59:59.999Z", "2022-03-08T00:00:00Z", "2022-03-09T00:00:00Z");
    expect_bucket(QN_1D, "1969-12-31T12:00:00Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z");
}

static void a_day_is_utc_not_that_of_the_offset(void **state)
{
    (void)state;
    expect_bucket(QN_1D, "2022-08-27T07:30:00+08:00", "2022-08-26T00:00:00Z", "2022-08-27T00:00:00Z");
}

static void weeks_start_on_monday(void **state)
{
    (void)state;
    expect_bucket(QN_1W, "2025-01-25T12:00:00Z", "2025-01-20T00:00:00Z", "2025-01-27T00:00:00Z");
    expect_bucket(QN_1W, "1970-01-01T00:00:00Z", "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z");
}

static void daylight_saving_moves_no_bucket(void **state)
{
    (void)state;
    setenv("TZ", "America/New_York", 1);
    tzset();
    assert_int_equal(qn_grain_start(QN_1D, at("2020-03-07T12:00:00Z")), INT64_C(1583539200000));
    assert_int_equal(qn_grain_start(QN_1D, at("2020-03-08T12:00:00Z")), INT64_C(1583625600000));
    assert_int_equal(qn_grain_start(QN_1D, at("2020-03-09T12:00:00Z")), INT64_C(1583712000000));
    unsetenv("TZ");
    tzset();
}

static void months_start_on_the_first(void **state)
{
    (void)state;
    expect_bucket(QN_1MO, "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
    expect_bucket(QN_1MO, "2025-12-31T23:59:59.999Z", "2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z");
    assert_int_equal(qn_grain_back(QN_1MO, at("2026-03-31T00:00:00Z"), 13), at("2025-02-01T00:00:00Z"));
    assert_int_equal(qn_grain_back(QN_1MO, at("2026-03-31T00:00:00Z"), 0), at("2026-03-01T00:00:00Z"));
    assert_int_equal(qn_grain_back(QN_1H, at("2026-01-01T00:30:00Z"), 2), at("2025-12-31T22:00:00Z"));
    assert_int_equal(qn_grain_back(QN_1W, at("2025-01-25T12:00:00Z"), 1), at("2025-01-13T00:00:00Z"));
}

static void grains_are_named_exactly(void **state)
{
    (void)state;
    static const char *const names[] = {"1m", "5m", "15m", "30m", "1h", "4h", "1d", "1w", "1mo"};
    static const int ids[] = {60, 300, 900, 1800, 3600, 14400, 86400, 604800, 2592000};
    enum qn_grain g;
    for (int i = 0; i < QN_GRAINS; i++) {
        assert_int_equal(qn_grain_parse(qn_str_of(names[i]), &g), QN_OK);
        assert_int_equal(g, i);
        assert_string_equal(qn_grain_name(g), names[i]);
        assert_int_equal(qn_grain_id(g), ids[i]);
    }
    static const char *const bad[] = {"", "1", "m", "1M", "1H", "2h", "60", "1min", " 1m", "1m ", "1month"};
    for (size_t i = 0; i < QN_LEN(bad); i++)
        assert_int_equal(qn_grain_parse(qn_str_of(bad[i]), &g), QN_EINVAL);
}

/* A candle is the sum of finer ones only if their buckets tile its own. */
static void finer_buckets_tile_a_coarser_one(void **state)
{
    (void)state;
    assert_int_equal(qn_grain_finer(QN_1M), QN_1M);
    for (int i = QN_5M; i < QN_GRAINS; i++) {
        enum qn_grain g = (enum qn_grain)i, finer = qn_grain_finer(g);
        assert_true(finer < g);
        int64_t start = qn_grain_start(g, at("2024-02-29T23:59:59Z")), end = qn_grain_end(g, start);
        assert_int_equal(qn_grain_start(finer, start), start);
        assert_int_equal(qn_grain_start(finer, end), end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_read_with_any_offset_and_precision),
        cmocka_unit_test(finer_than_a_millisecond_is_truncated_first),
        cmocka_unit_test(a_leap_second_is_the_next_second),
        cmocka_unit_test(malformed_moments_are_refused),
        cmocka_unit_test(a_parameter_may_be_seconds),
        cmocka_unit_test(moments_are_printed_in_utc_whatever_TZ_says),
        cmocka_unit_test(dates_agree_with_gmtime_for_four_centuries),
        cmocka_unit_test(a_trade_at_the_end_belongs_to_the_next_bucket),
        cmocka_unit_test(a_day_is_utc_not_that_of_the_offset),
        cmocka_unit_test(weeks_start_on_monday),
        cmocka_unit_test(daylight_saving_moves_no_bucket),
        cmocka_unit_test(months_start_on_the_first),
        cmocka_unit_test(grains_are_named_exactly),
        cmocka_unit_test(finer_buckets_tile_a_coarser_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
