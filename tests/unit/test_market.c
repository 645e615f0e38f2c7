/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Hot values, and the choice of a path to a price from the sums of its markets.
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "market/price.h"
#include "market/statements.h"

#define USDC "USDC-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
#define H "1776868260000" /* 2026-04-22T14:31:00Z */
#define DAY_AGO "1776781860000"

static struct qn_config *config;
static struct qn_arena *arena;

static int start(void **state QN_UNUSED)
{
    config = qn_config_defaults();
    arena = qn_arena_new(65536);
    return 0;
}

static int stop(void **state QN_UNUSED)
{
    qn_arena_free(arena);
    qn_config_free(config);
    return 0;
}

static struct qn_asset asset(const char *text)
{
    struct qn_asset a;
    assert_int_equal(qn_asset_parse(config, qn_str_of(text), &a), QN_OK);
    return a;
}

static struct qn_price_ask ask(const char *base, const char *quote, bool resolve)
{
    return (struct qn_price_ask){asset(base), asset(quote), resolve};
}

/* Answers one ask for window 60 from rows of cells, 19 a row; "-" is NULL. */
static enum qn_err answer(struct qn_price_ask a, const char *const *cells, size_t nrows, struct qn_price_answer *out)
{
    static const int WINDOW = 60;
    struct qn_str *s = qn_arena_array(arena, nrows * 19 + 1, sizeof *s);
    for (size_t i = 0; i < nrows * 19; i++)
        s[i] = strcmp(cells[i], "-") == 0 ? QN_STR_NULL : qn_str_of(cells[i]);
    struct qn_rows rows = {.nrows = nrows, .ncols = 19, .cells = s};
    struct qn_price_answer *answers;
    enum qn_err err = qn_price_answers(arena, &a, 1, &WINDOW, 1, &rows, &answers);
    if (err == QN_OK)
        *out = answers[0];
    return err;
}

#define HAS(hot, text) assert_non_null(strstr((hot).data.p, (text)))

static void test_direct_market_in_the_window(void **state QN_UNUSED)
{
    struct qn_price_answer out;
    const char *const rows[] = {"0", "0", "1", H, "f", H, "t", "t", "3.0000000", "1.0000000", "2",
                                "30.50", "10", "20", "3", "2", "9", "1", "kraken,sdex"};
    assert_int_equal(answer(ask("native", "fiat:USD", true), rows, 1, &out), QN_OK);
    assert_int_equal(out.err, QN_OK);
    HAS(out.hot, "\"asset\":\"native\",\"quote\":\"fiat:USD\",\"price\":\"0.333333333333333333\",\"price_type\":\"vwap\"");
    HAS(out.hot, "\"window_seconds\":60,\"observed_at\":\"2026-04-22T14:31:00.000Z\",\"age_seconds\":0");
    HAS(out.hot, "\"base_volume\":\"3\",\"quote_volume\":\"1\",\"trades\":2");
    HAS(out.hot, "\"quote_volume_24h\":\"10\",\"trades_24h\":20,\"change_24h_pct\":\"-50.00\"");
    assert_true(qn_str_eq(out.hot.sources, QN_STR("[\"kraken\",\"sdex\"]")));
    assert_int_equal(out.hot.flags, 0);
}

/* Stand-ins come before the hop, both after the direct market; each says that it is triangulated. */
static void test_path_order_is_direct_stand_ins_hop(void **state QN_UNUSED)
{
    struct qn_price_answer out;
    const char *const rows[] = {
        "0", "0", "1", H, "f", "1776868140000", "f", "t", "1", "9", "1", "1", "9", "1", "-", "-", "9", "1", "sdex",
        "0", "1", "1", H, "f", H, "t", "t", "2", "1", "1", "2", "1", "1", "-", "-", "1", "2", "sdex",
        "0", "2", "1", H, "f", H, "t", "t", "1", "4", "1", "1", "4", "1", "-", "-", "4", "1", "sdex",
        "0", "3", "1", H, "f", H, "t", "t", "8", "1", "1", "8", "1", "1", "-", "-", "1", "8", "kraken",
    };
    struct qn_price_ask a = ask("AAA-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN", "fiat:USD", true);
    assert_int_equal(answer(a, rows, 4, &out), QN_OK); /* stand-ins: in the window, the direct market only in lookback */
    HAS(out.hot, "\"price\":\"0.5\"");
    assert_int_equal(out.hot.flags, QN_FLAG_TRIANGULATED | QN_FLAG_SINGLE_SOURCE);
    assert_int_equal(answer(a, rows, 1, &out), QN_OK); /* alone: the direct market's last minute in the lookback */
    HAS(out.hot, "\"price\":\"9\",\"price_type\":\"vwap\"");
    HAS(out.hot, "\"observed_at\":\"2026-04-22T14:29:00.000Z\",\"age_seconds\":120");
    assert_int_equal(answer(a, rows + 38, 2, &out), QN_OK); /* the hop: 4 native at 1/8 each */
    HAS(out.hot, "\"price\":\"0.5\"");
    HAS(out.hot, "\"base_volume\":\"1\",\"quote_volume\":\"0.5\"");
    assert_true(qn_str_eq(out.hot.sources, QN_STR("[\"kraken\",\"sdex\"]")));
    assert_int_equal(out.hot.flags, QN_FLAG_TRIANGULATED);
}

