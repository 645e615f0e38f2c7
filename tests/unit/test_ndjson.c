/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/strkey.h"
#include "ingest/ndjson.h"

static const int64_t now_ms = INT64_C(1767225600000); /* 2026-01-01 */
enum { DUST_UNITS = 100 };

struct fixture {
    struct qn_config *config;
    struct qn_ndjson_reader *reader;
    struct qn_trade trade;
    struct qn_trade_market market;
    char line[4096];
    const char *why;
};

static int setup(void **state)
{
    struct fixture *f = qn_xcalloc(1, sizeof *f);
    f->config = qn_config_defaults();
    f->reader = qn_ndjson_reader_new();
    qn_trade_init(&f->trade);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    qn_trade_clear(&f->trade);
    qn_ndjson_reader_free(f->reader);
    qn_config_free(f->config);
    free(f);
    return 0;
}

/* Reads a line all the way to a trade. */
static enum qn_err read_line(struct fixture *f, struct qn_str line)
{
    struct qn_ndjson_line l;
    f->why = NULL;
    if (qn_ndjson_read(f->reader, line, &l, &f->why))
        return QN_EINVAL;
    assert_int_equal(l.kind, QN_NDJSON_TRADE);
    if (qn_trade_market_read(f->config, l.base, l.quote, &f->market, &f->why))
        return QN_EINVAL;
    const struct qn_config_source *source = qn_config_source(f->config, l.trade.source);
    return qn_trade_read(&f->trade, &l.trade, f->market.flip, source ? source->scale : -1, DUST_UNITS, now_ms, &f->why);
}

struct fields {
    const char *id, *ts, *source, *base, *quote, *base_amount, *quote_amount; /* JSON values; NULL: a good one */
    const char *rest;                                                          /* more members, with a comma first */
};

static enum qn_err read_fields(struct fixture *f, struct fields v)
{
#define OR(value, other) ((value) ? (value) : (other))
    snprintf(f->line, sizeof f->line,
             "{\"id\":%s,\"ts\":%s,\"source\":%s,\"base\":%s,\"quote\":%s,\"base_amount\":%s,\"quote_amount\":%s%s}",
             OR(v.id, "\"1-0\""), OR(v.ts, "\"2025-06-01T00:00:00Z\""), OR(v.source, "\"sdex\""),
             OR(v.base, "\"crypto:BTC\""), OR(v.quote, "\"fiat:USD\""), OR(v.base_amount, "\"100.0000000\""),
             OR(v.quote_amount, "\"50.0000000\""), OR(v.rest, ""));
#undef OR
    return read_line(f, qn_str_of(f->line));
}

#define GOOD(f, ...)                                                                                                 \
    do {                                                                                                             \
        if (read_fields((f), (struct fields){__VA_ARGS__}))                                                          \
            fail_msg("%s: %s", (f)->line, (f)->why);                                                                 \
    } while (0)

#define BAD(f, reason, ...)                                                                                          \
    do {                                                                                                             \
        if (!read_fields((f), (struct fields){__VA_ARGS__}))                                                         \
            fail_msg("taken: %s", (f)->line);                                                                        \
        if (!strstr((f)->why, (reason)))                                                                             \
            fail_msg("%s: %s, not %s", (f)->line, (f)->why, (reason));                                               \
    } while (0)

static void expect_price(struct fixture *f, const char *n, const char *d)
{
    struct qn_buf b = {0};
    qn_num_put_z(&b, mpq_numref(f->trade.price));
    qn_buf_char(&b, '/');
    qn_num_put_z(&b, mpq_denref(f->trade.price));
    char want[256];
    snprintf(want, sizeof want, "%s/%s", n, d);
    assert_string_equal(b.p, want);
    qn_buf_free(&b);
}

static void expect_text(struct qn_str got, const char *want)
{
    if (!qn_str_eq(got, qn_str_of(want)))
        fail_msg("'%.*s', not '%s'", QN_FMT(got), want);
}

/* ---- prices */

static void price_is_the_ratio_in_lowest_terms(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base_amount = "\"3.0000000\"", .quote_amount = "\"1.0000000\"");
    expect_price(f, "1", "3");
    assert_int_equal(f->trade.flags, 0);
    GOOD(f, .base_amount = "\"3\"", .quote_amount = "\"0.50\"");
    expect_price(f, "1", "6");
}

