/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The market-data handlers, step by step, without any server.
 */
#include "turns.h"

#include <stdlib.h>

#include "base/when.h"
#include "market/price.h"
#include "prices/cursor.h"
#include "prices/envelope.h"

#define USDC "USDC-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
#define H INT64_C(1776868260000) /* 2026-04-22T14:31:00Z; NOW_MS is 7.25 s later */

static struct fixture f;

static int start(void **state QN_UNUSED)
{
    fixture_start(&f);
    return 0;
}

static int stop(void **state QN_UNUSED)
{
    fixture_stop(&f);
    return 0;
}

/* A hot value of 2 units for 1 (price 0.5) at this horizon and observation. */
static struct qn_hot hot_of(const char *asset, const char *quote, int64_t h_ms, int64_t observed_ms, unsigned flags)
{
    struct qn_sums s;
    struct qn_hot hot;
    const struct qn_str source = QN_STR("sdex");
    qn_sums_init(&s);
    s.window = 60;
    s.h_ms = h_ms;
    s.observed_ms = observed_ms;
    mpq_set_ui(s.price, 1, 2);
    mpz_set_ui(s.base.m, 2);
    mpz_set_ui(s.quote.m, 1);
    s.trades = 3;
    qn_hot_make(f.arena, &s, qn_str_of(asset), qn_str_of(quote), flags, &source, 1, &hot);
    qn_sums_clear(&s);
    return hot;
}

static struct qn_str cmd_word(const struct qn_cmd *cmd, size_t i)
{
    assert_true(i < cmd->argc);
    return cmd->argv[i];
}

static void reply_hot(struct qn_str text)
{
    struct qn_val r[2] = {{.kind = QN_VAL_STR, .str = text}, {.kind = QN_VAL_NIL}};
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, r, 2), QN_WANT_DONE);
    assert_int_equal(f.turn.rs.status, 200);
}

static bool body_has(const char *text)
{
    return strstr(f.turn.rs.body.p, text) != NULL;
}

static void test_price_asks_redis_once_for_value_and_divergence(void **state QN_UNUSED)
{
    assert_int_equal(fixture_get(&f, "/v1/price?asset=XLM"), QN_WANT_REDIS);
    assert_int_equal(f.turn.n_cmds, 2);
    assert_string_equal(cmd_word(&f.turn.cmds[0], 1).p, "price:native");
    assert_string_equal(cmd_word(&f.turn.cmds[1], 1).p, "div:native");
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native&window=300"), QN_WANT_REDIS);
    assert_string_equal(cmd_word(&f.turn.cmds[0], 1).p, "price:native:300");
    /* either direction of a market is one key: never both orders with unrelated values */
    assert_int_equal(fixture_get(&f, "/v1/price?asset=fiat%3AEUR&quote=crypto:BTC&window=3600"), QN_WANT_REDIS);
    assert_string_equal(cmd_word(&f.turn.cmds[0], 1).p, "vwap:crypto%3ABTC:fiat%3AEUR:3600");
    assert_int_equal(fixture_get(&f, "/v1/price?asset=crypto:BTC&quote=fiat:EUR&window=3600"), QN_WANT_REDIS);
    assert_string_equal(cmd_word(&f.turn.cmds[0], 1).p, "vwap:crypto%3ABTC:fiat%3AEUR:3600");
}

static void test_price_hit(void **state QN_UNUSED)
{
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
    struct qn_hot hot = hot_of("native", "fiat:USD", H, H, QN_FLAG_SINGLE_SOURCE);
    reply_hot(hot.text);
    assert_true(body_has("{\"data\":{\"asset\":\"native\",\"quote\":\"fiat:USD\",\"price\":\"0.5\""));
    assert_true(body_has("\"as_of\":\"2026-04-22T14:31:00.000Z\",\"stale_flag\":false,\"sources\":[\"sdex\"]"));
    assert_true(body_has("\"flags\":{\"triangulated\":false,\"divergence_warning\":false,\"divergence_checked\":false,"
                         "\"reduced_redundancy\":false,\"single_source\":true}}"));
    assert_true(qn_str_eq(f.turn.rs.cache_control, QN_STR("public, max-age=5, s-maxage=15, stale-while-revalidate=30")));
    assert_true(qn_str_eq(f.turn.rs.etag, qn_arena_printf(f.arena, "\"%.*s\"", QN_FMT(hot.etag))));
    assert_int_equal(f.turn.n_after, 0);
    assert_int_equal(f.turn.outcome, QN_OUTCOME_HIT);
}

