/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What is closed (design, section 6): the clock, sources that lag, fall silent and come back, and that no pair's
 * horizon ever goes backwards.
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka.h needs setjmp, stdarg and stdlib */
#include <cmocka.h>

#include "aggregate/horizon.h"
#include "base/when.h"

enum { GRACE = 5000, TIMEOUT = 60000, MAX = 3 };

/* One pair and up to three sources that it may follow: what the tables hold, ticked by the functions under test. */
struct world {
    struct qn_horizon_clock clock;
    struct qn_horizon_source sources[MAX];
    size_t n;
    struct qn_horizon_pair pair;
    bool follows[MAX];
    bool trades[MAX];      /* traded the pair within a day */
};

/* "12:34:41" or "12:34:41.500" of one day. */
static int64_t at(const char *time)
{
    char text[40];
    snprintf(text, sizeof text, "2026-04-22T%sZ", time);
    int64_t ms = 0;
    assert_int_equal(qn_when_parse(qn_str_of(text), &ms), QN_OK);
    return ms;
}

static int64_t horizon(const struct world *w)
{
    const struct qn_horizon_source *follows[MAX];
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->follows[i])
            follows[n++] = &w->sources[i];
    return qn_horizon_of(&w->clock, &w->pair, follows, n);
}

/* One tick, as progress.c makes it; fails if the pair's horizon went backwards. */
static void tick(struct world *w, const char *now)
{
    bool fresh = w->pair.fresh;
    int64_t was = w->pair.horizon = horizon(w);
    w->clock.now = at(now);
    qn_horizon_decide(&w->clock, w->sources, w->n);
    const struct qn_horizon_source *follows[MAX];
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (!w->follows[i] && w->trades[i])
            w->follows[i] = qn_horizon_joins(&w->clock, &w->pair, &w->sources[i]);
        if (w->follows[i])
            follows[n++] = &w->sources[i];
    }
    qn_horizon_hold(&w->clock, &w->pair, follows, n);
    w->pair.fresh = false;
    assert_true(fresh || horizon(w) >= was);
}

static void horizon_is(const struct world *w, const char *time)
{
    struct qn_buf got = {0}, want = {0};
    qn_when_put(&got, horizon(w));
    qn_when_put(&want, at(time));
    assert_string_equal(got.p, want.p);
    qn_buf_free(&got);
    qn_buf_free(&want);
}

/* The source was read up to the watermark, and says so at `seen`. */
static void seen(struct world *w, size_t source, const char *watermark, const char *when)
{
    w->sources[source].watermark = at(watermark);
    w->sources[source].seen_at = at(when);
}

/* A pair that n sources trade and that follows none of them yet; the clock's row is new. */
static struct world make(size_t n)
{
    struct world w = {.clock = {.grace = GRACE, .timeout = TIMEOUT, .closed_until = QN_HORIZON_NEVER}, .n = n};
    for (size_t i = 0; i < n; i++) {
        w.sources[i] = (struct qn_horizon_source){.id = (int16_t)(i + 1), .watermark = QN_HORIZON_NEVER,
                                                  .seen_at = QN_HORIZON_NEVER, .closed_until = QN_HORIZON_NEVER,
                                                  .alive = true};
        w.trades[i] = true;
    }
    return w;
}

/* n sources that are alive and read up to 11:59:50 at 12:00:00; the pair follows them. */
static struct world running(size_t n)
{
    struct world w = make(n);
    w.pair.fresh = true;
    for (size_t i = 0; i < n; i++)
        seen(&w, i, "11:59:50", "12:00:00");
    tick(&w, "12:00:01");
    horizon_is(&w, "11:59:00");
    for (size_t i = 0; i < n; i++)
        assert_true(w.follows[i]);
    return w;
}

/* ---- the clock */

/* At 12:34:41 the newest closed bucket starts at 12:33:00; the one of 12:34 closes with the grace. */
static void a_minute_closes_with_the_grace(void **state)
{
    (void)state;
    static const struct {
        const char *now, *horizon;
    } cases[] = {
        {"12:34:41", "12:34:00"},     {"12:35:00.000", "12:34:00"}, {"12:35:04.999", "12:34:00"},
        {"12:35:05.000", "12:35:00"}, {"12:35:59.999", "12:35:00"},
    };
    struct world w = make(0);
    for (size_t i = 0; i < QN_LEN(cases); i++) {
        tick(&w, cases[i].now);
        horizon_is(&w, cases[i].horizon);
    }
}