static void source_price_wins_when_it_agrees(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base_amount = "\"0.1715047\"", .quote_amount = "\"0.1811982\"",
         .rest = ",\"price_n\":1580915497,\"price_d\":1496341922");
    expect_price(f, "1580915497", "1496341922");
    assert_int_equal(f->trade.flags, QN_TRADE_QUOTED);
    /* base_is_seller and the price's direction: counter per base */
    GOOD(f, .base_amount = "\"378.0000000\"", .quote_amount = "\"472.6890000\"",
         .rest = ",\"price_n\":2501,\"price_d\":2000");
    expect_price(f, "2501", "2000");
    assert_int_equal(f->trade.flags, 0); /* it is the ratio of the amounts in other words */
}

static void contradicting_price_is_counted_and_left(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base_amount = "\"1269.2134875\"", .quote_amount = "\"19637.5167985\"",
         .rest = ",\"price_n\":1,\"price_d\":2");
    expect_price(f, "39275033597", "2538426975");
    assert_int_equal(f->trade.flags, QN_TRADE_MISMATCH);
}

static void agreement_is_one_unit_of_each_last_place_as_written(void **state)
{
    struct fixture *f = *state;
    /* |2 * 10.0 - q| <= 0.1 + 2 * 0.1 = 0.3 */
    GOOD(f, .base_amount = "\"10.0\"", .quote_amount = "\"20.3\"", .rest = ",\"price_n\":2,\"price_d\":1");
    assert_int_equal(f->trade.flags, QN_TRADE_QUOTED);
    GOOD(f, .base_amount = "\"10.0\"", .quote_amount = "\"20.4\"", .rest = ",\"price_n\":2,\"price_d\":1");
    assert_int_equal(f->trade.flags, QN_TRADE_MISMATCH);
    /* the same amounts with more digits: |20 - 20.3| > 0.01 + 2 * 0.1, and with both finer still more */
    GOOD(f, .base_amount = "\"10.0\"", .quote_amount = "\"20.30\"", .rest = ",\"price_n\":2,\"price_d\":1");
    assert_int_equal(f->trade.flags, QN_TRADE_MISMATCH);
    GOOD(f, .base_amount = "\"10.0\"", .quote_amount = "\"20.21\"", .rest = ",\"price_n\":2,\"price_d\":1");
    assert_int_equal(f->trade.flags, QN_TRADE_QUOTED);
    GOOD(f, .base_amount = "\"10.00\"", .quote_amount = "\"20.2\"", .rest = ",\"price_n\":2,\"price_d\":1");
    assert_int_equal(f->trade.flags, QN_TRADE_MISMATCH); /* 0.2 > 0.1 + 0.02 */
    GOOD(f, .base_amount = "10", .quote_amount = "23", .rest = ",\"price_n\":\"2\",\"price_d\":\"1\"");
    assert_int_equal(f->trade.flags, QN_TRADE_QUOTED); /* 3 <= 1 + 2 */
}

static void price_parts_may_exceed_64_bits(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base_amount = "\"0.0000003\"", .quote_amount = "\"461168601842.7387904\"",
         .rest = ",\"price_n\":\"4611686018427387904\",\"price_d\":\"3\"");
    expect_price(f, "4611686018427387904", "3");
    GOOD(f, .base_amount = "\"0.000000000000000000000000000000000000003\"",
         .quote_amount = "\"9999999999999999999999999999999999999999\"", .source = "\"kraken\"");
    expect_price(f, "3333333333333333333333333333333333333333000000000000000000000000000000000000000", "1");
}