/* lessons: stablecoin -3.37 %: the reference of a change goes the same path as the price. */
static void test_change_of_a_hop_uses_the_hop_on_both_sides(void **state QN_UNUSED)
{
    struct qn_price_answer out;
    const char *const rows[] = {
        "0", "2", "1", H, "f", H, "t", "t", "1", "10", "1", "1", "10", "1", "1", "8", "10", "1", "sdex",
        "0", "3", "1", H, "f", H, "t", "t", "10", "1", "1", "10", "1", "1", "8", "1", "1", "10", "sdex",
    };
    struct qn_price_ask a = ask("AAA-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN", "fiat:USD", true);
    assert_int_equal(answer(a, rows, 2, &out), QN_OK);
    HAS(out.hot, "\"price\":\"1\"");
    HAS(out.hot, "\"change_24h_pct\":\"+0.00\"");
    const char *none[38];
    memcpy(none, rows, sizeof none);
    none[33] = none[34] = "-"; /* native had no reference: unknown, not zero */
    assert_int_equal(answer(a, none, 2, &out), QN_OK);
    HAS(out.hot, "\"change_24h_pct\":null");
}

/* A hop's observation is its older leg's; one silent source anywhere is reduced redundancy. */
static void test_hop_takes_the_older_leg_and_both_legs_flags(void **state QN_UNUSED)
{
    struct qn_price_answer out;
    const char *const rows[] = {
        "0", "4", "1", H, "f", H, "t", "t", "1", "10", "1", "1", "10", "1", "-", "-", "10", "1", "sdex",
        "0", "5", "1", H, "t", "1776867960000", "f", "t", "10", "1", "1", "10", "1", "1", "-", "-", "1", "10", "sdex",
    };
    assert_int_equal(answer(ask("fiat:EUR", "fiat:USD", true), rows, 2, &out), QN_OK);
    HAS(out.hot, "\"observed_at\":\"2026-04-22T14:26:00.000Z\",\"age_seconds\":300");
    assert_int_equal(out.hot.flags, QN_FLAG_TRIANGULATED | QN_FLAG_REDUCED_REDUNDANCY | QN_FLAG_SINGLE_SOURCE);
    assert_int_equal(answer(ask("fiat:EUR", "fiat:USD", true), rows, 1, &out), QN_OK); /* half a hop is none */
    assert_int_equal(out.err, QN_MISS);
}

/* Beyond the lookback: the newest close, volumes "0", and of several old paths the newest. */
static void test_last_trade_is_the_newest_close_of_any_path(void **state QN_UNUSED)
{
    struct qn_price_answer out;
    const char *const rows[] = {
        "0", "0", "1", H, "f", "1500000000000", "f", "f", "0", "0", "0", "0", "0", "0", "1", "1", "9", "1", "sdex",
        "0", "1", "1", H, "f", DAY_AGO, "f", "f", "0", "0", "0", "0", "0", "0", "1", "1", "1", "3", "sdex",
    };
    assert_int_equal(answer(ask("native", "fiat:USD", true), rows, 2, &out), QN_OK);
    HAS(out.hot, "\"price\":\"0.333333333333333333\",\"price_type\":\"last_trade\",\"window_seconds\":60");
    HAS(out.hot, "\"base_volume\":\"0\",\"quote_volume\":\"0\",\"trades\":0");
    HAS(out.hot, "\"quote_volume_24h\":\"0\",\"trades_24h\":0,\"change_24h_pct\":null");
    assert_int_equal(out.hot.flags, QN_FLAG_TRIANGULATED | QN_FLAG_LAST_TRADE | QN_FLAG_SINGLE_SOURCE);
    assert_int_equal(answer(ask("native", "fiat:USD", true), rows, 0, &out), QN_OK);
    assert_int_equal(out.err, QN_MISS);
}