static void a_clock_set_back_reopens_nothing(void **state)
{
    (void)state;
    struct world w = make(0);
    tick(&w, "12:35:05");
    tick(&w, "11:00:00");
    horizon_is(&w, "12:35:00");
}

/* Its trades are there, but it has no row in progress: the pair follows the clock. */
static void a_file_import_holds_nothing_back(void **state)
{
    (void)state;
    struct world w = make(0);
    tick(&w, "12:00:05");
    horizon_is(&w, "12:00:00");
    assert_false(w.pair.held);
}

/* ---- watermarks */

static void the_slowest_source_closes_the_minute(void **state)
{
    (void)state;
    struct world w = running(2);
    seen(&w, 0, "12:03:30", "12:03:40");
    seen(&w, 1, "12:01:59.999", "12:03:40");
    tick(&w, "12:03:41");
    horizon_is(&w, "12:01:00");
    seen(&w, 1, "12:02:00", "12:03:45");
    tick(&w, "12:03:46");
    horizon_is(&w, "12:02:00"); /* a watermark at the end of a minute has read all of it */
}

static void a_watermark_ahead_of_the_clock_closes_no_more_than_the_clock(void **state)
{
    (void)state;
    struct world w = running(1);
    seen(&w, 0, "12:30:00", "12:03:40");
    tick(&w, "12:03:41");
    horizon_is(&w, "12:03:00");
}

static void a_watermark_that_goes_back_reopens_nothing(void **state)
{
    (void)state;
    struct world w = running(1);
    seen(&w, 0, "12:03:10", "12:03:40");
    tick(&w, "12:03:41");
    seen(&w, 0, "11:00:00", "12:03:45");
    tick(&w, "12:04:00");
    horizon_is(&w, "12:03:00");
}

static void a_source_is_alive_for_the_whole_timeout(void **state)
{
    (void)state;
    struct world w = running(1);
    seen(&w, 0, "12:00:30", "12:00:30");
    tick(&w, "12:01:30.000");
    assert_true(w.sources[0].alive);
    horizon_is(&w, "12:00:00");
    tick(&w, "12:01:30.001");
    assert_false(w.sources[0].alive);
}

/* ---- silence */

static void one_of_two_that_falls_silent_stops_holding_back(void **state)
{
    (void)state;
    struct world w = running(2);
    for (const char *const *t = (const char *const[]){"12:00:20", "12:00:40", "12:01:00", NULL}; *t; t++) {
        seen(&w, 1, *t, *t);
        tick(&w, *t);
    }
    assert_true(w.sources[0].alive);
    horizon_is(&w, "11:59:00"); /* the silent one holds it for the timeout */
    seen(&w, 1, "12:01:10", "12:01:10");
    tick(&w, "12:01:11");
    assert_false(w.sources[0].alive);
    assert_false(w.pair.held);
    horizon_is(&w, "12:01:00");
}

static void simultaneous_death_never_moves_the_horizon(void **state)
{
    (void)state;
    struct world w = running(2);
    seen(&w, 0, "12:00:30", "12:00:30");
    seen(&w, 1, "12:00:40", "12:00:30");
    tick(&w, "12:00:50");
    horizon_is(&w, "12:00:00");
    for (const char *const *t = (const char *const[]){"12:01:30", "12:01:31", "12:05:00", "23:00:00", NULL}; *t; t++) {
        tick(&w, *t);
        horizon_is(&w, "12:00:00");
    }
    assert_false(w.sources[0].alive || w.sources[1].alive);
    assert_true(w.pair.held);
}

static void the_last_one_to_die_leaves_the_horizon_where_it_was(void **state)
{
    (void)state;
    struct world w = running(2);
    seen(&w, 1, "12:01:10", "12:01:10");
    tick(&w, "12:01:11"); /* the first is silent by now */
    horizon_is(&w, "12:01:00");
    tick(&w, "12:02:11");
    assert_false(w.sources[1].alive);
    horizon_is(&w, "12:01:00");
    tick(&w, "13:00:00");
    horizon_is(&w, "12:01:00");
}

