/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cachekeys/cachekeys.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FP "0123456789abcdef"

#define assert_key(call, expected)                                                                                     \
    do {                                                                                                               \
        struct qn_key key_;                                                                                            \
        struct qn_key *const k = &key_;                                                                                \
        assert_int_equal((call), QN_OK);                                                                               \
        assert_string_equal(key_.s, (expected));                                                                       \
        assert_int_equal(key_.n, strlen(expected));                                                                    \
    } while (0)

static struct qn_str z(const char *text)
{
    return qn_str_of(text);
}

/* ---- a seeded generator: the same keys on every run (splitmix64) ---- */

static uint64_t seed;

static uint64_t next(void)
{
    uint64_t x = seed += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

static size_t below(size_t n)
{
    return (size_t)(next() % n);
}

/* Components of one key and the room for their text. */
struct input {
    enum qn_key_family family;
    size_t n;
    struct qn_key_part part[QN_KEY_MAX_FIELDS];
    char text[QN_KEY_MAX_FIELDS][80];
};

static void set_text(struct input *in, const char *format, ...) QN_PRINTF(2, 3);
static void set_text(struct input *in, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(in->text[in->n], sizeof(in->text[in->n]), format, args);
    va_end(args);
    in->part[in->n].text = (struct qn_str){in->text[in->n], (size_t)n};
}

/* Pieces that could be taken for something else once they are in a key. */
static const char *const pieces[] = {":", "%", "/", "{", "}", " ", "%3A", "%3a", "3A", "0", "60", "v1", "a",
                                     "seq", "bad/", "v", "\x7f", "\xff", "\n", "tpm"};

static void random_text(struct input *in, bool adversarial)
{
    char *to = in->text[in->n];
    size_t n = 0;
    size_t count = 1 + below(adversarial ? 3 : 40);
    for (size_t i = 0; i < count; i++) {
        if (adversarial) {
            const char *piece = pieces[below(QN_LEN(pieces))];
            memcpy(to + n, piece, strlen(piece));
            n += strlen(piece);
        } else {
            to[n++] = (char)below(256);
        }
    }
    in->part[in->n].text = (struct qn_str){to, n};
}

static void random_hex(struct input *in, size_t digits)
{
    for (size_t i = 0; i < digits; i++) {
        in->text[in->n][i] = "0123456789abcdef"[below(16)];
    }
    in->part[in->n].text = (struct qn_str){in->text[in->n], digits};
}

static int64_t random_integer(int64_t max, bool adversarial)
{
    if (adversarial) {
        static const int64_t few[] = {1, 3, 6, 10, 60, 600, 86400};
        return few[below(QN_LEN(few))];
    }
    return 1 + (int64_t)(next() % (uint64_t)max) / ((int64_t)1 << below(31));
}

static void random_part(struct input *in, enum qn_key_kind kind, bool adversarial)
{
    unsigned year = (unsigned)below(10000), month = 1 + (unsigned)below(12), day = 1 + (unsigned)below(28);
    in->part[in->n] = (struct qn_key_part){QN_STR_NULL, 0};
    switch (kind) {
    case QN_KEY_COUNT:
    case QN_KEY_VERSION:
    case QN_KEY_WINDOW:
        in->part[in->n].num = random_integer(INT32_MAX - 1, adversarial);
        break;
    case QN_KEY_NUMBER:
        in->part[in->n].num = random_integer(INT64_MAX - 1, adversarial) - 1;
        break;
    case QN_KEY_HEX16:
        random_hex(in, 16);
        break;
    case QN_KEY_HEX64:
        random_hex(in, 64);
        break;
    case QN_KEY_DAY:
        set_text(in, "%04u-%02u-%02u", year, month, day);
        break;
    case QN_KEY_MONTH:
        set_text(in, "%04u-%02u", year, month);
        break;
    case QN_KEY_MINUTE:
        set_text(in, "%04u%02u%02u%02u%02u", year, month, day, (unsigned)below(24), (unsigned)below(60));
        break;
    default:
        random_text(in, adversarial);
        break;
    }
    in->n++;
}

static void random_input(struct input *in, enum qn_key_family family, bool adversarial)
{
    do {
        in->family = family;
        in->n = 0;
        for (const struct qn_key_field *f = qn_key_info(family)->fields; f->kind != QN_KEY_END; f++) {
            if (f->kind != QN_KEY_LITERAL) {
                random_part(in, f->kind, adversarial);
            }
        }
    } while (family == QN_KEY_EVENTS && qn_str_eq(in->part[0].text, QN_STR("seq")));
}

/* The key by the family's own typed builder. */
static enum qn_err build_typed(struct qn_key *out, const struct input *in)
{
    const struct qn_key_part *p = in->part;
    switch (in->family) {
    case QN_KEY_PRICE:
        return qn_key_price(out, p[0].text, (int)p[1].num);
    case QN_KEY_VWAP:
        return qn_key_vwap(out, p[0].text, p[1].text, (int)p[2].num);
    case QN_KEY_OHLC:
        return qn_key_ohlc(out, p[0].text, p[1].text, p[2].text, p[3].num);
    case QN_KEY_RL:
        if (qn_str_starts(p[0].text, QN_STR("bad/")) && p[0].text.n > 4) {
            return qn_key_rl_bad(out, (struct qn_str){p[0].text.p + 4, p[0].text.n - 4}, p[1].num);
        }
        return qn_key_rl(out, p[0].text, p[1].num);
    case QN_KEY_TOML:
        return qn_key_toml(out, p[0].text);
    case QN_KEY_META:
        return qn_key_meta(out, p[0].text);
    case QN_KEY_SUB:
        return qn_key_sub(out, p[0].text, p[1].text);
    case QN_KEY_DIV:
        return qn_key_div(out, p[0].text);
    case QN_KEY_HEALTH:
        return qn_key_health(out, p[0].text);
    case QN_KEY_EVENTS:
        return qn_key_events(out, p[0].text);
    case QN_KEY_EVENTS_SEQ:
        return qn_key_events_seq(out);
    case QN_KEY_USAGE:
        return qn_key_usage(out, p[0].text, p[1].text);
    case QN_KEY_QUOTA:
        return qn_key_quota(out, p[0].text, p[1].text);
    case QN_KEY_LOCK_FILL:
        return qn_key_lock_fill(out, p[0].text);
    case QN_KEY_LOCK_TOML:
        return qn_key_lock_toml(out, p[0].text);
    case QN_KEY_TICKET:
        return qn_key_ticket(out, p[0].text);
    case QN_KEY_APIKEY:
        return qn_key_apikey(out, p[0].text);
    case QN_KEY_APIKEY_INDEX:
        return qn_key_apikey_index(out, p[0].text);
    case QN_KEY_CACHE:
        return qn_key_cache(out, (int)p[0].num, p[1].text, p[2].text, p[3].text, p[4].text);
    case QN_KEY_SEMCACHE:
        return qn_key_semcache(out, (int)p[0].num, p[1].text, p[2].text, p[3].text);
    case QN_KEY_SEMVER:
        return qn_key_semver(out, p[0].text, p[1].text);
    case QN_KEY_EMB:
        return qn_key_emb(out, (int)p[0].num, p[1].text, p[2].text, (int)p[3].num, p[4].text);
    case QN_KEY_RAG:
        return qn_key_rag(out, (int)p[0].num, p[1].text, p[2].text, p[3].text, p[4].text);
    case QN_KEY_LOCK_CACHE:
        return qn_key_lock_cache(out, p[0].text, p[1].text);
    case QN_KEY_LOCK_AGENT:
        return qn_key_lock_agent(out, p[0].text, p[1].text);
    case QN_KEY_RATELIMIT_TPM:
        return qn_key_ratelimit_tpm(out, p[0].text, p[1].text);
    case QN_KEY_RATELIMIT_BUDGET:
        return qn_key_ratelimit_budget(out, p[0].text, p[1].text);
    case QN_KEY_SESSION:
        return qn_key_session(out, p[0].text, p[1].text);
    case QN_KEY_AGENT_SCRATCH:
        return qn_key_agent_scratch(out, p[0].text, p[1].text);
    case QN_KEY_AGENT_PENDING:
        return qn_key_agent_pending(out, p[0].text, p[1].text);
    case QN_KEY_IDEMP:
        return qn_key_idemp(out, p[0].text, p[1].text);
    case QN_KEY_JOBS:
        return qn_key_jobs(out, p[0].text);
    case QN_KEY_CHANNEL_PRICE:
        return qn_key_channel_price(out, p[0].text, p[1].text);
    case QN_KEY_CHANNEL_TIP:
        return qn_key_channel_tip(out, p[0].text, p[1].text, (int)p[2].num);
    case QN_KEY_CHANNEL_TRADES:
        return qn_key_channel_trades(out, p[0].text, p[1].text);
    case QN_KEY_FORMS:
        break;
    }
    fail_msg("no builder for family %d", (int)in->family);
    return QN_EINVAL;
}

static enum qn_err parse(struct qn_str key, bool channel, struct qn_key_parts *parts)
{
    return channel ? qn_key_channel_parse(key, parts) : qn_key_parse(key, parts);
}

static void assert_same_parts(const struct qn_key_parts *parts, const struct input *in)
{
    assert_int_equal(parts->family, in->family);
    assert_int_equal(parts->n, in->n);
    for (size_t i = 0; i < in->n; i++) {
        assert_true(qn_str_eq(parts->part[i].text, in->part[i].text));
        assert_int_equal(parts->part[i].num, in->part[i].num);
    }
}

/* ---- the table ---- */

/* Every row of contract-prices and contract-answers, section 9: pattern, TTL (-2: not fixed), class, TTL-less, on the
 * limits instance. */
static const struct {
    const char *pattern;
    int ttl;
    const char *class;
    bool may_lack_ttl;
    bool limits;
} contract[] = {
    {"price:<asset>[:<window>]", 60, "cache", false, false},
    {"vwap:<base>:<quote>:<window>", -2, "cache", false, false},
    {"ohlc:<base>:<quote>:<granularity>:<unix start>", -2, "cache", true, false},
    {"rl:<key_id, ip or bad/ip>:<unix minute>", 120, "limit", false, false},
    {"toml:<domain>", -2, "cache", false, false},
    {"meta:<asset>", 300, "cache", false, false},
    {"sub:<channel>:<subscriber_id>", 60, "ephemeral", false, false},
    {"div:<asset>", 300, "cache", false, false},
    {"health:<source>", 60, "ephemeral", false, false},
    {"events:<channel>", 3600, "ephemeral", false, false},
    {"events:seq", 3600, "ephemeral", false, false},
    {"usage:<subject>:<day>", 3024000, "limit", false, false},
    {"quota:<subject>:<month>", 60, "cache", false, false},
    {"lock:fill:<key>", 2, "lock", false, false},
    {"lock:toml:<domain>", 5, "lock", false, false},
    {"ticket:<hash>", 60, "ephemeral", false, false},
    {"apikey:<hash>", 0, "record", true, false},
    {"apikey-index:<subject>", 0, "record", true, false},
    {"cache:v<N>:{<tenant>}:<model>:<fingerprint>:<sha256>", -2, "cache", false, false},
    {"semcache:v<N>:{<tenant>}:<scope>:<id>", -2, "cache", false, false},
    {"semver:{<tenant>}:<scope>", -2, "cache", false, false},
    {"emb:v<N>:{<tenant>}:<model>:<dims>:<sha256>", 600, "cache", false, false},
    {"rag:v<N>:{<tenant>}:<corpus>:<corpus_ver>:<sha256>", 600, "cache", false, false},
    {"lock:cache:{<tenant>}:<sha256>", 30, "lock", false, true},
    {"lock:agent:{<tenant>}:<run>", 120, "lock", false, true},
    {"ratelimit:{<tenant>}:tpm:<minute>", 120, "limit", false, true},
    {"ratelimit:{<tenant>}:budget:<month>", 3024000, "limit", false, true},
    {"session:{<tenant>}:<id>:turns", 86400, "ephemeral", false, true},
    {"agent:{<tenant>}:<run>:scratch", 3600, "ephemeral", false, true},
    {"agent:{<tenant>}:<run>:pending", 3600, "ephemeral", false, true},
    {"idemp:{<tenant>}:<key>", 86400, "cache", false, true},
    {"jobs:<queue>", 604800, "ephemeral", false, true},
};

static void table_has_every_row_of_both_contracts(void **state)
{
    (void)state;
    assert_int_equal(QN_LEN(contract), QN_KEY_FAMILIES);
    for (size_t i = 0; i < QN_LEN(contract); i++) {
        const struct qn_key_info *info = qn_key_info((enum qn_key_family)i);
        assert_string_equal(info->pattern, contract[i].pattern);
        assert_string_equal(qn_key_class_name(info->class), contract[i].class);
        assert_int_equal(info->may_lack_ttl, contract[i].may_lack_ttl);
        assert_int_equal(info->home, contract[i].limits ? QN_KEY_HOME_LIMITS : QN_KEY_HOME_CACHING);
        if (contract[i].ttl != -2) {
            assert_int_equal(qn_key_ttl((enum qn_key_family)i, 0), contract[i].ttl);
            assert_int_equal(qn_key_ttl((enum qn_key_family)i, 1), -1);
        }
    }
}

static void table_rows_are_filled_in_and_agree_with_their_pattern(void **state)
{
    (void)state;
    for (int i = 0; i < QN_KEY_FORMS; i++) {
        const struct qn_key_info *info = qn_key_info((enum qn_key_family)i);
        char pattern[160] = "", name[40] = "";
        for (const struct qn_key_field *f = info->fields; f->kind != QN_KEY_END; f++) {
            const char *colon = f == info->fields ? "" : ":";
            const char *format = f->kind == QN_KEY_LITERAL   ? "%s%s"
                                 : f->kind == QN_KEY_TENANT  ? "%s{<%s>}"
                                 : f->kind == QN_KEY_VERSION ? "%sv<%s>"
                                 : f->kind == QN_KEY_WINDOW  ? "[%s<%s>]"
                                                             : "%s<%s>";
            char field[80];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            (void)snprintf(field, sizeof(field), format, colon, f->name);
#pragma GCC diagnostic pop
            memcpy(pattern + strlen(pattern), field, strlen(field) + 1);
            /* The end of a session's key says what it holds; there is but one kind. */
            if (f->kind == QN_KEY_LITERAL && i != QN_KEY_SESSION) {
                (void)snprintf(name + strlen(name), sizeof(name) - strlen(name), "%s%s", colon, f->name);
            }
        }
        assert_string_equal(pattern, info->pattern);
        assert_string_equal(i == QN_KEY_SESSION ? "session" : name, info->name);
        assert_true(info->value && info->value[0] && info->writer && info->writer[0] && info->loss && info->loss[0]);
        assert_true(info->rule != QN_KEY_TTL_GIVEN || info->ttl_note);
        assert_true(info->rule != QN_KEY_TTL_CASES || info->cases[0].which != QN_KEY_CASE_END);
        /* Only a row that may lack a TTL can yield none. */
        bool yields_none = info->class != QN_KEY_CLASS_CHANNEL && qn_key_ttl((enum qn_key_family)i, 0) == 0;
        for (const struct qn_key_case_ttl *c = info->cases; c->which != QN_KEY_CASE_END; c++) {
            yields_none = yields_none || c->seconds == 0;
        }
        assert_int_equal(yields_none, info->may_lack_ttl);
    }
}

static void ttl_follows_the_rule_of_its_row(void **state)
{
    (void)state;
    assert_int_equal(qn_key_ttl(QN_KEY_VWAP, 300), 300);
    assert_int_equal(qn_key_ttl(QN_KEY_VWAP, 86400), 86400);
    assert_int_equal(qn_key_ttl(QN_KEY_VWAP, 0), -1);
    assert_int_equal(qn_key_ttl(QN_KEY_OHLC, QN_KEY_OHLC_OPEN), 3600);
    assert_int_equal(qn_key_ttl(QN_KEY_OHLC, QN_KEY_OHLC_CLOSED), 0);
    assert_int_equal(qn_key_ttl(QN_KEY_OHLC, QN_KEY_OHLC_REFILL), 3600);
    assert_int_equal(qn_key_ttl(QN_KEY_OHLC, 0), -1);
    assert_int_equal(qn_key_ttl(QN_KEY_OHLC, QN_KEY_TOML_FOUND), -1);
    assert_int_equal(qn_key_ttl(QN_KEY_TOML, QN_KEY_TOML_FOUND), 900);
    assert_int_equal(qn_key_ttl(QN_KEY_TOML, QN_KEY_TOML_FAILED), 60);
    assert_int_equal(qn_key_ttl(QN_KEY_TOML, QN_KEY_OHLC_CLOSED), -1);
    assert_int_equal(qn_key_ttl(QN_KEY_CACHE, 3617), 3617);
    assert_int_equal(qn_key_ttl(QN_KEY_SEMCACHE, 3617), 3617);
    assert_int_equal(qn_key_ttl(QN_KEY_SEMVER, -5), -1);
    assert_int_equal(qn_key_ttl(QN_KEY_CACHE, 0), -1);
    assert_int_equal(qn_key_ttl(QN_KEY_APIKEY, 60), -1);
    assert_int_equal(qn_key_ttl(QN_KEY_CHANNEL_PRICE, 0), -1);
}

/* ---- building ---- */

static void keys_are_spelt_as_documented(void **state)
{
    (void)state;
    assert_key(qn_key_vwap(k, z("native"), z("fiat:USD"), 300), "vwap:native:fiat%3AUSD:300");
    assert_key(qn_key_rl_bad(k, z("203.0.113.9"), 29166666), "rl:bad%2F203.0.113.9:29166666");
    assert_key(qn_key_price(k, z("native"), 60), "price:native");
    assert_key(qn_key_price(k, z("crypto:BTC"), 300), "price:crypto%3ABTC:300");
    assert_key(qn_key_ohlc(k, z("crypto:BTC"), z("fiat:USD"), z("1m"), 1776867300),
               "ohlc:crypto%3ABTC:fiat%3AUSD:1m:1776867300");
    assert_key(qn_key_rl(k, z("k_0123456789abcdef"), 0), "rl:k_0123456789abcdef:0");
    assert_key(qn_key_rl(k, z("2001:db8:0:1::/64"), 29166666), "rl:2001%3Adb8%3A0%3A1%3A%3A%2F64:29166666");
    assert_key(qn_key_events_seq(k), "events:seq");
    assert_key(qn_key_channel_price(k, z("native"), z("fiat:USD")), "price:native:fiat%3AUSD");
    assert_key(qn_key_sub(k, z("price:native:fiat%3AUSD"), z("w1.7")), "sub:price%3Anative%3Afiat%253AUSD:w1.7");
    assert_key(qn_key_usage(k, z("acct 1"), z("2026-04-22")), "usage:acct%201:2026-04-22");
    assert_key(qn_key_apikey_index(k, z("acct")), "apikey-index:acct");
    assert_key(qn_key_cache(k, 3, z("t{1}"), z("gpt/4"), z(FP), z(HASH)),
               "cache:v3:{t%7B1%7D}:gpt%2F4:" FP ":" HASH);
    assert_key(qn_key_session(k, z("t"), z(HASH)), "session:{t}:" HASH ":turns");
    assert_key(qn_key_agent_pending(k, z("t"), z(HASH)), "agent:{t}:" HASH ":pending");
    assert_key(qn_key_ratelimit_tpm(k, z("t"), z("202604221430")), "ratelimit:{t}:tpm:202604221430");
    assert_key(qn_key_ratelimit_budget(k, z("t"), z("2026-04")), "ratelimit:{t}:budget:2026-04");
    assert_key(qn_key_meta(k, ((struct qn_str){"a\0\x7f\xff%s%n\r\n", 10})), "meta:a%00%7F%FF%25s%25n%0D%0A");
}

static void a_lock_may_be_made_in_place_of_its_key(void **state)
{
    (void)state;
    struct qn_key key;
    assert_int_equal(qn_key_price(&key, z("fiat:USD"), 60), QN_OK);
    assert_int_equal(qn_key_lock_fill(&key, qn_key_str(&key)), QN_OK);
    assert_string_equal(key.s, "lock:fill:price%3Afiat%253AUSD");
}

static void what_is_not_of_its_kind_is_refused_and_out_left_alone(void **state)
{
    (void)state;
    struct qn_key key = {"kept", 4};
    char upper[] = HASH;
    upper[10] = 'A';
    assert_int_equal(qn_key_price(&key, z(""), 60), QN_EINVAL);
    assert_int_equal(qn_key_price(&key, QN_STR_NULL, 60), QN_EINVAL);
    assert_int_equal(qn_key_price(&key, z("native"), 0), QN_EINVAL);
    assert_int_equal(qn_key_price(&key, z("native"), -60), QN_EINVAL);
    assert_int_equal(qn_key_vwap(&key, z("native"), z(""), 60), QN_EINVAL);
    assert_int_equal(qn_key_ohlc(&key, z("a"), z("b"), z("1m"), -60), QN_EINVAL);
    assert_int_equal(qn_key_rl(&key, z("bad/203.0.113.9"), 1), QN_EINVAL);
    assert_int_equal(qn_key_rl_bad(&key, z(""), 1), QN_EINVAL);
    assert_int_equal(qn_key_events(&key, z("seq")), QN_EINVAL);
    assert_int_equal(qn_key_apikey(&key, z("qn_" HASH)), QN_EINVAL); /* the secret itself */
    assert_int_equal(qn_key_apikey(&key, z(upper)), QN_EINVAL);
    assert_int_equal(qn_key_session(&key, z("t"), z("the-client's-own-id")), QN_EINVAL);
    assert_int_equal(qn_key_cache(&key, 0, z("t"), z("m"), z(FP), z(HASH)), QN_EINVAL);
    assert_int_equal(qn_key_cache(&key, 1, z(""), z("m"), z(FP), z(HASH)), QN_EINVAL);
    assert_int_equal(qn_key_cache(&key, 1, z("t"), z("m"), z(HASH), z(HASH)), QN_EINVAL);
    static const char *const bad_days[] = {"2026-4-22", "2026-04-32", "2026-13-01", "2026-00-01", "2026-04-00",
                                           "2026-04-2x", "2026/04/22", "2026-04", "2026-04-22 "};
    for (size_t i = 0; i < QN_LEN(bad_days); i++) {
        assert_int_equal(qn_key_usage(&key, z("s"), z(bad_days[i])), QN_EINVAL);
    }
    assert_int_equal(qn_key_quota(&key, z("s"), z("2026-04-22")), QN_EINVAL);
    assert_int_equal(qn_key_ratelimit_tpm(&key, z("t"), z("202604222430")), QN_EINVAL);
    assert_int_equal(qn_key_ratelimit_tpm(&key, z("t"), z("202604221460")), QN_EINVAL);
    struct qn_key_part part = {.text = z("x")};
    assert_int_equal(qn_key_build(&key, QN_KEY_VWAP, &part, 1), QN_EINVAL);
    assert_int_equal(qn_key_build(&key, QN_KEY_EVENTS_SEQ, &part, 1), QN_EINVAL);
    assert_string_equal(key.s, "kept");
    assert_int_equal(key.n, 4);
}

static void a_key_too_long_is_refused_and_never_cut(void **state)
{
    (void)state;
    static char text[4096];
    memset(text, 'x', sizeof(text));
    struct qn_key key = {"kept", 4};
    struct qn_key_parts parts;
    size_t most = QN_KEY_MAX - 1 - strlen("meta:");
    assert_int_equal(qn_key_meta(&key, (struct qn_str){text, most + 1}), QN_ERANGE);
    assert_int_equal(qn_key_meta(&key, (struct qn_str){text, sizeof(text)}), QN_ERANGE);
    assert_int_equal(qn_key_rl_bad(&key, (struct qn_str){text, sizeof(text)}, 1), QN_ERANGE);
    assert_int_equal(qn_key_rl_bad(&key, (struct qn_str){text, QN_KEY_MAX - 4}, 1), QN_ERANGE);
    assert_string_equal(key.s, "kept");
    assert_int_equal(qn_key_meta(&key, (struct qn_str){text, most}), QN_OK);
    assert_int_equal(key.n, QN_KEY_MAX - 1);
    assert_int_equal(key.s[key.n], '\0');
    assert_int_equal(qn_key_parse(qn_key_str(&key), &parts), QN_OK);
    assert_int_equal(parts.part[0].text.n, most);
    memcpy(text, "meta:", 5);
    assert_int_equal(qn_key_parse((struct qn_str){text, QN_KEY_MAX}, &parts), QN_EINVAL);
    memset(text, '/', sizeof(text));
    assert_int_equal(qn_key_meta(&key, (struct qn_str){text, most / 3 + 1}), QN_ERANGE);
    assert_int_equal(qn_key_meta(&key, (struct qn_str){text, most / 3}), QN_OK);
}

/* ---- parsing ---- */

static void every_byte_is_escaped_or_plain_and_comes_back(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        struct qn_key key;
        struct qn_key_parts parts;
        bool escaped = byte <= 0x20 || byte >= 0x7f || strchr("%:/{}", byte);
        assert_int_equal(qn_key_meta(&key, (struct qn_str){&c, 1}), QN_OK);
        assert_int_equal(key.n, strlen("meta:") + (escaped ? 3 : 1));
        assert_int_equal(qn_key_parse(qn_key_str(&key), &parts), QN_OK);
        assert_int_equal(parts.part[0].text.n, 1);
        assert_int_equal((unsigned char)parts.part[0].text.p[0], byte);
        /* Escaped without need, or with lower-case hex: no builder makes it. */
        char other[12];
        int n = snprintf(other, sizeof(other), escaped ? "meta:%%%02x" : "meta:%%%02X", (unsigned)byte);
        bool same = n == (int)key.n && memcmp(other, key.s, key.n) == 0;
        assert_int_equal(qn_key_parse((struct qn_str){other, (size_t)n}, &parts), same ? QN_OK : QN_EINVAL);
    }
}