static void prices_come_in_pairs_of_positive_integers(void **state)
{
    struct fixture *f = *state;
    BAD(f, "together", .rest = ",\"price_n\":1");
    BAD(f, "together", .rest = ",\"price_d\":1");
    BAD(f, "together", .rest = ",\"price_n\":null,\"price_d\":1");
    BAD(f, "positive", .rest = ",\"price_n\":0,\"price_d\":1");
    BAD(f, "positive", .rest = ",\"price_n\":1,\"price_d\":\"0\"");
    BAD(f, "positive", .rest = ",\"price_n\":-1,\"price_d\":-2");
    BAD(f, "positive", .rest = ",\"price_n\":1.5,\"price_d\":2");
    BAD(f, "positive", .rest = ",\"price_n\":\"+1\",\"price_d\":2");
    BAD(f, "positive", .rest = ",\"price_n\":\"\",\"price_d\":2");
    BAD(f, "positive", .rest = ",\"price_n\":\"12345678901234567890123456789012345678901\",\"price_d\":2");
    BAD(f, "string or number", .rest = ",\"price_n\":true,\"price_d\":2");
    BAD(f, "string or number", .rest = ",\"price_n\":[1],\"price_d\":2");
    GOOD(f, .rest = ",\"price_n\":null,\"price_d\":null");
    assert_int_equal(f->trade.flags, 0);
}

static void zero_and_negative_amounts_are_kept_unpriced(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base_amount = "\"0.0000000\"", .quote_amount = "\"0.0000001\"");
    assert_int_equal(f->trade.flags, QN_TRADE_UNPRICED);
    expect_text(f->trade.base_amount, "0.0000000");
    GOOD(f, .base_amount = "\"-5\"", .quote_amount = "\"1\"", .rest = ",\"price_n\":1,\"price_d\":5");
    assert_int_equal(f->trade.flags, QN_TRADE_UNPRICED); /* no dust, no mismatch either */
    GOOD(f, .base_amount = "-0", .quote_amount = "1");
    assert_int_equal(f->trade.flags, QN_TRADE_UNPRICED);
    BAD(f, "positive", .base_amount = "0", .rest = ",\"price_n\":0,\"price_d\":1"); /* bad all the same */
}

static void dust_is_a_ratio_of_few_units_of_a_source_with_a_scale(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base_amount = "\"0.0000001\"", .quote_amount = "\"0.0000001\"");
    assert_int_equal(f->trade.flags, QN_TRADE_DUST);
    GOOD(f, .base_amount = "\"0.0000099\"", .quote_amount = "\"5\"");
    assert_int_equal(f->trade.flags, QN_TRADE_DUST);
    GOOD(f, .base_amount = "\"5\"", .quote_amount = "\"0.0000099\"");
    assert_int_equal(f->trade.flags, QN_TRADE_DUST);
    GOOD(f, .base_amount = "\"0.0000100\"", .quote_amount = "\"5\""); /* 100 units are enough */
    assert_int_equal(f->trade.flags, 0);
    GOOD(f, .base_amount = "\"0.0000001\"", .quote_amount = "\"0.0000001\"", .source = "\"kraken\"");
    assert_int_equal(f->trade.flags, 0); /* no scale */
    GOOD(f, .base_amount = "\"0.0010000\"", .quote_amount = "\"0.0000001\"",
         .rest = ",\"price_n\":18880,\"price_d\":618830673");
    assert_int_equal(f->trade.flags, QN_TRADE_QUOTED); /* few units, but a price of its own */
    expect_price(f, "18880", "618830673");
    GOOD(f, .base_amount = "\"0.0000002\"", .quote_amount = "\"0.0000001\"", .rest = ",\"price_n\":50,\"price_d\":100");
    assert_int_equal(f->trade.flags, QN_TRADE_DUST); /* quoted, but merely the ratio */
    GOOD(f, .base_amount = "\"0.0000002\"", .quote_amount = "\"0.0000001\"", .rest = ",\"price_n\":9,\"price_d\":1");
    assert_int_equal(f->trade.flags, QN_TRADE_DUST | QN_TRADE_MISMATCH);
}

static void amounts_are_kept_exactly(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base_amount = "\"922337203685.4775807\"", .quote_amount = "922337203685.47758");
    expect_text(f->trade.base_amount, "922337203685.4775807");
    expect_text(f->trade.quote_amount, "922337203685.47758");
    GOOD(f, .base_amount = "0.10", .quote_amount = "1.50", .rest = ",\"x\":1"); /* by way of the strict reader */
    expect_text(f->trade.base_amount, "0.10");
    expect_text(f->trade.quote_amount, "1.50");
}

/* ---- direction */

static void smaller_name_is_the_base(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base = "\"fiat:USD\"", .quote = "\"crypto:BTC\"", .base_amount = "\"50\"", .quote_amount = "\"100.5\"",
         .rest = ",\"price_n\":201,\"price_d\":100");
    assert_true(f->market.flip);
    assert_string_equal(f->market.base.text, "crypto:BTC");
    expect_text(f->trade.base_amount, "100.5");
    expect_text(f->trade.quote_amount, "50");
    expect_price(f, "100", "201");
}

