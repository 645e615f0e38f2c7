/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The scripts of lua/ against a real Redis.
 */
#include "base/base.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "link/redis.h"
#include "link/scripts.h"
#include "servers.h"

#define ETAG "0123456789abcdef"
#define REST "\nsums\n{\"price\":\"1\"}"

static struct event_base *base;
static struct qn_config_redis config;
static struct qn_redis *redis;
static struct qn_arena *arena;

static const struct qn_val *run(const struct qn_script *script, size_t nkeys, size_t argc, const struct qn_str *argv)
{
    const struct qn_cmd cmd = {.script = script, .nkeys = nkeys, .argc = argc, .argv = argv};
    const struct qn_val *reply = NULL;
    assert_int_equal(qn_redis_run(redis, &cmd, 1, INT64_MAX, arena, &reply), QN_OK);
    return reply;
}

#define RUN(...) \
    run(NULL, 0, QN_LEN(((const char *[]){__VA_ARGS__})), strs(QN_LEN(((const char *[]){__VA_ARGS__})), \
                                                               (const char *[]){__VA_ARGS__}))

static const struct qn_str *strs(size_t n, const char *const *texts)
{
    struct qn_str *out = qn_arena_array(arena, n, sizeof(*out));
    for (size_t i = 0; i < n; i++)
        out[i] = qn_str_of(texts[i]);
    return out;
}

static void expect_str(const char *key, const char *want)
{
    const struct qn_val *v = RUN("GET", key);
    assert_int_equal(v->kind, QN_VAL_STR);
    assert_string_equal(v->str.p, want);
}

static int64_t ttl(const char *key)
{
    return RUN("TTL", key)->num;
}

/* A hot value. */
static const char *hot(const char *h, const char *observed, const char *rest)
{
    return qn_arena_printf(arena, "1 %s %s 0 " ETAG "\n%s", h, observed, rest).p;
}

static const struct qn_val *fill(const char *key, const char *value, const char *seconds, const char *h,
                                 const char *observed)
{
    return run(qn_script_get("fill"), 1, 5, strs(5, (const char *[]){key, value, seconds, h, observed}));
}

static void expect_fill(const char *key, const char *h, const char *observed, int64_t written)
{
    const char *value = hot(h, observed, "new");
    const struct qn_val *v = fill(key, value, "60", h, observed);
    assert_int_equal(v->kind, QN_VAL_INT);
    assert_int_equal(v->num, written);
    if (written)
        expect_str(key, value);
}

static int setup(void **state)
{
    (void)state;
    RUN("FLUSHALL");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qn_arena_reset(arena);
    return 0;
}

static void the_sha_is_what_redis_computes(void **state)
{
    (void)state;
    size_t n;
    const struct qn_script *all = qn_script_all(&n);
    assert_true(n >= 2);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(strlen(all[i].source), all[i].source_len);
        const struct qn_val *v = RUN("SCRIPT", "LOAD", all[i].source);
        assert_int_equal(v->kind, QN_VAL_STR);
        assert_string_equal(v->str.p, all[i].sha);
        assert_ptr_equal(qn_script_get(all[i].name), &all[i]);
    }
}

static void cache_scripts_do_not_allow_oom(void **state)
{
    (void)state;
    assert_null(strstr(qn_script_get("fill")->source, "allow-oom"));
    assert_null(strstr(qn_script_get("hot")->source, "allow-oom"));
}

static void fill_writes_an_absent_key_with_its_ttl(void **state)
{
    (void)state;
    expect_fill("k", "1700000060000", "1700000000000", 1);
    assert_in_range(ttl("k"), 59, 60);
}

static void fill_keeps_the_same_and_the_newer(void **state)
{
    (void)state;
    RUN("SET", "k", hot("1700000060000", "1700000000000", "old"), "EX", "60");
    expect_fill("k", "1700000060000", "1700000000000", 0);
    expect_fill("k", "1700000060000", "1699999999999", 0);
    expect_fill("k", "1700000000000", "1700000000000", 0);
    expect_fill("k", "1700000000000", "1800000000000", 0);
    expect_str("k", hot("1700000060000", "1700000000000", "old"));
}

static void fill_replaces_the_strictly_older(void **state)
{
    (void)state;
    RUN("SET", "k", hot("1700000060000", "1700000000000", "old"), "EX", "60");
    expect_fill("k", "1700000060000", "1700000000001", 1);
    expect_fill("k", "1700000060001", "5", 1);
}