static void test_price_inverse_from_the_same_value(void **state QN_UNUSED)
{
    assert_int_equal(fixture_get(&f, "/v1/price?asset=fiat:EUR&quote=crypto:BTC"), QN_WANT_REDIS);
    reply_hot(hot_of("crypto:BTC", "fiat:EUR", H, H, 0).text);
    assert_true(body_has("{\"data\":{\"asset\":\"fiat:EUR\",\"quote\":\"crypto:BTC\",\"price\":\"2\""));
    assert_true(body_has("\"base_volume\":\"1\",\"quote_volume\":\"2\""));
}

/* [v] bucket end 12:00:00, now 12:15:00 => false; later => true; an old observation alone stays cacheable. */
static void test_stale_flag_at_fifteen_minutes_to_the_millisecond(void **state QN_UNUSED)
{
    for (int late = 0; late < 2; late++) {
        assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
        struct qn_hot hot = hot_of("native", "fiat:USD", H, NOW_MS - 900000 - late, 0);
        reply_hot(hot.text);
        assert_true(body_has(late ? "\"stale_flag\":true" : "\"stale_flag\":false"));
        assert_true(qn_str_starts(f.turn.rs.cache_control, QN_STR("public")));
        assert_true(qn_str_eq(f.turn.rs.etag, qn_arena_printf(f.arena, late ? "\"%.*s-40\"" : "\"%.*s\"", QN_FMT(hot.etag))));
    }
}

static void test_last_trade_is_stale_by_definition(void **state QN_UNUSED)
{
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
    reply_hot(hot_of("native", "fiat:USD", H, H, QN_FLAG_LAST_TRADE).text);
    assert_true(body_has("\"stale_flag\":true"));
}

/* A hot value whose H is over 90 s behind the clock is a miss; at 90 s it is not. */
static void test_hot_value_far_behind_the_clock_is_a_miss(void **state QN_UNUSED)
{
    struct qn_val r[2] = {{.kind = QN_VAL_STR}, {.kind = QN_VAL_NIL}};
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
    reply_hot(hot_of("native", "fiat:USD", NOW_MS - 90000, NOW_MS - 90000, 0).text);
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
    r[0].str = hot_of("native", "fiat:USD", NOW_MS - 90001, NOW_MS - 90001, 0).text;
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, r, 2), QN_WANT_ROWS);
}

static const char *const ROW[19] = {"0", "0", "1", "1776868260000", "f", "1776868260000", "t", "t", "2", "1", "3",
                                    "20", "10", "30", NULL, NULL, "1", "2", "sdex"};

static struct qn_rows price_rows(size_t n)
{
    static struct qn_str cells[19];
    for (size_t i = 0; i < 19; i++)
        cells[i] = qn_str_of(ROW[i]);
    return (struct qn_rows){.nrows = n, .ncols = 19, .cells = cells};
}

/* nil, an error reply, a wrong type, garbage: each a miss, answered from the store and written back. */
static void test_anything_but_a_good_value_is_a_miss_and_repopulates(void **state QN_UNUSED)
{
    const struct qn_val bad[] = {
        {.kind = QN_VAL_NIL},
        {.kind = QN_VAL_ERROR, .str = QN_STR("WRONGTYPE Operation against a key")},
        {.kind = QN_VAL_INT, .num = 7},
        {.kind = QN_VAL_STR, .str = QN_STR("")},
        {.kind = QN_VAL_STR, .str = QN_STR("1 2 3 4 0123456789abcdef\n\n\n")},
        {.kind = QN_VAL_STR, .str = QN_STR("{\"price\":\"9\"}")},
    };
    struct qn_rows rows = price_rows(1);
    for (size_t i = 0; i < QN_LEN(bad); i++) {
        assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
        struct qn_val r[2] = {bad[i], {.kind = QN_VAL_NIL}};
        assert_int_equal(qn_turn_replies(&f.turn, QN_OK, r, 2), QN_WANT_ROWS);
        assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
        assert_true(body_has("\"price\":\"0.5\""));
        assert_true(body_has("\"stale_flag\":false"));
        assert_int_equal(f.turn.n_after, 1);
        assert_string_equal(f.turn.after[0].script->name, "fill");
        assert_string_equal(cmd_word(&f.turn.after[0], 0).p, "price:native");
        assert_string_equal(cmd_word(&f.turn.after[0], 2).p, "60");
        assert_string_equal(cmd_word(&f.turn.after[0], 3).p, "1776868260000");
        assert_int_equal(f.turn.outcome, QN_OUTCOME_MISS);
    }
}