static void random_parts_come_back_from_every_family(void **state)
{
    (void)state;
    seed = 1;
    for (int family = 0; family < QN_KEY_FORMS; family++) {
        for (int round = 0; round < 1000; round++) {
            struct input in;
            struct qn_key typed, generic;
            struct qn_key_parts parts;
            random_input(&in, (enum qn_key_family)family, round % 2);
            enum qn_err err = build_typed(&typed, &in);
            if (family == QN_KEY_RL && err == QN_EINVAL) {
                assert_true(qn_str_eq(in.part[0].text, QN_STR("bad/"))); /* bad without an address */
                continue;
            }
            assert_int_equal(err, QN_OK);
            assert_int_equal(qn_key_build(&generic, in.family, in.part, in.n), QN_OK);
            assert_true(qn_str_eq(qn_key_str(&typed), qn_key_str(&generic)));
            assert_int_equal(parse(qn_key_str(&typed), family >= QN_KEY_FAMILIES, &parts), QN_OK);
            assert_same_parts(&parts, &in);
        }
    }
}

static void integers_at_their_bounds_come_back(void **state)
{
    (void)state;
    struct qn_key key;
    struct qn_key_parts parts;
    static const int64_t starts[] = {0, 1, 9, 10, INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < QN_LEN(starts); i++) {
        assert_int_equal(qn_key_ohlc(&key, z("a"), z("b"), z("1m"), starts[i]), QN_OK);
        assert_int_equal(qn_key_parse(qn_key_str(&key), &parts), QN_OK);
        assert_int_equal(parts.part[3].num, starts[i]);
    }
    assert_key(qn_key_vwap(k, z("a"), z("b"), INT32_MAX), "vwap:a:b:2147483647");
    assert_int_equal(qn_key_parse(z("vwap:a:b:2147483647"), &parts), QN_OK);
    assert_int_equal(qn_key_parse(z("vwap:a:b:2147483648"), &parts), QN_EINVAL);
    assert_int_equal(qn_key_parse(z("ohlc:a:b:1m:9223372036854775808"), &parts), QN_EINVAL);
    assert_int_equal(qn_key_parse(z("ohlc:a:b:1m:92233720368547758070"), &parts), QN_EINVAL);
}