static void test_rows_that_are_not_ours_are_corrupt(void **state QN_UNUSED)
{
    struct qn_price_answer out;
    const char *const good[19] = {"0", "0", "1", H, "f", H, "t", "t", "3", "1", "2", "30", "10", "20", "-", "-", "9", "1",
                                  "sdex"};
    static const struct {
        int col;
        const char *value;
    } BAD[] = {{0, "1"}, {1, "6"}, {2, "2"}, {2, "0"}, {3, "-"}, {5, "x"}, {8, "0"}, {9, "-1"}, {8, "NaN"}, {10, "1.5"},
               {11, "1e5"}, {16, "-"}, {18, "-"}};
    for (size_t i = 0; i < QN_LEN(BAD); i++) {
        const char *row[19];
        memcpy(row, good, sizeof row);
        row[BAD[i].col] = BAD[i].value;
        assert_int_equal(answer(ask("native", "fiat:USD", true), row, 1, &out), QN_ECORRUPT);
    }
    assert_int_equal(answer(ask("native", "fiat:USD", true), good, 1, &out), QN_OK);
}

static void test_query_pools_the_family_and_turns_markets_round(void **state QN_UNUSED)
{
    static const int WINDOWS[] = {60, 300};
    struct qn_price_ask asks[] = {ask("native", "fiat:USD", true), ask("crypto:BTC", "native", false)};
    struct qn_query q = qn_price_query(config, arena, asks, 2, WINDOWS, 2);
    assert_ptr_equal(q.stmt, &qn_market_stmts[QN_STMT_PRICE]);
    /* native, crypto:XLM and the contract, each in USD and in USDC; then the literal market */
    assert_string_equal(q.params[0].p, "{0,0,0,0,0,0,1}");
    assert_string_equal(q.params[1].p, "{0,0,0,1,1,1,0}");
    assert_string_equal(q.params[2].p, "{0,0,0,1,1,1,0}");
    assert_non_null(strstr(q.params[3].p, "{\"fiat:USD\",\"crypto:XLM\",\""));
    assert_non_null(strstr(q.params[4].p, "{\"native\",\"fiat:USD\",\"fiat:USD\",\"native\""));
    assert_string_equal(q.params[5].p, "{t,f,f,t,t,f,f}");
    assert_string_equal(q.params[6].p, "{60,300}");
    assert_string_equal(q.params[7].p, "86400");
}

/* A stand-in against its own fiat has its market or nothing; the reference's family takes no hop through itself. */
static void test_stand_in_against_its_fiat_is_its_market_only(void **state QN_UNUSED)
{
    static const int WINDOW = 60;
    struct qn_price_ask a = ask(USDC, "fiat:USD", true);
    assert_string_equal(qn_price_query(config, arena, &a, 1, &WINDOW, 1).params[2].p, "{0}");
    a = ask("fiat:EUR", "fiat:USD", true);
    assert_string_equal(qn_price_query(config, arena, &a, 1, &WINDOW, 1).params[2].p, "{0,1,2,2,2,3,3,3,4,4,4,5,5,5}");
}

static struct qn_hot make_hot(void)
{
    struct qn_price_answer out;
    const char *const rows[] = {"0", "0", "1", H, "f", H, "t", "t", "3.0000000", "1.0000000", "2",
                                "30.50", "10", "20", "3", "2", "9", "1", "sdex"};
    assert_int_equal(answer(ask("crypto:BTC", "fiat:EUR", false), rows, 1, &out), QN_OK);
    return out.hot;
}

