/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Candles: each test is a fault that other systems shipped, or a rule of contract-prices, section 2, with exact values.
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka.h needs the three above */
#include <cmocka.h>

#include "base/when.h"
#include "market/candle.h"

/* ---- building and looking */

static int start(void **state)
{
    struct qn_candle *c = qn_xcalloc(1, sizeof *c);
    qn_candle_init(c);
    qn_candle_reset(c, 0);
    *state = c;
    return 0;
}

static int stop(void **state)
{
    qn_candle_clear(*state);
    free(*state);
    return 0;
}

static void read_dec(struct qn_dec *out, const char *text)
{
    qn_dec_init(out);
    assert_int_equal(qn_dec_parse(out, qn_str_of(text), 0), QN_OK);
}

/* A trade of these amounts; n/d NULL: its price is their ratio. */
static void add_full(struct qn_candle *c, const char *base, const char *quote, const char *n, const char *d, int source,
                     bool dust)
{
    struct qn_dec b, q;
    mpq_t price, by;
    mpq_inits(price, by, NULL);
    read_dec(&b, base);
    read_dec(&q, quote);
    if (n) {
        assert_int_equal(qn_num_parse_ratio(price, qn_str_of(n), qn_str_of(d)), QN_OK);
    } else {
        qn_dec_get_q(price, &q);
        qn_dec_get_q(by, &b);
        mpq_div(price, price, by);
    }
    qn_candle_add_trade(c, price, &b, &q, (int16_t)source, dust);
    qn_dec_clear(&b);
    qn_dec_clear(&q);
    mpq_clears(price, by, NULL);
}

static void add(struct qn_candle *c, const char *base, const char *quote)
{
    add_full(c, base, quote, NULL, NULL, 1, false);
}

static void add_dust(struct qn_candle *c, const char *base, const char *quote)
{
    add_full(c, base, quote, NULL, NULL, 1, true);
}

static void price_is(const mpq_t price, const char *want)
{
    struct qn_buf b = {0};
    qn_num_put_quotient(&b, price);
    assert_string_equal(b.p, want);
    qn_buf_free(&b);
}

static void prices_are(const struct qn_candle *c, const char *open, const char *high, const char *low,
                       const char *close)
{
    price_is(c->open, open);
    price_is(c->high, high);
    price_is(c->low, low);
    price_is(c->close, close);
}

static void dec_is(const struct qn_dec *x, const char *want)
{
    struct qn_buf b = {0};
    qn_dec_put(&b, x);
    assert_string_equal(b.p, want);
    qn_buf_free(&b);
}

static void volumes_are(const struct qn_candle *c, const char *base, const char *quote, const char *vwap,
                        int64_t trades)
{
    mpq_t q, b;
    mpq_inits(q, b, NULL);
    dec_is(&c->base, base);
    dec_is(&c->quote, quote);
    qn_dec_get_q(q, &c->quote);
    qn_dec_get_q(b, &c->base);
    mpq_div(q, q, b);
    price_is(q, vwap);
    assert_true(c->trades == trades);
    mpq_clears(q, b, NULL);
}

static void sources_are(const struct qn_candle *c, size_t n, const int16_t *ids)
{
    assert_int_equal(c->n_sources, n);
    assert_memory_equal(c->sources, ids, n * sizeof *ids);
}

/* ---- order */

/* Two trades of one ledger: the first is the open, whatever a scan's order is. */
static void trades_of_one_close_time_keep_their_order(void **state)
{
    struct qn_candle *c = *state;
    add_full(c, "100.0000000", "95.1999900", "9519999", "10000000", 1, false);
    add_full(c, "100.0000000", "94.8100000", "9481", "10000", 1, false);
    prices_are(c, "0.9519999", "0.9519999", "0.9481", "0.9481");
    volumes_are(c, "200", "190.00999", "0.95004995", 2);
}

static void same_time_op_0_before_op_1(void **state)
{
    struct qn_candle *c = *state;
    add(c, "1", "1");
    add(c, "1", "2");
    prices_are(c, "1", "2", "1", "2");
}

/* 9-0, 10-2, 10-10 in this order. */
static void ids_in_order_of_numbers_give_one_candle(void **state)
{
    struct qn_candle *c = *state;
    add(c, "1.0000000", "17.1598849");
    add(c, "1.0000000", "17.0421333");
    add(c, "1.0000000", "17.1733669");
    prices_are(c, "17.1598849", "17.1733669", "17.0421333", "17.1733669");
    volumes_are(c, "3", "51.3753851", "17.1251283666666666", 3);
}