/* What is written back, read and answered hot is the cold answer to the byte, in both directions. */
static void test_cold_and_hot_are_the_same_bytes(void **state QN_UNUSED)
{
    static const char *const URIS[] = {"/v1/price?asset=native", "/v1/price?asset=crypto:BTC&quote=fiat:EUR",
                                       "/v1/price?asset=fiat:EUR&quote=crypto:BTC"};
    struct qn_rows rows = price_rows(1);
    for (size_t i = 0; i < QN_LEN(URIS); i++) {
        assert_int_equal(fixture_get(&f, URIS[i]), QN_WANT_REDIS);
        const struct qn_val nil[2] = {{.kind = QN_VAL_NIL}, {.kind = QN_VAL_NIL}};
        assert_int_equal(qn_turn_replies(&f.turn, QN_OK, nil, 2), QN_WANT_ROWS);
        assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
        struct qn_str stored = cmd_word(&f.turn.after[0], 1);
        char *value = qn_xstrndup(stored.p, stored.n), *cold = qn_xstrndup(f.turn.rs.body.p, f.turn.rs.body.n);
        char *etag = qn_xstrndup(f.turn.rs.etag.p, f.turn.rs.etag.n);
        size_t n = stored.n;
        assert_int_equal(fixture_get(&f, URIS[i]), QN_WANT_REDIS);
        reply_hot((struct qn_str){value, n});
        assert_string_equal(f.turn.rs.body.p, cold);
        assert_string_equal(f.turn.rs.etag.p, etag);
        free(value);
        free(cold);
        free(etag);
    }
}

/* Redis out: the same answer from the store, stale at once, not cacheable, not written back. */
static void test_redis_down_is_stale_and_no_store(void **state QN_UNUSED)
{
    struct qn_rows rows = price_rows(1);
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_EUNAVAIL, NULL, 0), QN_WANT_ROWS);
    assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
    assert_true(body_has("\"price\":\"0.5\""));
    assert_true(body_has("\"stale_flag\":true"));
    assert_true(qn_str_eq(f.turn.rs.cache_control, QN_STR("no-store")));
    assert_int_equal(f.turn.n_after, 0);
}

/* Ingest or aggregation stopped: H is over 120 s behind. */
static void test_standing_horizon_is_stale_and_no_store(void **state QN_UNUSED)
{
    struct qn_rows rows = price_rows(1);
    for (int late = 0; late < 2; late++) {
        assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
        f.turn.now_ms = H + 120000 + late;
        const struct qn_val nil[2] = {{.kind = QN_VAL_NIL}, {.kind = QN_VAL_NIL}};
        assert_int_equal(qn_turn_replies(&f.turn, QN_OK, nil, 2), QN_WANT_ROWS);
        assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
        assert_true(body_has(late ? "\"stale_flag\":true" : "\"stale_flag\":false"));
        assert_true(late == qn_str_eq(f.turn.rs.cache_control, QN_STR("no-store")));
    }
}

static void test_store_out_is_503_with_retry_after(void **state QN_UNUSED)
{
    static const enum qn_err ERRORS[] = {QN_EUNAVAIL, QN_ETIMEOUT, QN_ECANCEL};
    for (size_t i = 0; i < QN_LEN(ERRORS); i++) {
        assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
        assert_int_equal(qn_turn_replies(&f.turn, QN_EUNAVAIL, NULL, 0), QN_WANT_ROWS);
        assert_int_equal(qn_turn_rows(&f.turn, ERRORS[i], NULL), QN_WANT_DONE);
        assert_problem(&f, 503, "price-unavailable", NULL);
        const char *retry = strstr(fixture_answer(&f), "\r\nRetry-After: ");
        assert_non_null(retry);
        assert_true(retry[15] >= '4' && retry[15] <= '6' && retry[16] == '\r');
    }
    assert_int_equal(fixture_get(&f, "/v1/ohlc?base=native&quote=fiat:USD"), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_EUNAVAIL, NULL, 0), QN_WANT_ROWS);
    assert_int_equal(qn_turn_rows(&f.turn, QN_ETIMEOUT, NULL), QN_WANT_DONE);
    assert_problem(&f, 503, "store-unavailable", NULL);
}

static void test_no_trade_of_any_age_is_404(void **state QN_UNUSED)
{
    struct qn_rows rows = price_rows(0);
    assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_EUNAVAIL, NULL, 0), QN_WANT_ROWS);
    assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
    assert_problem(&f, 404, "price-not-found", NULL);
}