/* Another pair, whose other source lives, goes on: silence holds a pair, not a source. */
static void a_pair_with_a_live_source_moves_on_while_another_is_held(void **state)
{
    (void)state;
    struct world w = running(2);
    struct qn_horizon_pair other = {.horizon = at("11:59:00")};
    seen(&w, 1, "12:01:10", "12:01:10");
    w.follows[1] = w.trades[1] = false; /* this pair knows only the first */
    tick(&w, "12:01:11");
    horizon_is(&w, "11:59:00");
    const struct qn_horizon_source *both[] = {&w.sources[0], &w.sources[1]};
    qn_horizon_hold(&w.clock, &other, both, 2);
    assert_false(other.held);
    assert_true(qn_horizon_of(&w.clock, &other, both, 2) == at("12:01:00"));
}

/* Nobody looked while the source died: what it had read then is read now. */
static void a_death_that_nobody_saw_closes_what_was_read(void **state)
{
    (void)state;
    struct world w = running(1);
    seen(&w, 0, "12:10:30", "12:10:31");
    tick(&w, "12:30:00");
    assert_false(w.sources[0].alive);
    horizon_is(&w, "12:10:00");
    tick(&w, "12:40:00");
    horizon_is(&w, "12:10:00");
}

static void a_first_tick_after_the_source_ended_closes_what_it_read(void **state)
{
    (void)state;
    struct world w = make(1);
    w.pair.fresh = true;
    seen(&w, 0, "11:50:30", "11:50:31");
    tick(&w, "12:00:05");
    assert_true(w.follows[0]);
    horizon_is(&w, "11:50:00");
}

/* ---- coming back */

static void a_revived_source_lets_the_pair_go_when_it_caught_up(void **state)
{
    (void)state;
    struct world w = running(1);
    tick(&w, "12:01:30");
    assert_true(w.pair.held);
    tick(&w, "12:30:05"); /* its closed_until follows the clock's, the pair stands still */
    horizon_is(&w, "11:59:00");
    seen(&w, 0, "12:10:30", "12:30:10");
    tick(&w, "12:30:11");
    assert_true(w.sources[0].alive);
    assert_true(w.pair.held);
    horizon_is(&w, "12:10:00"); /* as far as it has read */
    seen(&w, 0, "12:29:59", "12:30:15");
    tick(&w, "12:30:16");
    assert_true(w.pair.held);
    horizon_is(&w, "12:29:00");
    seen(&w, 0, "12:30:01", "12:30:20");
    tick(&w, "12:30:21");
    assert_false(w.pair.held);
    horizon_is(&w, "12:30:00");
    seen(&w, 0, "12:31:20", "12:31:21");
    tick(&w, "12:31:22");
    horizon_is(&w, "12:31:00");
}

static void a_revived_source_never_goes_back(void **state)
{
    (void)state;
    struct world w = running(2);
    seen(&w, 1, "12:10:00", "12:10:00");
    tick(&w, "12:10:05"); /* the first is silent, the second alive: 12:10 is closed */
    horizon_is(&w, "12:10:00");
    seen(&w, 0, "12:05:00", "12:10:10");
    seen(&w, 1, "12:10:50", "12:10:50");
    tick(&w, "12:10:51");
    assert_true(w.sources[0].alive);
    assert_true(w.sources[0].closed_until == at("12:10:00"));
    seen(&w, 0, "12:06:00", "12:12:10");
    seen(&w, 1, "12:12:10", "12:12:10");
    tick(&w, "12:12:11");
    horizon_is(&w, "12:10:00"); /* it holds there until its watermark has caught up */
    seen(&w, 0, "12:12:10", "12:12:15");
    tick(&w, "12:12:16");
    horizon_is(&w, "12:12:00");
}