/* ---- arithmetic */

static void vwap_is_of_sums_not_of_rows(void **state)
{
    struct qn_candle *c = *state;
    /* row A/Q vwap 2 volume 10; row Q/A vwap 0.25 with legs 10 and 40 */
    add(c, "10", "20");
    add(c, "10", "40");
    volumes_are(c, "20", "60", "3", 2);
}

static void sources_of_different_scale_weigh_the_same(void **state)
{
    struct qn_candle *c = *state;
    add_full(c, "1.0000000", "2.0000000", NULL, NULL, 1, false);
    add_full(c, "1.00000000", "3.00000000", NULL, NULL, 2, false);
    volumes_are(c, "2", "5", "2.5", 2); /* 2.909 when 7 and 8 decimals are added as integers */
    dec_is(&c->base, "2");
    sources_are(c, 2, (int16_t[]){1, 2});
}

static void low_vwap_high_is_no_invariant(void **state)
{
    struct qn_candle *c = *state;
    for (int i = 0; i < 92; i++)
        add_full(c, "0.0010000", "0.0000001", "18880", "618830673", 1, false);
    prices_are(c, "0.000030509153511206126", "0.000030509153511206126", "0.000030509153511206126",
               "0.000030509153511206126");
    volumes_are(c, "0.092", "0.0000092", "0.0001", 92);
}

static void unending_decimals_are_truncated(void **state)
{
    struct qn_candle *c = *state;
    add(c, "3.0000000", "1.0000000");
    add(c, "3.0000000", "2.0000000");
    prices_are(c, "0.333333333333333333", "0.666666666666666666", "0.333333333333333333", "0.666666666666666666");
    volumes_are(c, "6", "3", "0.5", 2);
}

static void small_prices_are_plain_decimals(void **state)
{
    struct qn_candle *c = *state;
    add(c, "1.0000000", "0.0000001");
    prices_are(c, "0.0000001", "0.0000001", "0.0000001", "0.0000001");
}

static void volumes_go_beyond_int64(void **state)
{
    struct qn_candle *c = *state;
    add(c, "922337203685.4775807", "922337203685.4775807");
    add(c, "922337203685.4775807", "922337203685.4775807");
    prices_are(c, "1", "1", "1", "1");
    volumes_are(c, "1844674407370.9551614", "1844674407370.9551614", "1", 2);
    qn_candle_reset(c, 0);
    add(c, "9223372036854775807", "1");
    add(c, "9223372036854775807", "1");
    dec_is(&c->base, "18446744073709551614");
}

static void large_amounts_are_not_rounded(void **state)
{
    struct qn_candle *c = *state;
    add(c, "922337203685.4775807", "1");
    dec_is(&c->base, "922337203685.4775807"); /* …775 through a double */
}

/* Cross products of such prices overflow int64 and double alike. */
static void prices_beyond_int64_compare_exactly(void **state)
{
    struct qn_candle *c = *state;
    add_full(c, "1", "1537228672809129301", "4611686018427387904", "3", 1, false);
    add_full(c, "1", "1537228672809129301", "4611686018427387903", "3", 1, false);
    mpq_t want;
    mpq_init(want);
    mpq_set_str(want, "4611686018427387904/3", 10);
    assert_true(mpq_equal(c->high, want));
    assert_true(mpq_equal(c->open, want));
    mpq_set_str(want, "1537228672809129301", 10);
    assert_true(mpq_equal(c->low, want));
    assert_true(mpq_equal(c->close, want));
    mpq_clear(want);
}

/* n and d of each price are kept: the inverse is exact, and high and low change places. */
static void the_inverse_is_exact(void **state)
{
    struct qn_candle *c = *state;
    add(c, "1", "4");
    add(c, "1", "2");
    mpq_t inverse;
    mpq_init(inverse);
    mpq_inv(inverse, c->low);
    price_is(inverse, "0.5");
    mpq_inv(inverse, c->high);
    price_is(inverse, "0.25");
    mpq_set_str(inverse, "2501/2000", 10);
    mpq_inv(inverse, inverse);
    price_is(inverse, "0.799680127948820471");
    mpq_clear(inverse);
}

/* ---- dust */

static void dust_gives_no_price_but_counts(void **state)
{
    struct qn_candle *c = *state;
    add(c, "1000.0000000", "333.0000000");
    add_dust(c, "0.0000001", "0.0000001");
    prices_are(c, "0.333", "0.333", "0.333", "0.333");
    assert_false(c->dust);
    volumes_are(c, "1000.0000001", "333.0000001", "0.333000000066699999", 2);
}