static void families_that_look_alike_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        enum qn_key_family family;
        const char *first;
    } alike[] = {
        {"price:native", QN_KEY_PRICE, "native"},
        {"price:60", QN_KEY_PRICE, "60"},
        {"price:native:300", QN_KEY_PRICE, "native"},
        {"events:seq", QN_KEY_EVENTS_SEQ, NULL},
        {"events:seq2", QN_KEY_EVENTS, "seq2"},
        {"events:price%3Anative%3Afiat%253AUSD", QN_KEY_EVENTS, "price:native:fiat%3AUSD"},
        {"lock:fill:price%3Anative", QN_KEY_LOCK_FILL, "price:native"},
        {"lock:toml:fill", QN_KEY_LOCK_TOML, "fill"},
        {"lock:cache:{toml}:" HASH, QN_KEY_LOCK_CACHE, "toml"},
        {"lock:agent:{toml}:" HASH, QN_KEY_LOCK_AGENT, "toml"},
        {"quota:a:2026-04", QN_KEY_QUOTA, "a"},
        {"usage:a:2026-04-22", QN_KEY_USAGE, "a"},
        {"ratelimit:{tpm}:budget:2026-04", QN_KEY_RATELIMIT_BUDGET, "tpm"},
        {"ratelimit:{budget}:tpm:202604221430", QN_KEY_RATELIMIT_TPM, "budget"},
        {"sub:price%3Anative%3Afiat%253AUSD:7", QN_KEY_SUB, "price:native:fiat%3AUSD"},
        {"apikey-index:a", QN_KEY_APIKEY_INDEX, "a"},
        {"agent:{a}:" HASH ":scratch", QN_KEY_AGENT_SCRATCH, "a"},
    };
    for (size_t i = 0; i < QN_LEN(alike); i++) {
        struct qn_key_parts parts;
        assert_int_equal(qn_key_parse(z(alike[i].key), &parts), QN_OK);
        assert_int_equal(parts.family, alike[i].family);
        assert_int_equal(parts.n > 0, alike[i].first != NULL);
        assert_true(parts.n == 0 || qn_str_eq(parts.part[0].text, z(alike[i].first)));
    }
    struct qn_key_parts parts;
    assert_int_equal(qn_key_parse(z("price:native"), &parts), QN_OK);
    assert_int_equal(parts.n, 2);
    assert_int_equal(parts.part[1].num, 60);
}