static void the_slowest_of_the_revived_ones_moves_a_held_pair(void **state)
{
    (void)state;
    struct world w = running(2);
    tick(&w, "12:30:05");
    seen(&w, 0, "12:20:30", "12:30:10");
    seen(&w, 1, "12:15:30", "12:30:10");
    tick(&w, "12:30:11");
    horizon_is(&w, "12:15:00");
    seen(&w, 0, "12:30:10", "12:30:15");
    tick(&w, "12:30:16");
    assert_true(w.pair.held);
    horizon_is(&w, "12:15:00");
    seen(&w, 1, "12:30:15", "12:30:20");
    tick(&w, "12:30:21");
    assert_false(w.pair.held);
    horizon_is(&w, "12:30:00");
}

static void dying_again_while_catching_up_keeps_what_was_reached(void **state)
{
    (void)state;
    struct world w = running(1);
    tick(&w, "12:30:05");
    seen(&w, 0, "12:10:30", "12:30:10");
    tick(&w, "12:30:11");
    horizon_is(&w, "12:10:00");
    tick(&w, "12:40:00");
    horizon_is(&w, "12:10:00");
    seen(&w, 0, "12:39:50", "12:40:02");
    tick(&w, "12:40:04");
    horizon_is(&w, "12:39:00");
    seen(&w, 0, "12:40:20", "12:40:21");
    tick(&w, "12:40:22");
    horizon_is(&w, "12:40:00");
    assert_false(w.pair.held);
}

static void a_source_that_is_no_longer_followed_lets_the_pair_go(void **state)
{
    (void)state;
    struct world w = running(1);
    tick(&w, "12:30:05");
    assert_true(w.pair.held);
    w.follows[0] = w.trades[0] = false; /* its row was removed */
    tick(&w, "12:31:05");
    assert_false(w.pair.held);
    horizon_is(&w, "12:31:00");
}

/* ---- coming in */

/* A pair that files fed so far, and then a source that reads its way up from the past. */
static void a_source_that_reads_the_past_does_not_put_a_pair_back(void **state)
{
    (void)state;
    struct world w = make(1);
    w.trades[0] = false;
    tick(&w, "12:00:05");
    horizon_is(&w, "12:00:00");
    w.trades[0] = true;
    seen(&w, 0, "03:00:00", "12:00:09");
    tick(&w, "12:00:10");
    assert_false(w.follows[0]);
    horizon_is(&w, "12:00:00");
    seen(&w, 0, "11:59:59", "12:00:50");
    tick(&w, "12:00:55");
    assert_false(w.follows[0]);
    seen(&w, 0, "12:01:00", "12:01:10");
    tick(&w, "12:01:11");
    assert_true(w.follows[0]);
    horizon_is(&w, "12:01:00");
}

/* A few seconds behind the clock, as every live source is: it comes in when a minute turns. */
static void a_live_source_comes_in_within_two_minutes(void **state)
{
    (void)state;
    struct world w = make(1);
    w.trades[0] = false;
    tick(&w, "12:00:30");
    w.trades[0] = true;
    for (int s = 35; s < 120; s += 5) {
        char now[16], watermark[16];
        snprintf(now, sizeof now, "12:%02d:%02d", s / 60, s % 60);
        snprintf(watermark, sizeof watermark, "12:%02d:%02d", (s - 12) / 60, (s - 12) % 60);
        seen(&w, 0, watermark, now);
        tick(&w, now);
    }
    assert_true(w.follows[0]);
}

static void a_silent_source_does_not_begin_to_hold_a_pair(void **state)
{
    (void)state;
    struct world w = make(1);
    w.trades[0] = false;
    tick(&w, "12:00:05");
    w.trades[0] = true;
    seen(&w, 0, "11:00:00", "11:00:01");
    tick(&w, "12:02:05");
    assert_false(w.follows[0]);
    horizon_is(&w, "12:02:00");
}

/* Nobody has seen a horizon of a pair without candles: it follows its first source from the start. */
static void a_fresh_pair_follows_its_source_from_the_start(void **state)
{
    (void)state;
    struct world w = make(1);
    w.trades[0] = false;
    tick(&w, "12:00:05");
    w.pair.fresh = w.trades[0] = true;
    seen(&w, 0, "11:30:10", "12:00:09");
    tick(&w, "12:00:10");
    assert_true(w.follows[0]);
    horizon_is(&w, "11:30:00");
}