static void dust_before_the_first_real_trade_is_forgotten(void **state)
{
    struct qn_candle *c = *state;
    add_dust(c, "0.0000001", "0.0000007");
    add_dust(c, "0.0000001", "0.0000001");
    assert_true(c->dust);
    prices_are(c, "7", "7", "1", "1");
    add(c, "2", "1");
    assert_false(c->dust);
    prices_are(c, "0.5", "0.5", "0.5", "0.5");
    add_dust(c, "0.0000001", "0.0000009");
    prices_are(c, "0.5", "0.5", "0.5", "0.5");
    assert_true(c->trades == 4);
    dec_is(&c->base, "2.0000003");
    dec_is(&c->quote, "1.0000017");
}

static void only_dust_gives_dust_prices(void **state)
{
    struct qn_candle *c = *state;
    add_dust(c, "0.0000002", "0.0000001");
    add_dust(c, "0.0000001", "0.0000003");
    add_dust(c, "0.0000001", "0.0000001");
    assert_true(c->dust);
    prices_are(c, "0.5", "3", "0.5", "1");
}

/* ---- coarser candles */

static struct qn_candle *finer(struct qn_candle *c, int64_t at)
{
    qn_candle_init(c);
    qn_candle_reset(c, at);
    return c;
}

static void a_coarser_candle_is_the_sum_of_finer_ones(void **state)
{
    struct qn_candle *c = *state, f[3];
    add_full(finer(&f[0], 0), "1", "2", NULL, NULL, 7, false);
    add_full(&f[0], "1", "5", NULL, NULL, 3, false);
    finer(&f[1], 60000); /* nothing traded */
    add_full(finer(&f[2], 120000), "2", "3", NULL, NULL, 5, false);
    for (int i = 0; i < 3; i++)
        qn_candle_add_candle(c, &f[i]);
    prices_are(c, "2", "5", "1.5", "1.5");
    volumes_are(c, "4", "10", "2.5", 3);
    sources_are(c, 3, (int16_t[]){3, 5, 7});
    for (int i = 0; i < 3; i++)
        qn_candle_clear(&f[i]);
}

/* A dust minute says nothing of the hour's prices where another minute has real ones, before or after. */
static void a_coarser_candle_follows_the_dust_rule(void **state)
{
    struct qn_candle *c = *state, dusty, real;
    add_dust(finer(&dusty, 0), "0.0000001", "0.0000009");
    add(finer(&real, 60000), "2", "1");
    qn_candle_add_candle(c, &dusty);
    assert_true(c->dust);
    prices_are(c, "9", "9", "9", "9");
    qn_candle_add_candle(c, &real);
    assert_false(c->dust);
    prices_are(c, "0.5", "0.5", "0.5", "0.5");
    qn_candle_add_candle(c, &dusty);
    prices_are(c, "0.5", "0.5", "0.5", "0.5");
    assert_true(c->trades == 3);
    dec_is(&c->quote, "1.0000018");
    qn_candle_clear(&dusty);
    qn_candle_clear(&real);
}

static void dust_all_over_gives_the_coarser_candle_dust_prices(void **state)
{
    struct qn_candle *c = *state, a, b;
    add_dust(finer(&a, 0), "0.0000001", "0.0000009");
    add_dust(finer(&b, 60000), "0.0000001", "0.0000001");
    qn_candle_add_candle(c, &a);
    qn_candle_add_candle(c, &b);
    assert_true(c->dust);
    prices_are(c, "9", "9", "1", "1");
    qn_candle_clear(&a);
    qn_candle_clear(&b);
}

/* ---- empty, again, many */

/* No NaN, no zero price: an empty candle is told by its trades alone. */
static void an_empty_candle_has_no_trades(void **state)
{
    struct qn_candle *c = *state, empty;
    finer(&empty, 0);
    qn_candle_add_candle(c, &empty);
    assert_true(c->trades == 0);
    assert_int_equal(c->n_sources, 0);
    dec_is(&c->base, "0");
    add(c, "2", "1");
    prices_are(c, "0.5", "0.5", "0.5", "0.5");
    qn_candle_clear(&empty);
}