static void test_hot_value_reads_back(void **state QN_UNUSED)
{
    struct qn_hot hot = make_hot(), read;
    assert_int_equal(qn_hot_read(hot.text, &read), QN_OK);
    assert_int_equal(read.h_ms, hot.h_ms);
    assert_int_equal(read.observed_ms, hot.observed_ms);
    assert_int_equal(read.flags, QN_FLAG_SINGLE_SOURCE);
    assert_true(qn_str_eq(read.data, hot.data));
    assert_true(qn_str_eq(read.sources, hot.sources));
    assert_true(qn_str_eq(read.etag, hot.etag) && hot.etag.n == 16);
}

/* A corrupt value in Redis is a miss, never a wrong price: any flipped bit, any cut. */
static void test_hot_value_with_any_byte_changed_is_corrupt(void **state QN_UNUSED)
{
    struct qn_hot hot = make_hot(), read;
    char *copy = qn_arena_copy(arena, hot.text).p ? (char *)(uintptr_t)qn_arena_copy(arena, hot.text).p : NULL;
    assert_non_null(copy);
    for (size_t i = 0; i < hot.text.n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            copy[i] = (char)(copy[i] ^ (1 << bit));
            assert_int_equal(qn_hot_read((struct qn_str){copy, hot.text.n}, &read), QN_ECORRUPT);
            copy[i] = (char)(copy[i] ^ (1 << bit));
        }
        assert_int_equal(qn_hot_read((struct qn_str){copy, i}, &read), QN_ECORRUPT);
    }
    assert_int_equal(qn_hot_read((struct qn_str){copy, hot.text.n}, &read), QN_OK);
    assert_int_equal(qn_hot_read(QN_STR_NULL, &read), QN_ECORRUPT);
}

/* The inverse is exact: turned twice it is the first again, to the byte. */
static void test_inverse_of_the_inverse_is_the_value(void **state QN_UNUSED)
{
    struct qn_hot hot = make_hot(), inverse, again;
    assert_int_equal(qn_hot_invert(arena, &hot, QN_STR("fiat:EUR"), QN_STR("crypto:BTC"), &inverse), QN_OK);
    HAS(inverse, "\"asset\":\"fiat:EUR\",\"quote\":\"crypto:BTC\",\"price\":\"3\"");
    HAS(inverse, "\"base_volume\":\"1\",\"quote_volume\":\"3\",\"trades\":2");
    HAS(inverse, "\"quote_volume_24h\":\"30.5\",\"trades_24h\":20,\"change_24h_pct\":\"+100.00\"");
    assert_int_equal(qn_hot_invert(arena, &inverse, QN_STR("crypto:BTC"), QN_STR("fiat:EUR"), &again), QN_OK);
    assert_true(qn_str_eq(again.text, hot.text));
}

static void test_a_hop_is_never_inverted(void **state QN_UNUSED)
{
    struct qn_price_answer out;
    struct qn_hot inverse;
    const char *const rows[] = {
        "0", "2", "1", H, "f", H, "t", "t", "1", "10", "1", "1", "10", "1", "-", "-", "10", "1", "sdex",
        "0", "3", "1", H, "f", H, "t", "t", "10", "1", "1", "10", "1", "1", "-", "-", "1", "10", "sdex",
    };
    assert_int_equal(answer(ask("fiat:EUR", "fiat:USD", true), rows, 2, &out), QN_OK);
    assert_int_equal(qn_hot_invert(arena, &out.hot, QN_STR("fiat:USD"), QN_STR("fiat:EUR"), &inverse), QN_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direct_market_in_the_window),
        cmocka_unit_test(test_path_order_is_direct_stand_ins_hop),
        cmocka_unit_test(test_change_of_a_hop_uses_the_hop_on_both_sides),
        cmocka_unit_test(test_hop_takes_the_older_leg_and_both_legs_flags),
        cmocka_unit_test(test_last_trade_is_the_newest_close_of_any_path),
        cmocka_unit_test(test_rows_that_are_not_ours_are_corrupt),
        cmocka_unit_test(test_query_pools_the_family_and_turns_markets_round),
        cmocka_unit_test(test_stand_in_against_its_fiat_is_its_market_only),
        cmocka_unit_test(test_hot_value_reads_back),
        cmocka_unit_test(test_hot_value_with_any_byte_changed_is_corrupt),
        cmocka_unit_test(test_inverse_of_the_inverse_is_the_value),
        cmocka_unit_test(test_a_hop_is_never_inverted),
    };
    return cmocka_run_group_tests_name("market", tests, start, stop);
}