static void order_of_names_is_bytewise(void **state)
{
    struct fixture *f = *state;
    char issuer[57], a[128], b[128];
    const unsigned char key[32] = {7};
    qn_strkey_encode(QN_STRKEY_ACCOUNT, key, issuer);
    snprintf(a, sizeof a, "\"aBTC-%s\"", issuer);
    snprintf(b, sizeof b, "\"USDA-%s\"", issuer);
    GOOD(f, .base = a, .quote = b); /* 0x55 before 0x61, whatever a locale says */
    assert_memory_equal(f->market.base.text, "USDA-", 5);
}

static void same_family_is_no_market(void **state)
{
    struct fixture *f = *state;
    BAD(f, "same asset", .base = "\"native\"", .quote = "\"XLM\"");
    BAD(f, "same asset", .base = "\"native\"", .quote = "\"crypto:XLM\"");
    BAD(f, "same asset", .base = "\"fiat:USD\"", .quote = "\"fiat:USD\"");
}

static void bad_assets_are_named(void **state)
{
    struct fixture *f = *state;
    BAD(f, "base is not an asset", .base = "\"USDC\"");
    BAD(f, "quote is not an asset", .quote = "\"\"");
    BAD(f, "quote is not a string", .quote = "5");
    BAD(f, "base is not an asset", .base = "\"native\\n\"");
}

/* ---- members */

static void amounts_must_be_plain_decimals(void **state)
{
    static const char *const bad[] = {"\"\"", "\"1e5\"", "\"+1\"", "\"1.\"", "\".5\"", "\" 1\"", "\"1 \"", "\"NaN\"",
                                      "\"0x10\"", "\"1,5\"", "\"--1\"",
                                      "\"12345678901234567890123456789012345678901\""};
    struct fixture *f = *state;
    for (size_t i = 0; i < QN_LEN(bad); i++)
        BAD(f, "amount", .quote_amount = bad[i]);
    BAD(f, "exponent", .base_amount = "1e5");
    BAD(f, "exponent", .base_amount = "1.5E-2");
    BAD(f, "string or number", .base_amount = "{}");
    BAD(f, "no base_amount", .base_amount = "null");
    GOOD(f, .base_amount = "\"1234567890123456789012345678901234567890\"");
    GOOD(f, .base_amount = "\"0.000000000000000000000000000000000000001\"");
}

static void json_numbers_have_at_most_18_digits(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .base_amount = "123456789012345678");
    expect_text(f->trade.base_amount, "123456789012345678");
    BAD(f, "18 digits", .base_amount = "1234567890123456789");
    BAD(f, "18 digits", .base_amount = "922337203685.4775807");
    BAD(f, "18 digits", .base_amount = "18446744073709551616"); /* json-c clamps it */
    BAD(f, "18 digits", .base_amount = "-9223372036854775809");
    BAD(f, "18 digits", .base_amount = "99999999999999999999999999", .rest = ",\"x\":1");
    BAD(f, "18 digits", .rest = ",\"price_n\":1234567890123456789,\"price_d\":1");
}

static void ids_are_printable_ascii(void **state)
{
    struct fixture *f = *state;
    char id[160];
    memset(id, 'x', sizeof id);
    id[0] = id[129] = '"';
    id[130] = '\0';
    GOOD(f, .id = id); /* 128 */
    id[129] = 'x';
    id[130] = '"';
    id[131] = '\0';
    BAD(f, "id is not 1 to 128", .id = id);
    BAD(f, "id is not 1 to 128", .id = "\"\"");
    BAD(f, "id is not 1 to 128", .id = "\"a\\u0000b\"");
    BAD(f, "id is not 1 to 128", .id = "\"a\\tb\"");
    BAD(f, "id is not 1 to 128", .id = "\"\xc3\xa9\"");
    BAD(f, "id is not 1 to 128", .id = "\"\x7f\"");
    BAD(f, "id is not a string", .id = "12"); /* the ids of venues exceed what JSON numbers keep */
    BAD(f, "no id", .id = "null");
    GOOD(f, .id = "\"a\\\"b\\\\c \\u0041\"");
    expect_text(f->trade.id, "a\"b\\c A");
}