static void test_bad_parameters_are_named(void **state QN_UNUSED)
{
    static const struct {
        const char *uri, *slug, *param;
    } CASES[] = {
        {"/v1/price", "missing-parameter", "asset"},
        {"/v1/price?asset=", "invalid-asset", "asset"},
        {"/v1/price?asset=garbage", "invalid-asset", "asset"},
        {"/v1/price?asset=native%0a", "invalid-asset", "asset"},
        {"/v1/price?asset=fiat:usd", "invalid-asset", "asset"},
        {"/v1/price?asset=USDC%252DGA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN", "invalid-asset", "asset"},
        {"/v1/price?asset=native&quote=nonsense", "invalid-quote", "quote"},
        {"/v1/price?asset=native&quote=crypto:XLM", "identity-pair", "quote"},
        {"/v1/price?asset=fiat:USD", "identity-pair", "asset"},
        {"/v1/price?asset=native&window=77", "invalid-window", "window"},
        {"/v1/price?asset=native&window=060", "invalid-window", "window"},
        {"/v1/price?asset=native&window=", "invalid-window", "window"},
        {"/v1/price?asset=native&window=18446744073709551676", "invalid-window", "window"},
        {"/v1/ohlc?base=native", "missing-parameter", "quote"},
        {"/v1/ohlc?quote=native", "missing-parameter", "base"},
        {"/v1/ohlc?base=native&quote=fiat:USD&granularity=7m", "invalid-granularity", "granularity"},
        {"/v1/ohlc?base=native&quote=fiat:USD&limit=0", "invalid-limit", "limit"},
        {"/v1/ohlc?base=native&quote=fiat:USD&limit=1001", "invalid-limit", "limit"},
        {"/v1/ohlc?base=native&quote=fiat:USD&limit=1.0", "invalid-limit", "limit"},
        {"/v1/ohlc?base=native&quote=fiat:USD&limit=9223372036854775808.0", "invalid-limit", "limit"},
        {"/v1/ohlc?base=native&quote=fiat:USD&from=yesterday", "invalid-time", "from"},
        {"/v1/ohlc?base=native&quote=fiat:USD&to=2026-02-30T00:00:00Z", "invalid-time", "to"},
        {"/v1/ohlc?base=native&quote=fiat:USD&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "invalid-time", "from"},
        {"/v1/ohlc?base=native&quote=fiat:USD&order=up", "invalid-parameter", "order"},
        {"/v1/ohlc?base=native&quote=fiat:USD&include_open=yes", "invalid-parameter", "include_open"},
        {"/v1/ohlc?base=native&quote=fiat:USD&cursor=bm9uc2Vuc2U", "invalid-cursor", "cursor"},
        {"/v1/history?base=native&quote=fiat:USD&cursor=%00x", "invalid-encoding", "cursor"},
        {"/v1/history?base=native&quote=fiat:USD&cursor=!", "invalid-cursor", "cursor"},
        {"/v1/history?base=native&quote=fiat:USD&format=csv", "unknown-parameter", "format"},
    };
    for (size_t i = 0; i < QN_LEN(CASES); i++) {
        assert_int_equal(fixture_get(&f, CASES[i].uri), QN_WANT_DONE);
        assert_problem(&f, 400, CASES[i].slug, CASES[i].param);
    }
}

/* ---- ranges ---- */

#define HEAD(since, till) "1776868260000", "f", "1776764260000", "1776868260000", since, till, "f"

static const char *CANDLES[3][21] = {
    {HEAD("1776000000000", "1776868260000"), "1776862800000", "1", "1", "4", "1", "2", "1", "3", "1", "10", "25", "5", "a,b", "t"},
    {HEAD("1776000000000", "1776868260000"), "1776859200000", "1", "3", "1", "3", "1", "3", "1", "3", "3.0", "1.0", "1", "a,b", "t"},
    {HEAD("1776000000000", "1776868260000"), "1776855600000", "1", "3", "1", "3", "1", "3", "1", "3", "3", "1", "1", "a,b", "t"},
};

static struct qn_rows rows_of(const char *const *cells, size_t n, size_t ncols)
{
    struct qn_str *s = qn_arena_array(f.arena, n * ncols, sizeof *s);
    for (size_t i = 0; i < n * ncols; i++)
        s[i] = qn_str_of(cells[i]);
    return (struct qn_rows){.nrows = n, .ncols = ncols, .cells = s};
}

static void ohlc(const char *uri, size_t n)
{
    const struct qn_val nil = {.kind = QN_VAL_NIL};
    assert_int_equal(fixture_get(&f, uri), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
    struct qn_rows rows = rows_of(CANDLES[0], n, 21);
    assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
    assert_int_equal(f.turn.rs.status, 200);
}

static void test_ohlc_pages_backwards_and_prints_ascending(void **state QN_UNUSED)
{
    ohlc("/v1/ohlc?base=crypto:BTC&quote=fiat:EUR&limit=2", 3);
    assert_true(body_has("{\"data\":{\"base\":\"crypto:BTC\",\"quote\":\"fiat:EUR\",\"granularity\":\"1h\",\"candles\":["
                         "{\"t\":\"2026-04-22T12:00:00Z\",\"open\":\"0.333333333333333333\""));
    assert_true(body_has("{\"t\":\"2026-04-22T13:00:00Z\",\"open\":\"1\",\"high\":\"4\",\"low\":\"2\",\"close\":\"3\","
                         "\"vwap\":\"2.5\",\"base_volume\":\"10\",\"quote_volume\":\"25\",\"trades\":5,\"closed\":true}]"));
    assert_false(body_has("T11:00:00Z\",\"open"));
    assert_true(body_has("\"sources\":[\"a\",\"b\"]"));
    assert_true(body_has("\"pagination\":{\"next\":\""));
    assert_true(qn_str_eq(f.turn.rs.cache_control, QN_STR("public, max-age=5")));
    const char *next = strstr(f.turn.rs.body.p, "\"next\":\"") + 8;
    struct qn_str cursor = {next, strcspn(next, "\"")};
    char *uri = qn_xstrndup(cursor.p, cursor.n);
    struct qn_arena *keep = qn_arena_new(4096);
    const char *same = qn_arena_printf(keep, "/v1/ohlc?base=crypto:BTC&quote=fiat:EUR&limit=2&cursor=%s", uri).p;
    const char *other = qn_arena_printf(keep, "/v1/ohlc?base=fiat:EUR&quote=crypto:BTC&limit=2&cursor=%s", uri).p;
    const char *order = qn_arena_printf(keep, "/v1/ohlc?base=crypto:BTC&quote=fiat:EUR&order=desc&cursor=%s", uri).p;
    const char *to = qn_arena_printf(keep, "/v1/ohlc?base=crypto:BTC&quote=fiat:EUR&to=1776000000&cursor=%s", uri).p;
    const struct qn_val nil = {.kind = QN_VAL_NIL};
    assert_int_equal(fixture_get(&f, same), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
    assert_string_equal(f.turn.query.params[3].p, "1776764260000"); /* the first page's range */
    assert_string_equal(f.turn.query.params[4].p, "1776868260000");
    assert_string_equal(f.turn.query.params[7].p, "1776859200000"); /* the last candle printed */
    assert_int_equal(fixture_get(&f, other), QN_WANT_DONE);
    assert_problem(&f, 400, "invalid-cursor", "cursor");
    assert_int_equal(fixture_get(&f, order), QN_WANT_DONE);
    assert_problem(&f, 400, "invalid-cursor", "cursor");
    assert_int_equal(fixture_get(&f, to), QN_WANT_DONE);
    assert_problem(&f, 400, "invalid-cursor", "cursor");
    qn_arena_free(keep);
    free(uri);
}

/* lessons: inverted bars kept high < low. [v] high 4 low 2 => inverse high .5 low .25. */
static void test_inverse_candle_swaps_high_and_low(void **state QN_UNUSED)
{
    ohlc("/v1/ohlc?base=fiat:EUR&quote=crypto:BTC&limit=1", 1);
    assert_true(body_has("\"open\":\"1\",\"high\":\"0.5\",\"low\":\"0.25\",\"close\":\"0.333333333333333333\",\"vwap\":\"0.4\","
                         "\"base_volume\":\"25\",\"quote_volume\":\"10\""));
    assert_true(body_has("\"pagination\":{\"next\":null}"));
}

/* Pinned only when it is explicit, settled for a day and ingested. */
static void test_cache_control_of_ranges(void **state QN_UNUSED)
{
    static const struct {
        const char *uri, *cache;
    } CASES[] = {
        {"/v1/ohlc?base=native&quote=fiat:EUR&from=2026-04-20T00:00:00Z&to=2026-04-21T00:00:00Z",
         "public, max-age=86400, s-maxage=31536000, immutable"},
        {"/v1/ohlc?base=native&quote=fiat:EUR&from=2026-04-20T00:00:00Z&to=2026-04-21T14:00:00Z",
         "public, max-age=86400, s-maxage=31536000, immutable"},
        {"/v1/ohlc?base=native&quote=fiat:EUR&from=2026-04-20T00:00:00Z&to=2026-04-21T14:30:00Z", "public, max-age=60"},
        {"/v1/ohlc?base=native&quote=fiat:EUR&granularity=1mo&from=2026-03-01T00:00:00Z&to=2026-04-22T00:00:00Z",
         "public, max-age=5"},
        {"/v1/ohlc?base=native&quote=fiat:EUR&from=2009-03-01T00:00:00Z&to=2009-04-01T00:00:00Z", "public, max-age=60"},
        {"/v1/ohlc?base=native&quote=fiat:EUR&from=2026-04-20T00:00:00Z", "public, max-age=5"},
        {"/v1/ohlc?base=native&quote=fiat:EUR&from=2026-04-20T00:00:00Z&to=2026-04-21T00:00:00Z&include_open=true",
         "public, max-age=5"},
    };
    for (size_t i = 0; i < QN_LEN(CASES); i++) {
        ohlc(CASES[i].uri, 1);
        assert_true(qn_str_eq(f.turn.rs.cache_control, qn_str_of(CASES[i].cache)));
    }
}

/* "no trades" and "not ingested" are different answers. */
static void test_coverage_is_clipped_and_null_where_nothing_was_ingested(void **state QN_UNUSED)
{
    const char *row[21] = {HEAD("1776000000000", "1776868260000"), NULL};
    const struct qn_val nil = {.kind = QN_VAL_NIL};
    assert_int_equal(fixture_get(&f, "/v1/ohlc?base=native&quote=fiat:EUR"), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
    struct qn_rows rows = rows_of(row, 1, 21);
    assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
    assert_true(body_has("\"candles\":[],\"coverage\":{\"from\":\"2026-04-21T09:37:40.000Z\",\"to\":\"2026-04-22T14:31:00.000Z\"}"));
    row[4] = row[5] = NULL;
    assert_int_equal(fixture_get(&f, "/v1/ohlc?base=native&quote=fiat:EUR"), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
    rows = rows_of(row, 1, 21);
    assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
    assert_true(body_has("\"candles\":[],\"coverage\":{\"from\":null,\"to\":null}"));
    row[0] = NULL; /* no aggregator has run yet */
    assert_int_equal(fixture_get(&f, "/v1/ohlc?base=native&quote=fiat:EUR"), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
    rows = rows_of(row, 1, 21);
    assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
    assert_problem(&f, 503, "warming-up", NULL);
}

static void test_as_of_is_the_end_of_a_past_range_and_never_beyond_h(void **state QN_UNUSED)
{
    ohlc("/v1/ohlc?base=native&quote=fiat:EUR&from=2026-04-20T00:00:00Z&to=2026-04-21T00:00:00Z", 1);
    assert_true(body_has("\"as_of\":\"2026-04-21T00:00:00.000Z\""));
    ohlc("/v1/ohlc?base=native&quote=fiat:EUR&from=2026-04-20T00:00:00Z&to=2027-01-01T00:00:00Z", 1);
    assert_true(body_has("\"as_of\":\"2026-04-22T14:31:00.000Z\""));
}

static void test_history_rows_unpriced_trades_and_cursor_of_the_full_key(void **state QN_UNUSED)
{
    static const char *const TRADES[2][15] = {
        {HEAD("1776000000000", "1776868260000"), "10 a|b", "sdex", "1776868200123", "922337203685.4775807", "1.0000000", "1", "3", "010110"},
        {HEAD("1776000000000", "1776868260000"), "10-2", "sdex", "1776868200123", "-1.5", "0.0000000", NULL, NULL, "010109"},
    };
    const struct qn_val nil = {.kind = QN_VAL_NIL};
    for (int flip = 0; flip < 2; flip++) {
        assert_int_equal(fixture_get(&f, flip ? "/v1/history?base=fiat:EUR&quote=crypto:BTC"
                                              : "/v1/history?base=crypto:BTC&quote=fiat:EUR"), QN_WANT_REDIS);
        assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
        assert_string_equal(f.turn.query.stmt->name, "history_desc");
        struct qn_rows rows = rows_of(TRADES[0], 2, 15);
        assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
        assert_true(body_has(flip ? "{\"id\":\"10 a|b\",\"source\":\"sdex\",\"ts\":\"2026-04-22T14:30:00.123Z\",\"price\":\"3\","
                                    "\"base_amount\":\"1\",\"quote_amount\":\"922337203685.4775807\"}"
                                  : "{\"id\":\"10 a|b\",\"source\":\"sdex\",\"ts\":\"2026-04-22T14:30:00.123Z\","
                                    "\"price\":\"0.333333333333333333\",\"base_amount\":\"922337203685.4775807\","
                                    "\"quote_amount\":\"1\"}"));
        assert_true(body_has(flip ? "\"price\":null,\"base_amount\":\"0\",\"quote_amount\":\"-1.5\""
                                  : "\"price\":null,\"base_amount\":\"-1.5\",\"quote_amount\":\"0\""));
    }
    assert_int_equal(fixture_get(&f, "/v1/history?base=crypto:BTC&quote=fiat:EUR&limit=1"), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
    struct qn_rows rows = rows_of(TRADES[0], 2, 15);
    assert_int_equal(qn_turn_rows(&f.turn, QN_OK, &rows), QN_WANT_DONE);
    const char *next = strstr(f.turn.rs.body.p, "\"next\":\"") + 8;
    struct qn_arena *keep = qn_arena_new(4096);
    const char *uri = qn_arena_printf(keep, "/v1/history?base=crypto:BTC&quote=fiat:EUR&limit=1&cursor=%.*s",
                                      (int)strcspn(next, "\""), next).p;
    assert_int_equal(fixture_get(&f, uri), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
    assert_string_equal(f.turn.query.params[5].p, "1776868200123");
    assert_string_equal(f.turn.query.params[6].p, "sdex");
    assert_string_equal(f.turn.query.params[7].p, "010110");
    assert_string_equal(f.turn.query.params[8].p, "10 a|b");
    qn_arena_free(keep);
}

/* Whatever a client makes of a cursor, it is 400 or a cursor of ours. */
static void test_mutated_cursors_are_refused_or_ours(void **state QN_UNUSED)
{
    struct qn_cursor c = {QN_STR("q"), 1000, 2000, true, true, QN_STR("1776868200123 sdex 01 x")}, read = {.query = QN_STR("q")};
    struct qn_str text = qn_cursor_put(f.arena, &c);
    assert_int_equal(qn_cursor_read(f.arena, text, &read), QN_OK);
    assert_true(qn_str_eq(read.key, c.key) && read.asc && read.from_ms == 1000 && read.to_ms == 2000);
    read.query = QN_STR("p");
    assert_int_equal(qn_cursor_read(f.arena, text, &read), QN_EINVAL);
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char *copy = qn_xstrndup(text.p, text.n);
    read.query = QN_STR("q");
    for (size_t i = 0; i < text.n; i++) {
        assert_int_equal(qn_cursor_read(f.arena, (struct qn_str){text.p, i}, &read), QN_EINVAL); /* cut */
        for (const char *letter = LETTERS; *letter; letter++) {
            copy[i] = *letter;
            enum qn_err err = qn_cursor_read(f.arena, (struct qn_str){copy, text.n}, &read);
            assert_int_equal(err, *letter == text.p[i] ? QN_OK : QN_EINVAL);
        }
        copy[i] = text.p[i];
    }
    free(copy);
}

/* Whoever makes a cursor of our form (the hash is no secret) gets 400 for what Postgres would choke on. */
static void test_forged_cursors_are_400(void **state QN_UNUSED)
{
    static const struct {
        int64_t from_ms, to_ms;
        const char *key;
    } CURSORS[] = {{0, 1776868260000, "abc"}, {0, 1776868260000, ""}, {0, 1776868260000, "99999999999999999999"},
                   {-999999999999999, 1776868260000, "5"}, {0, 999999999999999, "5"}, {2000, 1000, "5"}};
    for (size_t i = 0; i < QN_LEN(CURSORS); i++)
        for (int history = 0; history < 2; history++) {
            struct qn_cursor c = {history ? QN_STR("history native fiat:EUR") : QN_STR("ohlc native fiat:EUR 1h 0"),
                                  CURSORS[i].from_ms, CURSORS[i].to_ms, true, !history, qn_str_of(CURSORS[i].key)};
            struct qn_arena *keep = qn_arena_new(4096);
            const char *uri = qn_arena_printf(keep, "/v1/%s?base=native&quote=fiat:EUR&cursor=%s", history ? "history" : "ohlc",
                                              qn_cursor_put(keep, &c).p).p;
            const struct qn_val nil = {.kind = QN_VAL_NIL};
            enum qn_want want = fixture_get(&f, uri);
            if (want == QN_WANT_REDIS)
                want = qn_turn_replies(&f.turn, QN_OK, &nil, 1);
            assert_int_equal(want, QN_WANT_DONE);
            assert_problem(&f, 400, "invalid-cursor", "cursor");
            qn_arena_free(keep);
        }
}

/* A clock that ran ahead once put H in the future: what is "closed" then may be running still. */
static void test_horizon_ahead_of_the_clock_is_stale_and_no_store(void **state QN_UNUSED)
{
    for (int ahead = 0; ahead < 2; ahead++) {
        assert_int_equal(fixture_get(&f, "/v1/price?asset=native"), QN_WANT_REDIS);
        int64_t h = NOW_MS + 5000 + ahead;
        reply_hot(hot_of("native", "fiat:USD", h, h, 0).text);
        assert_true(body_has(ahead ? "\"stale_flag\":true" : "\"stale_flag\":false"));
        assert_true(ahead == qn_str_eq(f.turn.rs.cache_control, QN_STR("no-store")));
    }
}

/* A settled range is not pinned while trades of it wait to be aggregated, or a source is silent. */
static void test_what_will_change_is_not_pinned(void **state QN_UNUSED)
{
    const char *uri = "/v1/ohlc?base=native&quote=fiat:EUR&from=2026-04-20T00:00:00Z&to=2026-04-21T00:00:00Z";
    CANDLES[0][6] = "t";
    ohlc(uri, 1);
    assert_true(qn_str_eq(f.turn.rs.cache_control, QN_STR("public, max-age=5")));
    CANDLES[0][6] = "f";
    CANDLES[0][1] = "t";
    ohlc(uri, 1);
    assert_true(qn_str_eq(f.turn.rs.cache_control, QN_STR("public, max-age=60")));
    CANDLES[0][1] = "f";
    ohlc(uri, 1);
    assert_true(qn_str_eq(f.turn.rs.cache_control, QN_STR("public, max-age=86400, s-maxage=31536000, immutable")));
}

/* Open buckets end behind H: the next page must not end there. */
static void test_open_range_keeps_no_end_in_its_cursor(void **state QN_UNUSED)
{
    ohlc("/v1/ohlc?base=crypto:BTC&quote=fiat:EUR&limit=2&include_open=true", 3);
    const char *next = strstr(f.turn.rs.body.p, "\"next\":\"") + 8;
    struct qn_arena *keep = qn_arena_new(4096);
    const char *uri = qn_arena_printf(keep, "/v1/ohlc?base=crypto:BTC&quote=fiat:EUR&limit=2&include_open=true&cursor=%.*s",
                                      (int)strcspn(next, "\""), next).p;
    const struct qn_val nil = {.kind = QN_VAL_NIL};
    assert_int_equal(fixture_get(&f, uri), QN_WANT_REDIS);
    assert_int_equal(qn_turn_replies(&f.turn, QN_OK, &nil, 1), QN_WANT_ROWS);
    assert_string_equal(f.turn.query.params[3].p, "1776764260000");
    assert_null(f.turn.query.params[4].p);
    qn_arena_free(keep);
}

static void test_divergence_absent_or_odd_is_unchecked(void **state QN_UNUSED)
{
    const struct qn_asset usd = {QN_ASSET_FIAT, 8, "fiat:USD"};
    assert_int_equal(qn_envelope_divergence(QN_STR_NULL, &usd), 0);
    assert_int_equal(qn_envelope_divergence(QN_STR("nonsense"), &usd), 0);
    assert_int_equal(qn_envelope_divergence(QN_STR("[]"), &usd), 0);
    assert_int_equal(qn_envelope_divergence(QN_STR("{\"fiat:USD\":{\"checked\":\"x\",\"warning\":1}}"), &usd), 0);
    assert_int_equal(qn_envelope_divergence(QN_STR("{\"fiat:EUR\":{\"checked\":true}}"), &usd), 0);
    assert_int_equal(qn_envelope_divergence(QN_STR("{\"fiat:USD\":{\"checked\":true,\"warning\":true}}"), &usd),
                     QN_FLAG_DIVERGENCE_CHECKED | QN_FLAG_DIVERGENCE_WARNING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_price_asks_redis_once_for_value_and_divergence),
        cmocka_unit_test(test_price_hit),
        cmocka_unit_test(test_price_inverse_from_the_same_value),
        cmocka_unit_test(test_stale_flag_at_fifteen_minutes_to_the_millisecond),
        cmocka_unit_test(test_last_trade_is_stale_by_definition),
        cmocka_unit_test(test_hot_value_far_behind_the_clock_is_a_miss),
        cmocka_unit_test(test_anything_but_a_good_value_is_a_miss_and_repopulates),
        cmocka_unit_test(test_cold_and_hot_are_the_same_bytes),
        cmocka_unit_test(test_redis_down_is_stale_and_no_store),
        cmocka_unit_test(test_standing_horizon_is_stale_and_no_store),
        cmocka_unit_test(test_store_out_is_503_with_retry_after),
        cmocka_unit_test(test_no_trade_of_any_age_is_404),
        cmocka_unit_test(test_bad_parameters_are_named),
        cmocka_unit_test(test_ohlc_pages_backwards_and_prints_ascending),
        cmocka_unit_test(test_inverse_candle_swaps_high_and_low),
        cmocka_unit_test(test_cache_control_of_ranges),
        cmocka_unit_test(test_coverage_is_clipped_and_null_where_nothing_was_ingested),
        cmocka_unit_test(test_as_of_is_the_end_of_a_past_range_and_never_beyond_h),
        cmocka_unit_test(test_history_rows_unpriced_trades_and_cursor_of_the_full_key),
        cmocka_unit_test(test_mutated_cursors_are_refused_or_ours),
        cmocka_unit_test(test_forged_cursors_are_400),
        cmocka_unit_test(test_horizon_ahead_of_the_clock_is_stale_and_no_store),
        cmocka_unit_test(test_what_will_change_is_not_pinned),
        cmocka_unit_test(test_open_range_keeps_no_end_in_its_cursor),
        cmocka_unit_test(test_divergence_absent_or_odd_is_unchecked),
    };
    return cmocka_run_group_tests_name("prices", tests, start, stop);
}