static void keys_that_no_builder_makes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", ":", "price", "price:", "price::60", "price:native:60", "price:native:060", "price:native:0",
        "price:native:+300", "price:native:-300", "price:native: 300", "price:native:300:1", "price:native:",
        "price:native:0x60", "Price:native", "price:fiat%3aUSD", "price:%6Eative", "price:a%", "price:a%3",
        "price:a%3G", "price:a%%3A", "price:a b", "price:a/b", "price:{a}", "price:a\x7f", "price:a\xc3\xa9",
        "vwap:native:fiat:USD:300", "vwap:native:fiat%3AUSD", "vwap:native:fiat%3AUSD:00", "vwap:a:b:c:d:e:f:g:h",
        "ohlc:a:b:1m:01", "ohlc:a:b:1m:", "rl:a", "rl:a:1.5", "events:seq:1", "events:", "lock:fill", "lock:x:y",
        "lock:fill:a:b", "lock:cache:t:" HASH, "lock:cache:{}:" HASH, "lock:cache:{t}:" FP, "lock:cache:{t:" HASH,
        "lock:cache:{{t}}:" HASH, "lock:cache:{:" HASH, "cache:1:{t}:m:" FP ":" HASH, "cache:v:{t}:m:" FP ":" HASH,
        "cache:v01:{t}:m:" FP ":" HASH, "cache:v0:{t}:m:" FP ":" HASH, "cache:V1:{t}:m:" FP ":" HASH,
        "cache:v1:{t}:m:" HASH ":" FP, "cache:v1:{t}:m:" FP ":" HASH ":", "usage:a:2026-4-22", "usage:a:2026-04",
        "quota:a", "quota:a:2026-04-22", "quota:a:2026%2D04", "session:{t}:" HASH, "session:{t}:" HASH ":turn",
        "agent:{t}:" HASH ":both", "agent:{t}:x:pending", "ratelimit:{t}:tpm", "ratelimit:{t}:rpm:202604221430",
        "tip:native:fiat%3AUSD:5", "trades:a:b", "apikey:qn_" HASH, "apikey:" FP, "jobs:a:b", "unknown:a",
    };
    struct qn_key_parts parts;
    memset(&parts, 0x5a, sizeof(parts));
    for (size_t i = 0; i < QN_LEN(bad); i++) {
        if (qn_key_parse(z(bad[i]), &parts) != QN_EINVAL) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
    assert_int_equal(qn_key_parse(QN_STR_NULL, &parts), QN_EINVAL);
    assert_int_equal(qn_key_parse((struct qn_str){"meta:a\0b", 8}, &parts), QN_EINVAL);
    assert_int_equal(qn_key_channel_parse(z("price:native"), &parts), QN_EINVAL);
    assert_int_equal(qn_key_channel_parse(z("meta:native"), &parts), QN_EINVAL);
    for (size_t i = 0; i < sizeof(parts); i++) { /* written on success only */
        assert_int_equal(((const unsigned char *)&parts)[i], 0x5a);
    }
}