static void sources_are_short_names(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .source = "\"a.b_c-9\"");
    GOOD(f, .source = "\"12345678901234567890123456789012\"");
    BAD(f, "source is not", .source = "\"123456789012345678901234567890123\"");
    BAD(f, "source is not", .source = "\"\"");
    BAD(f, "source is not", .source = "\"SDEX\"");
    BAD(f, "source is not", .source = "\"a/b\"");
    BAD(f, "source is not", .source = "\"a\\u0000\"");
}

static void moments_are_between_2009_and_5_minutes_ahead(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .ts = "\"2009-01-01T00:00:00Z\"");
    BAD(f, "before 2009", .ts = "\"2008-12-31T23:59:59.999Z\"");
    GOOD(f, .ts = "\"2026-01-01T00:05:00Z\"");
    BAD(f, "ahead", .ts = "\"2026-01-01T00:05:00.001Z\"");
    GOOD(f, .ts = "\"2022-08-27T07:30:00+08:00\""); /* Friday in UTC */
    assert_int_equal(f->trade.ts_ms, INT64_C(1661556600000));
    GOOD(f, .ts = "\"2025-06-01t00:00:00.123999z\""); /* truncated, not rounded */
    assert_int_equal(f->trade.ts_ms % 1000, 123);
    BAD(f, "RFC 3339", .ts = "\"2025-06-01\"");
    BAD(f, "RFC 3339", .ts = "\"2025-02-29T00:00:00Z\"");
    BAD(f, "RFC 3339", .ts = "\"\"");
    BAD(f, "ts is not a string", .ts = "1748736000");
}

static void other_shapes_are_refused(void **state)
{
    static const struct {
        const char *line, *why;
    } bad[] = {
        {"{\"sold_amount\":\"\",\"bought_amount\":\"\",\"created_at\":\"2017-12-12T11:04:44Z\"}", "no id"},
        {"[]", "object"}, {"1", "object"}, {"null", "object"}, {"\"x\"", "object"}, {"{}", "no id"},
        {"{\"id\":\"1\"", ""}, {"{\"id\":\"1\",}", ""}, {"{'id':'1'}", ""}, {"{\"id\":\"1\"} x", ""},
        {"{\"id\":\"1\"}{\"id\":\"2\"}", ""}, {"{\"id\":\"1\",\"id\":\"1\"}", "duplicate"}, {"\xff\xfe", ""},
        {"{\"id\":\"1\",\"ts\":\"2025-06-01T00:00:00Z\"}", "no source"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < QN_LEN(bad); i++) {
        if (!read_line(f, qn_str_of(bad[i].line)) || !f->why || !strstr(f->why, bad[i].why))
            fail_msg("%s: %s", bad[i].line, f->why ? f->why : "taken");
    }
}

static void nul_bytes_are_bad(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .id = "\"1\"");
    struct qn_str line = qn_str_of(f->line);
    for (size_t i = 0; i <= line.n; i++) {
        char copy[sizeof f->line];
        memcpy(copy, line.p, i);
        copy[i] = '\0';
        memcpy(copy + i + 1, line.p + i, line.n - i);
        assert_int_equal(read_line(f, (struct qn_str){copy, line.n + 1}), QN_EINVAL);
    }
}

static void torn_lines_are_bad(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .rest = ",\"price_n\":1,\"price_d\":2");
    size_t n = strlen(f->line);
    for (size_t i = 0; i < n; i++) {
        char *copy = qn_xstrndup(f->line, i);
        assert_int_equal(read_line(f, (struct qn_str){copy, i}), QN_EINVAL);
        free(copy);
    }
}

static void unknown_members_are_ignored_and_known_ones_come_once(void **state)
{
    struct fixture *f = *state;
    GOOD(f, .rest = ",\"ledger\":5,\"extra\":{\"a\":[1,{\"id\":2}],\"b\":null},\"taker\":true");
    expect_text(f->trade.id, "1-0");
    GOOD(f, .rest = ",\"\\u0070rice_n\":1,\"pr\\u0069ce_d\":2"); /* names may be escaped */
    expect_price(f, "1", "2");
    BAD(f, "duplicate", .rest = ",\"id\":\"2\"");
    BAD(f, "duplicate", .rest = ",\"\\u0069d\":\"2\"");
    BAD(f, "duplicate", .rest = ",\"x\":1,\"x\":2");
}