static void fill_compares_numbers_not_text(void **state)
{
    (void)state;
    RUN("SET", "k", hot("999", "999", "old"), "EX", "60");
    expect_fill("k", "1000", "999", 1);
    expect_fill("k", "1000", "1000", 1);
    expect_fill("k", "999", "9999", 0);
    /* next to each other at the largest time that counts: exact in a double */
    RUN("SET", "k", hot("999999999999998", "0", "old"), "EX", "60");
    expect_fill("k", "999999999999998", "0", 0);
    expect_fill("k", "999999999999999", "0", 1);
}

static void fill_heals_what_is_no_hot_value(void **state)
{
    (void)state;
    static const char *const corrupt[] = {
        "", "-", "1", "x" REST, "2 1800000000000 1800000000000 0 " ETAG REST, "1 1800000000000 1800000000000 0 " ETAG,
        "1 1800000000000 0 " ETAG REST, "1 1800000000000 1800000000000 0 0123456789abcde" REST,
        "1 1800000000000 1800000000000 0 0123456789abcdef0" REST,
        "1 1800000000000 1800000000000 0 0123456789abcdeg" REST,
        " 1 1800000000000 1800000000000 0 " ETAG REST, "1 -1800000000000 1800000000000 0 " ETAG REST,
        "1 1.8e12 1800000000000 0 " ETAG REST, "1  1800000000000 1800000000000 0 " ETAG REST,
        "1 1800000000000000 1800000000000 0 " ETAG REST, "1 1800000000000 1800000000000 zz " ETAG REST,
    };
    for (size_t i = 0; i < QN_LEN(corrupt); i++) {
        RUN("SET", "k", corrupt[i]);
        expect_fill("k", "1700000060000", "1700000000000", 1);
        assert_in_range(ttl("k"), 59, 60);
    }
}

static void fill_replaces_a_key_of_another_type(void **state)
{
    (void)state;
    RUN("RPUSH", "k", "x");
    expect_fill("k", "1700000060000", "1700000000000", 1);
    RUN("DEL", "k");
    RUN("HSET", "k", "f", "v");
    expect_fill("k", "1700000060000", "1700000000000", 1);
    assert_in_range(ttl("k"), 59, 60);
}

static void fill_heals_a_kept_key_without_ttl(void **state)
{
    (void)state;
    RUN("SET", "k", hot("1700000060000", "1700000000000", "old"));
    assert_int_equal(ttl("k"), -1);
    expect_fill("k", "1700000060000", "1700000000000", 0);
    assert_in_range(ttl("k"), 59, 60);
    /* one that has a TTL keeps it */
    RUN("EXPIRE", "k", "10");
    expect_fill("k", "1700000060000", "1700000000000", 0);
    assert_in_range(ttl("k"), 9, 10);
}

static void bad_arguments_are_an_error_and_write_nothing(void **state)
{
    (void)state;
    static const char *const ttls[] = {"", "0", "-1", "1.5", "x\r\n+OK"};
    for (size_t i = 0; i < QN_LEN(ttls); i++) {
        assert_string_equal(fill("k", "v", ttls[i], "1", "1")->str.p, "ERR fill: bad arguments");
        const char *argv[] = {"k", ttls[i], hot("1", "1", "x")};
        assert_string_equal(run(qn_script_get("hot"), 1, 3, strs(3, argv))->str.p, "ERR hot: bad arguments");
    }
    assert_string_equal(fill("k", "v", "60", "x", "1")->str.p, "ERR fill: bad arguments");
    assert_string_equal(fill("k", "v", "60", "1", "")->str.p, "ERR fill: bad arguments");
    /* one bad value among good ones */
    const char *argv[] = {"k", "l", "60", hot("1", "1", "x"), "60", "no hot value"};
    assert_string_equal(run(qn_script_get("hot"), 2, 6, strs(6, argv))->str.p, "ERR hot: bad arguments");
    assert_string_equal(run(qn_script_get("hot"), 2, 5, strs(5, argv))->str.p, "ERR hot: bad arguments");
    assert_int_equal(RUN("DBSIZE")->num, 0);
}