/* One edit: a byte changed, removed, doubled or put in; or two swapped. */
static size_t mutate(char *s, size_t n)
{
    static const char bytes[] = ":%/{} 0123456789abcdefABCDEFv-\n";
    char c = bytes[below(sizeof(bytes) - 1)];
    size_t at = below(n), other = below(n);
    switch (below(5)) {
    case 0:
        s[at] = c;
        return n;
    case 1:
        memmove(s + at, s + at + 1, n - at - 1);
        return n - 1;
    case 2:
        c = s[at];
        __attribute__((fallthrough));
    case 3:
        memmove(s + at + 1, s + at, n - at);
        s[at] = c;
        return n + 1;
    default:
        c = s[at];
        s[at] = s[other];
        s[other] = c;
        return n;
    }
}

static void a_mutated_key_never_parses_to_what_builds_another(void **state)
{
    (void)state;
    size_t accepted = 0, refused = 0;
    seed = 2;
    for (int round = 0; round < 300000; round++) {
        enum qn_key_family family = (enum qn_key_family)below(QN_KEY_FORMS);
        bool channel = family >= QN_KEY_FAMILIES;
        struct input in;
        struct qn_key key, again;
        struct qn_key_parts parts;
        char s[QN_KEY_MAX + 4];
        random_input(&in, family, true);
        assert_int_equal(qn_key_build(&key, in.family, in.part, in.n), QN_OK);
        memcpy(s, key.s, key.n);
        size_t n = key.n;
        for (size_t edits = 1 + below(3); edits > 0 && n > 0; edits--) {
            n = mutate(s, n);
        }
        if (parse((struct qn_str){s, n}, channel, &parts) != QN_OK) {
            refused++;
            continue;
        }
        accepted++;
        assert_int_equal(qn_key_build(&again, parts.family, parts.part, parts.n), QN_OK);
        assert_true(qn_str_eq(qn_key_str(&again), (struct qn_str){s, n}));
    }
    assert_true(accepted > 10000);
    assert_true(refused > 10000);
}