static void blanks_between_tokens_are_json(void **state)
{
    struct fixture *f = *state;
    const char *line = " { \"id\" : \"1\" ,\t\"ts\":\"2025-06-01T00:00:00Z\",\"source\":\"sdex\",\"base\":\"native\", "
                       "\"quote\":\"fiat:USD\",\"base_amount\": 1 ,\"quote_amount\":2 } \r";
    assert_int_equal(read_line(f, qn_str_of(line)), QN_OK);
    assert_true(qn_ndjson_blank(QN_STR(" \t\r")));
    assert_true(qn_ndjson_blank(QN_STR("")));
    assert_false(qn_ndjson_blank(QN_STR(" 0")));
}

static void watermarks(void **state)
{
    struct fixture *f = *state;
    struct qn_ndjson_line l;
    const char *why;
    assert_int_equal(qn_ndjson_read(f->reader, QN_STR("{\"watermark\":\"2025-06-01T00:00:00Z\"}"), &l, &why), QN_OK);
    assert_int_equal(l.kind, QN_NDJSON_WATERMARK);
    assert_int_equal(l.trade.ts_ms, INT64_C(1748736000000));
    assert_null(l.trade.source.p);
    struct qn_str of_one = QN_STR("{\"source\":\"sdex\",\"watermark\":\"2025-06-01T00:00:00Z\"}");
    assert_int_equal(qn_ndjson_read(f->reader, of_one, &l, &why), QN_OK);
    expect_text(l.trade.source, "sdex");
    static const char *const bad[] = {
        "{\"watermark\":1}", "{\"watermark\":\"x\"}", "{\"watermark\":\"2025-06-01T00:00:00Z\",\"id\":\"1\"}",
        "{\"watermark\":\"2025-06-01T00:00:00Z\",\"source\":\"A\"}",
        "{\"watermark\":\"2025-06-01T00:00:00Z\",\"source\":1}",
    };
    for (size_t i = 0; i < QN_LEN(bad); i++)
        assert_int_equal(qn_ndjson_read(f->reader, qn_str_of(bad[i]), &l, &why), QN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(price_is_the_ratio_in_lowest_terms, setup, teardown),
        cmocka_unit_test_setup_teardown(source_price_wins_when_it_agrees, setup, teardown),
        cmocka_unit_test_setup_teardown(contradicting_price_is_counted_and_left, setup, teardown),
        cmocka_unit_test_setup_teardown(agreement_is_one_unit_of_each_last_place_as_written, setup, teardown),
        cmocka_unit_test_setup_teardown(price_parts_may_exceed_64_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(prices_come_in_pairs_of_positive_integers, setup, teardown),
        cmocka_unit_test_setup_teardown(zero_and_negative_amounts_are_kept_unpriced, setup, teardown),
        cmocka_unit_test_setup_teardown(dust_is_a_ratio_of_few_units_of_a_source_with_a_scale, setup, teardown),
        cmocka_unit_test_setup_teardown(amounts_are_kept_exactly, setup, teardown),
        cmocka_unit_test_setup_teardown(smaller_name_is_the_base, setup, teardown),
        cmocka_unit_test_setup_teardown(order_of_names_is_bytewise, setup, teardown),
        cmocka_unit_test_setup_teardown(same_family_is_no_market, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_assets_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(amounts_must_be_plain_decimals, setup, teardown),
        cmocka_unit_test_setup_teardown(json_numbers_have_at_most_18_digits, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_are_printable_ascii, setup, teardown),
        cmocka_unit_test_setup_teardown(sources_are_short_names, setup, teardown),
        cmocka_unit_test_setup_teardown(moments_are_between_2009_and_5_minutes_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(other_shapes_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(nul_bytes_are_bad, setup, teardown),
        cmocka_unit_test_setup_teardown(torn_lines_are_bad, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_members_are_ignored_and_known_ones_come_once, setup, teardown),
        cmocka_unit_test_setup_teardown(blanks_between_tokens_are_json, setup, teardown),
        cmocka_unit_test_setup_teardown(watermarks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