static void hot_writes_a_hundred_keys(void **state)
{
    (void)state;
    const char *argv[300];
    for (int i = 0; i < 100; i++) {
        argv[i] = qn_arena_printf(arena, "key:%d", i).p;
        argv[100 + 2 * i] = qn_arena_printf(arena, "%d", 60 + i).p;
        argv[101 + 2 * i] = hot("1700000060000", "1700000000000", argv[i]);
    }
    assert_int_equal(run(qn_script_get("hot"), 100, 300, strs(300, argv))->num, 100);
    for (int i = 0; i < 100; i++) {
        expect_str(argv[i], argv[101 + 2 * i]);
        assert_in_range(ttl(argv[i]), 59 + i, 60 + i);
    }
}

static void hot_keeps_a_newer_horizon_and_overwrites_the_same(void **state)
{
    (void)state;
    RUN("SET", "newer", hot("1700000120000", "1700000000000", "old"), "EX", "50");
    RUN("SET", "bare", hot("1700000120000", "1700000000000", "old"));
    RUN("SET", "same", hot("1700000060000", "1700000060000", "old"), "EX", "50");
    RUN("SET", "older", hot("999", "1700000000000", "old"), "EX", "50");
    RUN("SET", "corrupt", "?");
    RUN("SADD", "set", "member");
    const char *v = hot("1700000060000", "1700000000000", "new");
    const char *argv[] = {"newer", "bare", "same", "older", "corrupt", "set", "absent",
                          "60", v, "60", v, "60", v, "60", v, "60", v, "60", v, "60", v};
    assert_int_equal(run(qn_script_get("hot"), 7, 21, strs(21, argv))->num, 5);
    expect_str("newer", hot("1700000120000", "1700000000000", "old"));
    assert_in_range(ttl("newer"), 49, 50);
    expect_str("bare", hot("1700000120000", "1700000000000", "old"));
    assert_in_range(ttl("bare"), 59, 60);
    for (size_t i = 2; i < 7; i++) {
        expect_str(argv[i], v);
        assert_in_range(ttl(argv[i]), 59, 60);
    }
}

static void full_memory_is_an_error_value_and_writes_nothing(void **state)
{
    (void)state;
    const char *old = hot("1", "1", "old"), *new = hot("2", "2", "new");
    RUN("SET", "k", old, "EX", "60");
    RUN("CONFIG", "SET", "maxmemory", "1");
    const struct qn_val *filled = fill("k", new, "60", "2", "2");
    assert_int_equal(filled->kind, QN_VAL_ERROR);
    assert_true(qn_str_starts(filled->str, QN_STR("OOM ")));
    const char *argv[] = {"k", "l", "60", new, "60", new};
    const struct qn_val *written = run(qn_script_get("hot"), 2, 6, strs(6, argv));
    assert_int_equal(written->kind, QN_VAL_ERROR);
    assert_true(qn_str_starts(written->str, QN_STR("OOM ")));
    expect_str("k", old);
    RUN("CONFIG", "SET", "maxmemory", "0");
    assert_int_equal(RUN("DBSIZE")->num, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_sha_is_what_redis_computes, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_scripts_do_not_allow_oom, setup, teardown),
        cmocka_unit_test_setup_teardown(fill_writes_an_absent_key_with_its_ttl, setup, teardown),
        cmocka_unit_test_setup_teardown(fill_keeps_the_same_and_the_newer, setup, teardown),
        cmocka_unit_test_setup_teardown(fill_replaces_the_strictly_older, setup, teardown),
        cmocka_unit_test_setup_teardown(fill_compares_numbers_not_text, setup, teardown),
        cmocka_unit_test_setup_teardown(fill_heals_what_is_no_hot_value, setup, teardown),
        cmocka_unit_test_setup_teardown(fill_replaces_a_key_of_another_type, setup, teardown),
        cmocka_unit_test_setup_teardown(fill_heals_a_kept_key_without_ttl, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_arguments_are_an_error_and_write_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(hot_writes_a_hundred_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(hot_keeps_a_newer_horizon_and_overwrites_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(full_memory_is_an_error_value_and_writes_nothing, setup, teardown),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    struct server *server = servers_redis(NULL);
    (void)alarm(60);
    config = (struct qn_config_redis){.socket = (char *)servers_address(server), .connect_ms = 5000,
                                      .command_ms = 5000, .max_pending = 1000};
    base = event_base_new();
    arena = qn_arena_new(65536);
    redis = qn_redis_new(base, &config);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    qn_redis_free(redis);
    qn_arena_free(arena);
    event_base_free(base);
    return failures;
}