/* ---- no two inputs share a key ---- */

enum { SLOTS = 1 << 20, WANTED = 250000 };

/* A key and the input that made it, one behind the other. */
struct slot {
    char *bytes;
    size_t key_n;
    size_t input_n;
};

/* family, then each component with its length: no two inputs have the same. */
static size_t serialise(const struct input *in, char *to)
{
    size_t n = 0;
    to[n++] = (char)in->family;
    for (size_t i = 0; i < in->n; i++) {
        struct qn_str text = in->part[i].text;
        memcpy(to + n, &in->part[i].num, sizeof(in->part[i].num));
        n += sizeof(in->part[i].num);
        to[n++] = (char)text.n;
        if (text.n > 0) {
            memcpy(to + n, text.p, text.n);
            n += text.n;
        }
    }
    return n;
}

static struct slot *find_slot(struct slot *slots, struct qn_str key)
{
    uint64_t hash = 0xCBF29CE484222325U; /* FNV-1a */
    for (size_t i = 0; i < key.n; i++) {
        hash = (hash ^ (unsigned char)key.p[i]) * 0x100000001B3U;
    }
    for (size_t at = hash % SLOTS;; at = (at + 1) % SLOTS) {
        struct slot *slot = &slots[at];
        if (!slot->bytes || qn_str_eq((struct qn_str){slot->bytes, slot->key_n}, key)) {
            return slot;
        }
    }
}