/* ---- all of it, at random: no horizon goes backwards (tick() looks), and none passes what a followed live source has
 * read, unless it was closed while that source was silent */

static unsigned draw(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void no_history_puts_a_horizon_back_or_beyond_its_sources(void **state)
{
    (void)state;
    unsigned seed = 20260422;
    int moved = 0, held = 0, joined = 0;
    for (int run = 0; run < 300; run++) {
        struct world w = make(MAX);
        w.pair.fresh = run % 2 == 0;
        int64_t now = at("06:00:00"), read[MAX] = {now - 3600000, now - 10000, now};
        int64_t bound[MAX] = {INT64_MIN, INT64_MIN, INT64_MIN};
        for (int step = 0; step < 200; step++) {
            now += draw(&seed) % 20000;
            for (size_t i = 0; i < MAX; i++) {
                unsigned r = draw(&seed);
                if ((r & 63) < 40 - 12 * i) { /* sometimes silent for long */
                    read[i] += r % 45000;
                    read[i] = read[i] < now + 3000 ? read[i] : now + 3000;
                    w.sources[i].watermark = read[i];
                    w.sources[i].seen_at = now;
                }
                if (draw(&seed) % 97 == 0)
                    w.trades[i] = !w.trades[i];
            }
            struct qn_buf text = {0};
            qn_when_put(&text, now);
            text.p[text.n - 1] = '\0'; /* tick() writes the Z */
            int64_t was = horizon(&w);
            tick(&w, text.p + sizeof("2026-04-22T") - 1);
            qn_buf_free(&text);
            int64_t is = horizon(&w);
            moved += is > was;
            held += w.pair.held;
            assert_true(is <= now - GRACE);
            for (size_t i = 0; i < MAX; i++) {
                int64_t may = w.sources[i].alive ? w.sources[i].watermark : w.clock.closed_until;
                bound[i] = may > bound[i] ? may : bound[i];
                joined += w.follows[i];
                if (w.follows[i])
                    assert_true(is <= bound[i]);
            }
        }
    }
    assert_true(moved > 1000 && held > 1000 && joined > 1000); /* the histories are of every kind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minute_closes_with_the_grace),
        cmocka_unit_test(a_clock_set_back_reopens_nothing),
        cmocka_unit_test(a_file_import_holds_nothing_back),
        cmocka_unit_test(the_slowest_source_closes_the_minute),
        cmocka_unit_test(a_watermark_ahead_of_the_clock_closes_no_more_than_the_clock),
        cmocka_unit_test(a_watermark_that_goes_back_reopens_nothing),
        cmocka_unit_test(a_source_is_alive_for_the_whole_timeout),
        cmocka_unit_test(one_of_two_that_falls_silent_stops_holding_back),
        cmocka_unit_test(simultaneous_death_never_moves_the_horizon),
        cmocka_unit_test(the_last_one_to_die_leaves_the_horizon_where_it_was),
        cmocka_unit_test(a_pair_with_a_live_source_moves_on_while_another_is_held),
        cmocka_unit_test(a_death_that_nobody_saw_closes_what_was_read),
        cmocka_unit_test(a_first_tick_after_the_source_ended_closes_what_it_read),
        cmocka_unit_test(a_revived_source_lets_the_pair_go_when_it_caught_up),
        cmocka_unit_test(a_revived_source_never_goes_back),
        cmocka_unit_test(the_slowest_of_the_revived_ones_moves_a_held_pair),
        cmocka_unit_test(dying_again_while_catching_up_keeps_what_was_reached),
        cmocka_unit_test(a_source_that_is_no_longer_followed_lets_the_pair_go),
        cmocka_unit_test(a_source_that_reads_the_past_does_not_put_a_pair_back),
        cmocka_unit_test(a_live_source_comes_in_within_two_minutes),
        cmocka_unit_test(a_silent_source_does_not_begin_to_hold_a_pair),
        cmocka_unit_test(a_fresh_pair_follows_its_source_from_the_start),
        cmocka_unit_test(no_history_puts_a_horizon_back_or_beyond_its_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
