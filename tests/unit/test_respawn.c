/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * fcgi/respawn: every rule with a clock that the test turns.
 */
#include "base/base.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

#include "fcgi/respawn.h"

enum { NOW = 1000 * 1000 };

static const struct qn_ending planned = {.code = 0, .ready = true};
static const struct qn_ending crash = {.signalled = true, .code = SIGSEGV, .ready = true};
static const struct qn_ending crash_at_start = {.signalled = true, .code = SIGSEGV};

static int64_t ended(struct qn_respawn *r, const struct qn_ending *e, int64_t now)
{
    int64_t at = -1;
    assert_int_equal(qn_respawn_ended(r, e, now, &at), QN_VERDICT_START);
    return at;
}

static void serving(struct qn_respawn *r)
{
    qn_respawn_init(r, 10);
    assert_true(qn_respawn_ready(r));
}

static void before_first_ready_delays_double_to_a_minute(void **state)
{
    (void)state;
    static const int64_t seconds[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
    struct qn_respawn r;
    qn_respawn_init(&r, 100);
    for (size_t i = 0; i < QN_LEN(seconds); i++)
        assert_int_equal(ended(&r, &crash_at_start, NOW), NOW + seconds[i] * 1000);
    for (int i = 0; i < 80; i++) /* no overflow either */
        assert_int_equal(ended(&r, &crash_at_start, NOW), NOW + 60 * 1000);
}

static void start_limit_is_the_count_of_tries(void **state)
{
    (void)state;
    struct qn_respawn r;
    int64_t at;
    qn_respawn_init(&r, 3);
    ended(&r, &crash_at_start, NOW);
    ended(&r, &crash_at_start, NOW);
    assert_int_equal(qn_respawn_ended(&r, &crash_at_start, NOW, &at), QN_VERDICT_GIVE_UP);
    qn_respawn_init(&r, 1);
    assert_int_equal(qn_respawn_ended(&r, &crash_at_start, NOW, &at), QN_VERDICT_GIVE_UP);
}

static void first_ready_is_told_once(void **state)
{
    (void)state;
    struct qn_respawn r;
    qn_respawn_init(&r, 3);
    ended(&r, &crash_at_start, NOW);
    assert_true(qn_respawn_ready(&r));
    assert_false(qn_respawn_ready(&r));
    /* and the start's doubts are over: a worker that fails to start now is a crash among others */
    for (int i = 0; i < 5; i++)
        assert_int_equal(ended(&r, &crash_at_start, NOW), NOW);
}

static void planned_ends_are_replaced_at_once_and_cost_no_token(void **state)
{
    (void)state;
    struct qn_respawn r;
    serving(&r);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ended(&r, &planned, NOW), NOW);
    for (int i = 0; i < QN_RESPAWN_BURST; i++)
        assert_int_equal(ended(&r, &crash, NOW), NOW);
    assert_int_equal(r.planned, 1000);
    assert_int_equal(r.crashed, QN_RESPAWN_BURST);
}

static void after_ten_crashes_one_start_a_second_and_never_none(void **state)
{
    (void)state;
    struct qn_respawn r;
    serving(&r);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ended(&r, &crash, NOW), NOW);
    for (int i = 1; i <= 5; i++)
        assert_int_equal(ended(&r, &crash, NOW), NOW + i * 1000);
    /* a client that crashes one worker as soon as it is there: one start a second, for ever */
    int64_t now = NOW + 5000;
    for (int i = 0; i < 10000; i++) {
        int64_t at = ended(&r, &crash, now);
        assert_true(at >= now && at <= now + 1000);
        now = at;
    }
    assert_true(now <= NOW + 5000 + INT64_C(10000) * 1000);
}

static void tokens_come_back_one_a_second_up_to_ten(void **state)
{
    (void)state;
    struct qn_respawn r;
    serving(&r);
    for (int i = 0; i < 10; i++)
        ended(&r, &crash, NOW);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ended(&r, &crash, NOW + 3000), NOW + 3000);
    assert_int_equal(ended(&r, &crash, NOW + 3000), NOW + 4000);
    int64_t later = NOW + 3600 * 1000;
    for (int i = 0; i < 10; i++)
        assert_int_equal(ended(&r, &crash, later), later);
    assert_int_equal(ended(&r, &crash, later), later + 1000);
}

static void exit_70_and_unknown_codes_are_crashes(void **state)
{
    (void)state;
    static const int codes[] = {1, QN_EXIT_INTERNAL, QN_EXIT_TEMPFAIL, 127, 255};
    struct qn_respawn r;
    serving(&r);
    for (size_t i = 0; i < QN_LEN(codes); i++)
        ended(&r, &(struct qn_ending){.code = codes[i], .ready = true}, NOW);
    assert_int_equal(r.crashed, QN_LEN(codes));
    assert_int_equal(r.planned, 0);
}

static void config_and_usage_errors_are_not_respawned(void **state)
{
    (void)state;
    static const int codes[] = {QN_EXIT_USAGE, QN_EXIT_CONFIG};
    for (size_t i = 0; i < QN_LEN(codes); i++) {
        struct qn_respawn r;
        int64_t at;
        struct qn_ending e = {.code = codes[i]};
        qn_respawn_init(&r, 10);
        assert_int_equal(qn_respawn_ended(&r, &e, NOW, &at), QN_VERDICT_CONFIG);
        serving(&r);
        assert_int_equal(qn_respawn_ended(&r, &e, NOW, &at), QN_VERDICT_DOWN);
        /* a signal of the same number says nothing about the configuration */
        ended(&r, &(struct qn_ending){.signalled = true, .code = codes[i], .ready = true}, NOW);
    }
}

static void exit_0_before_ready_does_not_spin(void **state)
{
    (void)state;
    struct qn_respawn r;
    struct qn_ending e = {.code = 0};
    qn_respawn_init(&r, 10);
    assert_int_equal(ended(&r, &e, NOW), NOW + 1000);
    serving(&r);
    for (int i = 0; i < 10; i++)
        ended(&r, &e, NOW);
    assert_int_equal(ended(&r, &e, NOW), NOW + 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_first_ready_delays_double_to_a_minute),
        cmocka_unit_test(start_limit_is_the_count_of_tries),
        cmocka_unit_test(first_ready_is_told_once),
        cmocka_unit_test(planned_ends_are_replaced_at_once_and_cost_no_token),
        cmocka_unit_test(after_ten_crashes_one_start_a_second_and_never_none),
        cmocka_unit_test(tokens_come_back_one_a_second_up_to_ten),
        cmocka_unit_test(exit_70_and_unknown_codes_are_crashes),
        cmocka_unit_test(config_and_usage_errors_are_not_respawned),
        cmocka_unit_test(exit_0_before_ready_does_not_spin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