static void a_reset_candle_remembers_nothing(void **state)
{
    struct qn_candle *c = *state;
    add_full(c, "0.0000001", "0.0000009", NULL, NULL, 4, true);
    qn_candle_reset(c, 60000);
    assert_true(c->start == 60000);
    assert_false(c->dust);
    assert_true(c->trades == 0);
    add_full(c, "4", "1", NULL, NULL, 2, false);
    prices_are(c, "0.25", "0.25", "0.25", "0.25");
    volumes_are(c, "4", "1", "0.25", 1);
    sources_are(c, 1, (int16_t[]){2});
}

static void sources_are_ascending_and_once(void **state)
{
    struct qn_candle *c = *state;
    static const int ids[] = {9, 3, 9, 1, 3, 12, 1};
    for (size_t i = 0; i < QN_LEN(ids); i++)
        add_full(c, "1", "1", NULL, NULL, ids[i], false);
    sources_are(c, 4, (int16_t[]){1, 3, 9, 12});
}

static void the_65th_source_counts_but_is_not_listed(void **state)
{
    struct qn_candle *c = *state;
    for (int id = 100; id > 35; id--)
        add_full(c, "1", "3", NULL, NULL, id, false);
    assert_true(c->trades == 65);
    dec_is(&c->base, "65");
    assert_int_equal(c->n_sources, QN_CANDLE_MAX_SOURCES);
    assert_int_equal(c->sources[0], 37);
    assert_int_equal(c->sources[63], 100);
    add_full(c, "1", "3", NULL, NULL, 50, false);
    assert_int_equal(c->n_sources, QN_CANDLE_MAX_SOURCES);
}

/* ---- buckets that the candles belong to */

static int64_t ms(const char *text)
{
    int64_t out = 0;
    assert_int_equal(qn_when_parse(qn_str_of(text), &out), QN_OK);
    return out;
}

static void a_trade_at_the_end_belongs_to_the_next_bucket(void **state)
{
    (void)state;
    assert_true(qn_grain_start(QN_1D, ms("2022-03-08T23:59:59.999Z")) == ms("2022-03-08T00:00:00Z"));
    assert_true(qn_grain_start(QN_1D, ms("2022-03-09T00:00:00.000Z")) == ms("2022-03-09T00:00:00Z"));
    assert_true(qn_grain_start(QN_1D, ms("2022-08-27T07:30:00+08:00")) == ms("2022-08-26T00:00:00Z"));
}

static void weeks_begin_on_monday(void **state)
{
    (void)state;
    assert_true(qn_grain_start(QN_1W, ms("2025-01-25T12:00:00Z")) == ms("2025-01-20T00:00:00Z"));
}

/* Daylight saving, of whatever time zone the server is in, moves no day. */
static void days_are_86400_seconds_in_any_time_zone(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "America/New_York", 1), 0);
    static const char *const noons[] = {"2020-03-07T12:00:00Z", "2020-03-08T12:00:00Z", "2020-03-09T12:00:00Z"};
    static const int64_t starts[] = {1583539200, 1583625600, 1583712000};
    for (size_t i = 0; i < QN_LEN(noons); i++)
        assert_true(qn_grain_start(QN_1D, ms(noons[i])) == starts[i] * 1000);
    unsetenv("TZ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(trades_of_one_close_time_keep_their_order),
        TEST(same_time_op_0_before_op_1),
        TEST(ids_in_order_of_numbers_give_one_candle),
        TEST(vwap_is_of_sums_not_of_rows),
        TEST(sources_of_different_scale_weigh_the_same),
        TEST(low_vwap_high_is_no_invariant),
        TEST(unending_decimals_are_truncated),
        TEST(small_prices_are_plain_decimals),
        TEST(volumes_go_beyond_int64),
        TEST(large_amounts_are_not_rounded),
        TEST(prices_beyond_int64_compare_exactly),
        TEST(the_inverse_is_exact),
        TEST(dust_gives_no_price_but_counts),
        TEST(dust_before_the_first_real_trade_is_forgotten),
        TEST(only_dust_gives_dust_prices),
        TEST(a_coarser_candle_is_the_sum_of_finer_ones),
        TEST(a_coarser_candle_follows_the_dust_rule),
        TEST(dust_all_over_gives_the_coarser_candle_dust_prices),
        TEST(an_empty_candle_has_no_trades),
        TEST(a_reset_candle_remembers_nothing),
        TEST(sources_are_ascending_and_once),
        TEST(the_65th_source_counts_but_is_not_listed),
        cmocka_unit_test(a_trade_at_the_end_belongs_to_the_next_bucket),
        cmocka_unit_test(weeks_begin_on_monday),
        cmocka_unit_test(days_are_86400_seconds_in_any_time_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
