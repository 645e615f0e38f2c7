/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/asset.h"
#include "base/config.h"
#include "base/strkey.h"

#define ISSUER "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
#define NATIVE_CONTRACT "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
#define USDC_CONTRACT "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"

static struct qn_config *config;

static struct qn_asset asset(const char *text)
{
    struct qn_asset a;
    if (qn_asset_parse(config, qn_str_of(text), &a) != QN_OK)
        fail_msg("not read: %s", text);
    return a;
}

static void expect(const char *text, enum qn_asset_kind kind, const char *canonical)
{
    struct qn_asset a = asset(text), again;
    assert_int_equal(a.kind, kind);
    assert_string_equal(a.text, canonical);
    assert_int_equal(a.len, strlen(canonical));
    assert_int_equal(qn_asset_parse_canonical(config, qn_asset_str(&a), &again), QN_OK);
    assert_int_equal(qn_asset_parse_canonical(config, qn_str_of(text), &again),
                     strcmp(text, canonical) == 0 ? QN_OK : QN_EINVAL);
}

static void every_spelling_has_one_canonical_form(void **state)
{
    (void)state;
    expect("native", QN_ASSET_NATIVE, "native");
    expect("XLM", QN_ASSET_NATIVE, "native");
    expect("xlm", QN_ASSET_NATIVE, "native");
    expect("Xlm", QN_ASSET_NATIVE, "native");
    expect("stellar:native", QN_ASSET_NATIVE, "native");
    expect("USDC-" ISSUER, QN_ASSET_CLASSIC, "USDC-" ISSUER);
    expect("USDC:" ISSUER, QN_ASSET_CLASSIC, "USDC-" ISSUER);
    expect("USDC-" ISSUER "-1", QN_ASSET_CLASSIC, "USDC-" ISSUER);
    expect("LONGERCODE12-" ISSUER "-2", QN_ASSET_CLASSIC, "LONGERCODE12-" ISSUER);
    expect("stellar:USDC:" ISSUER, QN_ASSET_CLASSIC, "USDC-" ISSUER);
    expect("a-" ISSUER, QN_ASSET_CLASSIC, "a-" ISSUER);
    expect(NATIVE_CONTRACT, QN_ASSET_CONTRACT, NATIVE_CONTRACT);
    expect("fiat:USD", QN_ASSET_FIAT, "fiat:USD");
    expect("iso4217:EUR", QN_ASSET_FIAT, "fiat:EUR");
    expect("crypto:BTC", QN_ASSET_CRYPTO, "crypto:BTC");
    expect("crypto:XLM", QN_ASSET_CRYPTO, "crypto:XLM");
}

static void an_issued_XLM_is_not_the_lumen(void **state)
{
    (void)state;
    expect("XLM-" ISSUER, QN_ASSET_CLASSIC, "XLM-" ISSUER);
    expect("native-" ISSUER, QN_ASSET_CLASSIC, "native-" ISSUER);
    struct qn_asset issued = asset("XLM-" ISSUER), native = asset("XLM");
    assert_false(qn_asset_same_family(config, &issued, &native));
}

/* A code may read like a scheme: what counts is the issuer behind it. */
static void a_code_that_reads_like_a_scheme_is_a_code(void **state)
{
    (void)state;
    expect("fiat:" ISSUER, QN_ASSET_CLASSIC, "fiat-" ISSUER);
    expect("crypto-" ISSUER, QN_ASSET_CLASSIC, "crypto-" ISSUER);
    expect("stellar:stellar:" ISSUER, QN_ASSET_CLASSIC, "stellar-" ISSUER);
}

static void codes_are_case_sensitive(void **state)
{
    (void)state;
    struct qn_asset a = asset("usdc-" ISSUER), b = asset("USDC-" ISSUER);
    assert_false(qn_asset_eq(&a, &b));
}

static void everything_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", " ", "NATIVE", "Native", "stellar:XLM", "stellar:xlm", "XLM ", " XLM", "USDC", "USDC-", "-" ISSUER, ISSUER,
        "THIRTEENCODE1-" ISSUER, "US DC-" ISSUER, "US/DC-" ISSUER, "US|DC-" ISSUER, "US\nDC-" ISSUER, "US_C-" ISSUER,
        "USDC-" ISSUER "-3", "USDC-" ISSUER "-0", "USDC-" ISSUER "-", "USDC-" ISSUER "-12", "USDC:" ISSUER "-1",
        "USDC/" ISSUER, "USDC--" ISSUER, "USDC-" ISSUER " ", "stellar:USDC-" ISSUER, "stellar:USDC:" ISSUER "-1",
        "STELLAR:USDC:" ISSUER, "stellar:", "stellar:" NATIVE_CONTRACT, "native:" NATIVE_CONTRACT,
        "USDC-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVM", /* checksum */
        "USDC-ga5zsejyb37jrc5avcia5mop4rhtm335x2kgx3ihojapp5re34k4kzvn", /* lower case */
        "USDC-" NATIVE_CONTRACT,
        "SBGWSG6BTNCKCOB3DIFBGCVMUPQFYPA2G4O34RMTB343OYPXU5DJDVMN", /* a secret seed */
        "USDC-SBGWSG6BTNCKCOB3DIFBGCVMUPQFYPA2G4O34RMTB343OYPXU5DJDVMN",
        "MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVAAAAAAAAAAAAAJLK",
        "cas3j7gylgxmf6tdjbbyyse3hq6bbsmlnuq34t6tzmymw2evh34xowma",
        "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMB",
        "fiat:usd", "fiat:USD ", "fiat:", "fiat:XXX", "fiat:USDC", "FIAT:USD", "iso4217:usd", "fiat:US", "fiat-USD",
        "crypto:btc", "crypto:", "crypto:NOSUCH", "Crypto:BTC", "crypto-BTC", "USDC\xc3\xa9-" ISSUER, "%55SDC-" ISSUER,
    };
    struct qn_asset a;
    for (size_t i = 0; i < QN_LEN(bad); i++)
        if (qn_asset_parse(config, qn_str_of(bad[i]), &a) != QN_EINVAL)
            fail_msg("read: %s", bad[i]);
    assert_int_equal(qn_asset_parse(config, (struct qn_str){"native\0", 7}, &a), QN_EINVAL);
    assert_int_equal(qn_asset_parse(config, (struct qn_str){"fiat:USD\0", 9}, &a), QN_EINVAL);
    assert_int_equal(qn_asset_parse(config, QN_STR_NULL, &a), QN_EINVAL);
}