static void no_two_inputs_share_a_key(void **state)
{
    (void)state;
    struct slot *slots = calloc(SLOTS, sizeof(*slots));
    assert_non_null(slots);
    size_t distinct = 0, repeated = 0;
    seed = 3;
    while (distinct < WANTED) {
        struct input in;
        struct qn_key key;
        char serial[QN_KEY_MAX];
        random_input(&in, (enum qn_key_family)below(QN_KEY_FAMILIES), true);
        assert_int_equal(qn_key_build(&key, in.family, in.part, in.n), QN_OK);
        size_t n = serialise(&in, serial);
        struct slot *slot = find_slot(slots, qn_key_str(&key));
        if (slot->bytes) { /* met before: then by the same input */
            assert_int_equal(slot->input_n, n);
            assert_memory_equal(slot->bytes + slot->key_n, serial, n);
            repeated++;
            continue;
        }
        *slot = (struct slot){malloc(key.n + n), key.n, n};
        assert_non_null(slot->bytes);
        memcpy(slot->bytes, key.s, key.n);
        memcpy(slot->bytes + key.n, serial, n);
        distinct++;
    }
    assert_true(repeated > 1000); /* the alphabet is small enough to collide, if anything did */
    for (size_t i = 0; i < SLOTS; i++) {
        free(slots[i].bytes);
    }
    free(slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_has_every_row_of_both_contracts),
        cmocka_unit_test(table_rows_are_filled_in_and_agree_with_their_pattern),
        cmocka_unit_test(ttl_follows_the_rule_of_its_row),
        cmocka_unit_test(keys_are_spelt_as_documented),
        cmocka_unit_test(a_lock_may_be_made_in_place_of_its_key),
        cmocka_unit_test(what_is_not_of_its_kind_is_refused_and_out_left_alone),
        cmocka_unit_test(a_key_too_long_is_refused_and_never_cut),
        cmocka_unit_test(every_byte_is_escaped_or_plain_and_comes_back),
        cmocka_unit_test(random_parts_come_back_from_every_family),
        cmocka_unit_test(integers_at_their_bounds_come_back),
        cmocka_unit_test(families_that_look_alike_are_told_apart),
        cmocka_unit_test(keys_that_no_builder_makes_are_refused),
        cmocka_unit_test(a_mutated_key_never_parses_to_what_builds_another),
        cmocka_unit_test(no_two_inputs_share_a_key),
    };
    return cmocka_run_group_tests_name("cachekeys", tests, NULL, NULL);
}