static void the_default_lists_are_sound(void **state)
{
    (void)state;
    assert_true(config->n_fiat >= 32);
    static const char *const must[] = {"fiat:USD", "fiat:EUR", "fiat:JPY", "fiat:NGN", "fiat:BRL", "crypto:XLM",
                                       "crypto:BTC", "crypto:ETH", "crypto:XRP", "crypto:USDT", "crypto:USDC",
                                       "crypto:BCH", "crypto:LTC", "crypto:DOGE", "crypto:ADA", "crypto:SOL",
                                       "crypto:EURC"};
    for (size_t i = 0; i < QN_LEN(must); i++)
        asset(must[i]);
    for (size_t i = 1; i < config->n_fiat; i++)
        assert_true(qn_str_cmp(config->fiat[i - 1], config->fiat[i]) < 0);
    for (size_t i = 1; i < config->n_crypto; i++)
        assert_true(qn_str_cmp(config->crypto[i - 1], config->crypto[i]) < 0);
}

static void the_public_networks_native_contract_is_a_contract(void **state)
{
    (void)state;
    assert_string_equal(config->native_contract.text, NATIVE_CONTRACT);
    assert_true(qn_strkey_valid(QN_STRKEY_CONTRACT, qn_asset_str(&config->native_contract)));
}

static void expect_family(const char *text, const char *const *names, size_t n)
{
    struct qn_asset a = asset(text), out[8];
    assert_int_equal(qn_asset_family(config, &a, out, QN_LEN(out)), n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(out[i].text, names[i]);
        assert_true(qn_asset_same_family(config, &a, &out[i]));
        assert_true(qn_asset_same_family(config, &out[i], &a));
    }
    assert_int_equal(qn_asset_family(config, &a, out, 1), 1);
    assert_string_equal(out[0].text, names[0]);
}

/* The contract last: a pool of it once set the price of native. */
static void native_has_three_names_and_the_contract_comes_last(void **state)
{
    (void)state;
    expect_family("XLM", (const char *[]){"native", "crypto:XLM", NATIVE_CONTRACT}, 3);
    expect_family("crypto:XLM", (const char *[]){"crypto:XLM", "native", NATIVE_CONTRACT}, 3);
    expect_family(NATIVE_CONTRACT, (const char *[]){NATIVE_CONTRACT, "native", "crypto:XLM"}, 3);
    expect_family("crypto:BTC", (const char *[]){"crypto:BTC"}, 1);
}

static void configured_aliases_are_one_family(void **state)
{
    (void)state;
    struct qn_config_assets alias = {.key = asset("USDC-" ISSUER), .n = 1};
    alias.items = calloc(1, sizeof *alias.items);
    assert_non_null(alias.items);
    alias.items[0] = asset(USDC_CONTRACT);
    struct qn_config_assets *none = config->prices.aliases;
    config->prices.aliases = &alias;
    config->prices.n_aliases = 1;
    expect_family("USDC-" ISSUER, (const char *[]){"USDC-" ISSUER, USDC_CONTRACT}, 2);
    expect_family(USDC_CONTRACT, (const char *[]){USDC_CONTRACT, "USDC-" ISSUER}, 2);
    expect_family("native", (const char *[]){"native", "crypto:XLM", NATIVE_CONTRACT}, 3);
    struct qn_asset contract = asset(USDC_CONTRACT), native = asset("native");
    assert_false(qn_asset_same_family(config, &contract, &native));
    config->prices.aliases = none;
    config->prices.n_aliases = 0;
    free(alias.items);
}

/* "USDA" (0x55) before "aBTC" (0x61), as a locale would not have it. */
static void a_market_is_stored_in_byte_order(void **state)
{
    (void)state;
    struct qn_asset a = asset("aBTC-" ISSUER), b = asset("USDA-" ISSUER), base, quote;
    assert_true(qn_asset_stored(&a, &b, &base, &quote));
    assert_string_equal(base.text, b.text);
    assert_string_equal(quote.text, a.text);
    assert_false(qn_asset_stored(&b, &a, &base, &quote));
    assert_string_equal(base.text, b.text);
    struct qn_asset native = asset("native"), usd = asset("fiat:USD");
    assert_true(qn_asset_stored(&native, &usd, &base, &quote));
    assert_string_equal(base.text, "fiat:USD");
}

static int setup(void **state)
{
    (void)state;
    config = qn_config_defaults();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qn_config_free(config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_has_one_canonical_form),
        cmocka_unit_test(an_issued_XLM_is_not_the_lumen),
        cmocka_unit_test(a_code_that_reads_like_a_scheme_is_a_code),
        cmocka_unit_test(codes_are_case_sensitive),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(the_default_lists_are_sound),
        cmocka_unit_test(the_public_networks_native_contract_is_a_contract),
        cmocka_unit_test(native_has_three_names_and_the_contract_comes_last),
        cmocka_unit_test(configured_aliases_are_one_family),
        cmocka_unit_test(a_market_is_stored_in_byte_order),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
