/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * link/redis against real servers, and against a scripted one for what Redis never says.
 */
#include "base/base.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "link/loop.h"
#include "link/redis.h"
#include "link/scripts.h"
#include "servers.h"

enum { LIMIT_MS = 300, SLACK_MS = 200 }; /* how late a loaded machine may be */

static struct event_base *base;
static struct server *server;
static struct qn_arena *arena;
static struct qn_config_redis config;
static struct qn_redis *redis;
/* A second client on a loop of its own: what it does to the server, the first does not see before its loop turns. */
static struct event_base *admin_base;
static struct qn_config_redis admin_config;
static struct qn_redis *admin;

/* ---- helpers ---- */

static int64_t in_ms(int64_t ms)
{
    return qn_clock_mono_ms() + ms;
}

static const struct qn_str *strs(size_t n, const char *const *texts)
{
    struct qn_str *out = qn_arena_array(arena, n, sizeof(*out));
    for (size_t i = 0; i < n; i++)
        out[i] = qn_str_of(texts[i]);
    return out;
}

#define CMD(...) \
    ((struct qn_cmd){.argc = QN_LEN(((const char *[]){__VA_ARGS__})), \
                     .argv = strs(QN_LEN(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})})

static enum qn_err try_one(struct qn_redis *r, struct qn_cmd cmd, const struct qn_val **reply)
{
    return qn_redis_run(r, &cmd, 1, INT64_MAX, arena, reply);
}

static const struct qn_val *one(struct qn_redis *r, struct qn_cmd cmd)
{
    const struct qn_val *reply = NULL;
    assert_int_equal(try_one(r, cmd, &reply), QN_OK);
    return reply;
}

static void assert_str(const struct qn_val *v, const char *want)
{
    assert_int_equal(v->kind, QN_VAL_STR);
    assert_string_equal(v->str.p, want);
}

/* A call as a handler makes it. */
struct seen {
    bool done;
    int times;
    enum qn_err err;
    size_t n;
    int64_t at;
    struct qn_val *replies; /* one level deep */
};

static void on_seen(void *arg, enum qn_err err, const struct qn_val *replies, size_t n)
{
    struct seen *s = arg;
    s->done = true;
    s->times++;
    s->err = err;
    s->n = n;
    s->at = qn_clock_mono_ms();
    s->replies = qn_arena_array(arena, n, sizeof(*s->replies));
    for (size_t i = 0; i < n; i++) {
        s->replies[i] = replies[i];
        if (replies[i].str.p)
            s->replies[i].str = qn_arena_copy(arena, replies[i].str);
    }
}

static void start(struct seen *s, struct qn_cmd cmd, int64_t deadline)
{
    *s = (struct seen){0};
    assert_int_equal(qn_redis_send(redis, &cmd, 1, deadline, on_seen, s, NULL), QN_OK);
    assert_false(s->done);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

/* Turns the loop for ms. */
static void turn(int ms)
{
    bool done = false;
    struct event *ev = qn_loop_event(base, -1, 0, on_tick, &done);
    const struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    evtimer_add(ev, &tv);
    assert_true(qn_loop_until(base, &done));
    event_free(ev);
}

/* Turns the loop until the breaker lets a PING through and it is answered; returns how long that took. */
static int64_t wait_until_back(void)
{
    int64_t from = qn_clock_mono_ms();
    const struct qn_val *reply;
    while (try_one(redis, CMD("PING"), &reply) != QN_OK) {
        assert_true(qn_clock_mono_ms() - from < 5000);
        turn(10);
    }
    return qn_clock_mono_ms() - from;
}

static void use(const struct qn_config_redis *other)
{
    qn_redis_free(redis);
    redis = qn_redis_new(base, other);
}

static int setup(void **state)
{
    (void)state;
    use(&config);
    one(admin, CMD("FLUSHALL"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    use(&config);
    qn_arena_reset(arena);
    return 0;
}

/* ---- values ---- */

static void bytes_pass_exactly(void **state)
{
    (void)state;
    static const struct qn_str samples[] = {
        {"100%", 4}, {"%s %n %b %d", 11}, {"a b  c", 6}, {"CR\r\nLF\r\n$3\r\n", 12}, {"nul\0in it\0", 10}, {"", 0},
        {"\xff\xfe\x80", 3}, {"{tag}:*", 7}, {"*1\r\n$4\r\nPING\r\n", 14},
    };
    for (size_t i = 0; i < QN_LEN(samples); i++) {
        for (size_t j = 0; j < QN_LEN(samples); j++) {
            const struct qn_cmd cmds[] = {
                {.argc = 3, .argv = (const struct qn_str[]){QN_STR("SET"), samples[i], samples[j]}},
                {.argc = 2, .argv = (const struct qn_str[]){QN_STR("GET"), samples[i]}},
                CMD("DBSIZE"),
            };
            const struct qn_val *v;
            assert_int_equal(qn_redis_run(redis, cmds, 3, INT64_MAX, arena, &v), QN_OK);
            assert_str(&v[0], "OK");
            assert_int_equal(v[1].kind, QN_VAL_STR);
            assert_true(qn_str_eq(v[1].str, samples[j]));
            assert_int_equal(v[2].num, i + 1);
        }
    }
}

static void every_kind_of_reply(void **state)
{
    (void)state;
    const struct qn_cmd cmds[] = {
        CMD("SET", "s", "text"), CMD("GET", "s"), CMD("GET", "absent"), CMD("INCR", "n"), CMD("INCR", "s"),
        CMD("MGET", "s", "absent", "n"), CMD("EVAL", "return {1, {'a', {}}, redis.error_reply('ERR x')}", "0"),
        CMD("LPUSH", "s", "wrong type"),
    };
    const struct qn_val *v;
    assert_int_equal(qn_redis_run(redis, cmds, QN_LEN(cmds), INT64_MAX, arena, &v), QN_OK);
    assert_str(&v[0], "OK");
    assert_str(&v[1], "text");
    assert_int_equal(v[2].kind, QN_VAL_NIL);
    assert_int_equal(v[3].kind, QN_VAL_INT);
    assert_int_equal(v[3].num, 1);
    assert_int_equal(v[4].kind, QN_VAL_ERROR);
    assert_int_equal(v[5].kind, QN_VAL_ARRAY);
    assert_int_equal(v[5].n, 3);
    assert_str(&v[5].items[0], "text");
    assert_int_equal(v[5].items[1].kind, QN_VAL_NIL);
    assert_str(&v[5].items[2], "1");
    assert_int_equal(v[6].n, 3);
    assert_int_equal(v[6].items[1].n, 2);
    assert_str(&v[6].items[1].items[0], "a");
    assert_int_equal(v[6].items[1].items[1].n, 0);
    assert_int_equal(v[6].items[2].kind, QN_VAL_ERROR);
    assert_int_equal(v[7].kind, QN_VAL_ERROR);
    assert_true(qn_str_starts(v[7].str, QN_STR("WRONGTYPE ")));
    assert_false(qn_redis_breaker(redis)->open);
}

static void a_value_of_eight_megabytes(void **state)
{
    (void)state;
    struct qn_config_redis slow = config;
    slow.command_ms = 5000;
    use(&slow);
    size_t n = 8 * 1024 * 1024;
    char *p = qn_arena_alloc(arena, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)(i * 31 >> 3);
    const struct qn_cmd cmds[] = {
        {.argc = 3, .argv = (const struct qn_str[]){QN_STR("SET"), QN_STR("big"), {p, n}}}, CMD("GET", "big"),
    };
    const struct qn_val *v;
    assert_int_equal(qn_redis_run(redis, cmds, 2, INT64_MAX, arena, &v), QN_OK);
    assert_true(qn_str_eq(v[1].str, (struct qn_str){p, n}));
}

static void ten_thousand_pipelined_come_in_order_and_no_more_are_taken(void **state)
{
    (void)state;
    enum { N = 10000 };
    struct qn_config_redis slow = config;
    slow.command_ms = 10000;
    slow.max_pending = N;
    use(&slow);
    struct qn_cmd *cmds = qn_arena_array(arena, N, sizeof(*cmds));
    for (size_t i = 0; i < N; i++)
        cmds[i] = CMD("INCR", "n");
    struct seen s = {0};
    assert_int_equal(qn_redis_send(redis, cmds, N, INT64_MAX, on_seen, &s, NULL), QN_OK);
    assert_int_equal(qn_redis_pending(redis), N);
    assert_int_equal(qn_redis_send(redis, cmds, 1, INT64_MAX, on_seen, &s, NULL), QN_EUNAVAIL);
    assert_true(qn_loop_until(base, &s.done));
    assert_int_equal(s.err, QN_OK);
    assert_int_equal(s.n, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(s.replies[i].num, i + 1);
    assert_int_equal(qn_redis_pending(redis), 0);
    assert_int_equal(one(redis, CMD("INCR", "n"))->num, N + 1);
    assert_false(qn_redis_breaker(redis)->open);
}

static int64_t server_reads(void)
{
    const struct qn_val *v = one(redis, CMD("INFO", "stats"));
    const char *p = strstr(v->str.p, "total_reads_processed:");
    assert_non_null(p);
    return strtoll(p + strlen("total_reads_processed:"), NULL, 10);
}

static void commands_of_one_turn_leave_in_one_write(void **state)
{
    (void)state;
    int64_t before = server_reads();
    struct seen seen[100];
    for (size_t i = 0; i < 100; i++)
        start(&seen[i], CMD("INCR", "n"), INT64_MAX);
    for (size_t i = 0; i < 100; i++) {
        assert_true(qn_loop_until(base, &seen[i].done));
        assert_int_equal(seen[i].replies[0].num, i + 1);
    }
    /* the hundred, and the INFO that tells */
    assert_int_equal(server_reads() - before, 2);
}

/* ---- scripts ---- */

static void noscript_sends_the_source_once_and_the_rest_of_the_call_keeps_its_replies(void **state)
{
    (void)state;
    const char *argv[] = {"key %s", "1 10 10 0 0123456789abcdef\nx\ny", "60", "10", "10"};
    struct qn_cmd fill = {.script = qn_script_get("fill"), .nkeys = 1, .argc = 5, .argv = strs(5, argv)};
    for (int64_t round = 1; round <= 3; round++) {
        one(admin, CMD("SCRIPT", "FLUSH"));
        const struct qn_cmd cmds[] = {CMD("INCR", "n"), fill, CMD("GET", "key %s"), fill, CMD("INCR", "m")};
        const struct qn_val *v;
        assert_int_equal(qn_redis_run(redis, cmds, QN_LEN(cmds), INT64_MAX, arena, &v), QN_OK);
        assert_int_equal(v[0].num, round);
        assert_int_equal(v[1].kind, QN_VAL_INT);
        assert_int_equal(v[1].num, round == 1);
        assert_int_equal(v[3].num, 0);
        assert_int_equal(v[4].num, round);
        assert_str(one(redis, CMD("GET", "key %s")), argv[1]);
    }
    const struct qn_val *v = one(redis, fill);
    assert_int_equal(v->num, 0);
}

/* ---- errors that are values, and those that are not ---- */

static void full_memory_is_a_value(void **state)
{
    (void)state;
    one(admin, CMD("SET", "k", "old"));
    one(admin, CMD("CONFIG", "SET", "maxmemory", "1"));
    const struct qn_cmd cmds[] = {CMD("SET", "k", "new"), CMD("GET", "k")};
    const struct qn_val *v;
    assert_int_equal(qn_redis_run(redis, cmds, 2, INT64_MAX, arena, &v), QN_OK);
    assert_int_equal(v[0].kind, QN_VAL_ERROR);
    assert_true(qn_str_starts(v[0].str, QN_STR("OOM ")));
    assert_str(&v[1], "old");
    assert_false(qn_redis_breaker(redis)->open);
    one(admin, CMD("CONFIG", "SET", "maxmemory", "0"));
}

static void a_demoted_master_is_left(void **state)
{
    (void)state;
    int64_t id = one(redis, CMD("CLIENT", "ID"))->num;
    one(admin, CMD("REPLICAOF", "127.0.0.1", "1"));
    const struct qn_cmd cmds[] = {CMD("GET", "k"), CMD("SET", "k", "v")};
    const struct qn_val *v;
    assert_int_equal(qn_redis_run(redis, cmds, 2, INT64_MAX, arena, &v), QN_EUNAVAIL);
    assert_true(qn_redis_breaker(redis)->open);
    assert_int_equal(qn_redis_pending(redis), 0);
    one(admin, CMD("REPLICAOF", "NO", "ONE"));
    wait_until_back();
    assert_int_not_equal(one(redis, CMD("CLIENT", "ID"))->num, id);
    assert_str(one(redis, CMD("SET", "k", "v")), "OK");
}

/* ---- connections that go away ---- */

static void a_connection_closed_between_calls_costs_nobody_an_error(void **state)
{
    (void)state;
    /* the close is still unread when the next command is sent: also a write is carried out exactly once */
    for (int64_t i = 1; i <= 20; i++) {
        assert_int_equal(one(redis, CMD("INCR", "n"))->num, i);
        assert_int_equal(one(admin, CMD("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))->num, 1);
        if (i % 2 == 0)
            turn(1); /* and here it is read before */
    }
    assert_int_equal(qn_redis_breaker(redis)->opened, 0);
}

static void a_connection_killed_with_calls_out_fails_them_and_sends_none_twice(void **state)
{
    (void)state;
    struct seen s;
    int64_t id = one(redis, CMD("CLIENT", "ID"))->num;
    start(&s, CMD("BLPOP", "nothing", "0"), INT64_MAX);
    turn(10);
    assert_false(s.done);
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)id);
    one(admin, CMD("CLIENT", "KILL", "ID", text));
    assert_true(qn_loop_until(base, &s.done));
    assert_int_equal(s.err, QN_EUNAVAIL);
    assert_int_equal(s.n, 0);
    assert_true(qn_redis_breaker(redis)->open);
    wait_until_back();
}

static void a_killed_server_fails_the_calls_at_once_and_is_found_again(void **state)
{
    (void)state;
    one(redis, CMD("PING"));
    servers_signal(server, SIGSTOP);
    struct seen seen[10];
    for (size_t i = 0; i < QN_LEN(seen); i++)
        start(&seen[i], CMD("GET", "k"), INT64_MAX);
    turn(5);
    int64_t from = qn_clock_mono_ms();
    servers_kill(server);
    for (size_t i = 0; i < QN_LEN(seen); i++) {
        assert_true(qn_loop_until(base, &seen[i].done));
        assert_int_equal(seen[i].err, QN_EUNAVAIL);
        assert_int_equal(seen[i].times, 1);
    }
    assert_true(qn_clock_mono_ms() - from < SLACK_MS);
    /* open: nothing is tried, no time is lost */
    from = qn_clock_mono_ms();
    const struct qn_val *reply;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(try_one(redis, CMD("GET", "k"), &reply), QN_EUNAVAIL);
    assert_true(qn_clock_mono_ms() - from < SLACK_MS);
    /* the probe finds nobody, and the breaker stays open */
    turn(1000);
    assert_int_equal(try_one(redis, CMD("GET", "k"), &reply), QN_EUNAVAIL);
    assert_true(qn_redis_breaker(redis)->open);
    assert_int_equal(qn_redis_breaker(redis)->opened, 1);
    servers_start(server);
    assert_true(wait_until_back() < 1000 + SLACK_MS);
    assert_false(qn_redis_breaker(redis)->open);
}

static void a_server_that_is_down_from_the_start(void **state)
{
    (void)state;
    struct qn_config_redis nowhere = config;
    nowhere.socket = (char *)"/tmp/qn-test-no-such-folder/s";
    use(&nowhere);
    struct seen s;
    start(&s, CMD("PING"), INT64_MAX);
    assert_true(qn_loop_until(base, &s.done));
    assert_int_equal(s.err, QN_EUNAVAIL);
    assert_int_equal(qn_redis_send(redis, &CMD("PING"), 1, INT64_MAX, on_seen, &s, NULL), QN_EUNAVAIL);
    struct qn_cmd cmd = CMD("PING");
    for (int i = 0; i < 100; i++)
        qn_redis_post(redis, &cmd, 1);
}

/* ---- a server that stalls ---- */

static void a_stalled_server_costs_the_first_calls_their_deadline_and_the_rest_nothing(void **state)
{
    (void)state;
    one(redis, CMD("SET", "k", "v"));
    int64_t id = one(redis, CMD("CLIENT", "ID"))->num;
    servers_signal(server, SIGSTOP);
    int64_t from = qn_clock_mono_ms();
    struct seen first, shorter;
    start(&first, CMD("GET", "k"), INT64_MAX);
    start(&shorter, CMD("GET", "k"), in_ms(30));
    assert_true(qn_loop_until(base, &shorter.done));
    assert_int_equal(shorter.err, QN_ETIMEOUT);
    assert_in_range(shorter.at - from, 30, 30 + SLACK_MS);
    const struct qn_val *reply;
    assert_int_equal(try_one(redis, CMD("GET", "k"), &reply), QN_EUNAVAIL);
    assert_true(qn_loop_until(base, &first.done));
    assert_int_equal(first.err, QN_ETIMEOUT);
    assert_in_range(first.at - from, LIMIT_MS, LIMIT_MS + SLACK_MS);
    /* nothing for twice the time: the connection is dropped */
    assert_int_equal(qn_redis_pending(redis), 2);
    turn(LIMIT_MS + 20);
    assert_int_equal(qn_redis_pending(redis), 0);
    servers_signal(server, SIGCONT);
    assert_true(wait_until_back() < 1000);
    assert_int_not_equal(one(redis, CMD("CLIENT", "ID"))->num, id);
    assert_str(one(redis, CMD("GET", "k")), "v");
    assert_int_equal(first.times, 1);
    assert_int_equal(shorter.times, 1);
}

static void a_late_reply_never_answers_another_call(void **state)
{
    (void)state;
    one(redis, CMD("MSET", "a", "old", "b", "new"));
    int64_t id = one(redis, CMD("CLIENT", "ID"))->num;
    for (int i = 0; i < 2; i++) {
        servers_signal(server, SIGSTOP);
        struct seen late, next;
        start(&late, CMD("GET", "a"), in_ms(20));
        /* in the same pipe behind it, with time left */
        start(&next, CMD("GET", "b"), INT64_MAX);
        assert_true(qn_loop_until(base, &late.done));
        assert_int_equal(late.err, QN_ETIMEOUT);
        servers_signal(server, SIGCONT);
        assert_true(qn_loop_until(base, &next.done));
        assert_int_equal(next.err, QN_OK);
        assert_str(&next.replies[0], "new");
        assert_int_equal(late.times, 1);
        /* an answer in time closes the breaker; the connection is the same */
        assert_false(qn_redis_breaker(redis)->open);
        assert_int_equal(one(redis, CMD("CLIENT", "ID"))->num, id);
        assert_str(one(redis, CMD("GET", "b")), "new");
        assert_int_equal(qn_redis_pending(redis), 0);
    }
}

static void an_abandoned_call_is_never_reported(void **state)
{
    (void)state;
    one(redis, CMD("MSET", "a", "1", "b", "2"));
    struct seen given_up = {0}, kept;
    struct qn_redis_call *call;
    assert_int_equal(qn_redis_send(redis, &CMD("GET", "a"), 1, INT64_MAX, on_seen, &given_up, &call), QN_OK);
    start(&kept, CMD("GET", "b"), INT64_MAX);
    qn_redis_abandon(call);
    assert_true(qn_loop_until(base, &kept.done));
    assert_str(&kept.replies[0], "2");
    assert_int_equal(given_up.times, 0);
    /* also while it waits for the connection */
    use(&config);
    assert_int_equal(qn_redis_send(redis, &CMD("GET", "a"), 1, INT64_MAX, on_seen, &given_up, &call), QN_OK);
    qn_redis_abandon(call);
    assert_str(one(redis, CMD("GET", "b")), "2");
    assert_int_equal(given_up.times, 0);
    assert_int_equal(qn_redis_pending(redis), 0);
}

static void what_is_late_already_is_not_sent(void **state)
{
    (void)state;
    struct seen s;
    start(&s, CMD("INCR", "n"), in_ms(-1));
    assert_true(qn_loop_until(base, &s.done));
    assert_int_equal(s.err, QN_ETIMEOUT);
    assert_false(qn_redis_breaker(redis)->open);
    assert_int_equal(one(redis, CMD("INCR", "n"))->num, 1);
}

static struct qn_redis *freed_in;
static void on_cancel_send_again(void *arg, enum qn_err err, const struct qn_val *replies, size_t n)
{
    on_seen(arg, err, replies, n);
    assert_int_equal(qn_redis_send(freed_in, &CMD("PING"), 1, INT64_MAX, on_seen, arg, NULL), QN_EUNAVAIL);
}

static void free_cancels_what_is_out(void **state)
{
    (void)state;
    one(redis, CMD("PING"));
    struct seen s = {0};
    freed_in = redis;
    assert_int_equal(qn_redis_send(redis, &CMD("PING"), 1, INT64_MAX, on_cancel_send_again, &s, NULL), QN_OK);
    use(&config);
    assert_int_equal(s.times, 1);
    assert_int_equal(s.err, QN_ECANCEL);
}

static void posts_are_carried_out(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        qn_redis_post(redis, (const struct qn_cmd[]){CMD("INCR", "n"), CMD("LPUSH", "n", "wrong type")}, 2);
    assert_str(one(redis, CMD("GET", "n")), "50");
}

/* ---- logging in ---- */

static void password_and_database_are_set_before_any_command(void **state)
{
    (void)state;
    struct server *locked = servers_redis((const char *[]){"--requirepass", "p w%s\"", "--user", "reader", "on",
                                                           ">secret", "~*", "&*", "+@all", NULL});
    struct qn_config_redis with = config;
    with.socket = (char *)servers_address(locked);
    with.password = (char *)"p w%s\"";
    with.db = 3;
    use(&with);
    assert_str(one(redis, CMD("SET", "k", "three")), "OK");
    with.user = (char *)"reader";
    with.password = (char *)"secret";
    use(&with);
    assert_str(one(redis, CMD("GET", "k")), "three");
    with.db = 0;
    use(&with);
    assert_int_equal(one(redis, CMD("GET", "k"))->kind, QN_VAL_NIL);
    const struct qn_val *reply;
    with.db = 99; /* there are 16: a write must not go to another one */
    use(&with);
    assert_int_equal(try_one(redis, CMD("SET", "k", "v"), &reply), QN_EUNAVAIL);
    assert_true(qn_redis_breaker(redis)->open);
    with.db = 0;
    with.password = (char *)"wrong";
    use(&with);
    assert_int_equal(try_one(redis, CMD("GET", "k"), &reply), QN_EUNAVAIL);
    with.password = NULL;
    use(&with);
    assert_int_equal(try_one(redis, CMD("GET", "k"), &reply), QN_EUNAVAIL);
    assert_true(qn_redis_breaker(redis)->open);
    with.user = (char *)"reader";
    with.password = (char *)"secret";
    use(&with);
    assert_int_equal(one(redis, CMD("DBSIZE"))->num, 0);
}

static void too_many_clients_is_unavailable(void **state)
{
    (void)state;
    struct server *full = servers_redis((const char *[]){"--maxclients", "1", NULL});
    struct qn_config_redis with = config;
    with.socket = (char *)servers_address(full);
    struct qn_redis *first = qn_redis_new(admin_base, &with);
    /* the server may not have seen its starter's connection close yet */
    const struct qn_val *reply;
    int64_t until = in_ms(5000);
    while (try_one(first, CMD("PING"), &reply) != QN_OK) {
        assert_true(qn_clock_mono_ms() < until);
        qn_redis_free(first);
        first = qn_redis_new(admin_base, &with);
    }
    use(&with);
    assert_int_equal(try_one(redis, CMD("PING"), &reply), QN_EUNAVAIL);
    assert_true(qn_redis_breaker(redis)->open);
    qn_redis_free(first);
    assert_true(wait_until_back() < 1000 + SLACK_MS);
}

/* ---- what the server is ---- */

/* A process that answers whatever it reads with `text`, and says `first` unasked. */
static pid_t fake_server(const char *path, struct qn_str first, struct qn_str text)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    (void)unlink(path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 5), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        char in[4096];
        for (;;) {
            int fd = accept(listener, NULL, NULL);
            if (fd < 0 || (first.n > 0 && write(fd, first.p, first.n) < 0))
                _exit(1);
            while (read(fd, in, sizeof(in)) > 0 && write(fd, text.p, text.n) > 0)
                continue;
            (void)close(fd);
        }
    }
    (void)close(listener);
    return pid;
}

static void end_fake(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void old_and_clustered_servers_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct qn_str reason = QN_STR_NULL;
    assert_int_equal(qn_redis_check_server(redis, INT64_MAX, arena, &reason), QN_OK);

    struct server *clustered = servers_redis((const char *[]){"--cluster-enabled", "yes", NULL});
    struct qn_config_redis with = config;
    with.socket = (char *)servers_address(clustered);
    use(&with);
    assert_int_equal(qn_redis_check_server(redis, INT64_MAX, arena, &reason), QN_EPEER);
    assert_string_equal(reason.p, "Redis is in cluster mode, which is not supported");

    with.socket = (char *)qn_arena_printf(arena, "%s/fake", servers_dir(server)).p;
    static const struct {
        struct qn_str reply;
        const char *reason;
    } fakes[] = {
        {QN_STR("$37\r\n# Server\r\nredis_version:6.2.14\r\nx:y\r\n\r\n"), "Redis 6.2.14 is too old: 7.0 is needed"},
        {QN_STR("$10\r\n# Server\r\n\r\n"), "Redis  is too old: 7.0 is needed"},
        {QN_STR("-NOPERM no\r\n"), "Redis refuses INFO: NOPERM no"},
        {QN_STR("-LOADING Redis is loading the dataset in memory\r\n"), "Redis can't be asked: unavailable"},
        {QN_STR("no protocol\r\n"), "Redis can't be asked: unavailable"},
    };
    for (size_t i = 0; i < QN_LEN(fakes); i++) {
        pid_t pid = fake_server(with.socket, QN_STR(""), fakes[i].reply);
        use(&with);
        enum qn_err err = qn_redis_check_server(redis, INT64_MAX, arena, &reason);
        assert_int_equal(err, i < 3 ? QN_EPEER : QN_EUNAVAIL);
        assert_string_equal(reason.p, fakes[i].reason);
        end_fake(pid);
    }
}

static void words_that_nobody_asked_for_answer_nothing(void **state)
{
    (void)state;
    struct qn_config_redis with = config;
    with.socket = (char *)qn_arena_printf(arena, "%s/fake", servers_dir(server)).p;
    /* two replies to one command: the second must not answer the next call */
    pid_t pid = fake_server(with.socket, QN_STR(""), QN_STR("+one\r\n+stray\r\n"));
    use(&with);
    for (int i = 0; i < 5; i++) {
        assert_str(one(redis, CMD("GET", "k")), "one");
        if (i % 2 == 0)
            turn(2);
    }
    end_fake(pid);
    /* in the same breath as the answer to AUTH, and before any question */
    with.password = (char *)"p";
    pid = fake_server(with.socket, QN_STR(""), QN_STR("+OK\r\n+stray\r\n"));
    use(&with);
    const struct qn_val *reply;
    assert_int_equal(try_one(redis, CMD("GET", "k"), &reply), QN_EUNAVAIL);
    end_fake(pid);
    with.password = NULL;
    pid = fake_server(with.socket, QN_STR("-ERR go away\r\n+stray\r\n+stray\r\n"), QN_STR("+one\r\n"));
    use(&with);
    assert_true(try_one(redis, CMD("GET", "k"), &reply) == QN_EUNAVAIL || reply->kind == QN_VAL_ERROR);
    end_fake(pid);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(bytes_pass_exactly),
        TEST(every_kind_of_reply),
        TEST(a_value_of_eight_megabytes),
        TEST(ten_thousand_pipelined_come_in_order_and_no_more_are_taken),
        TEST(commands_of_one_turn_leave_in_one_write),
        TEST(noscript_sends_the_source_once_and_the_rest_of_the_call_keeps_its_replies),
        TEST(full_memory_is_a_value),
        TEST(a_demoted_master_is_left),
        TEST(a_connection_closed_between_calls_costs_nobody_an_error),
        TEST(a_connection_killed_with_calls_out_fails_them_and_sends_none_twice),
        TEST(a_killed_server_fails_the_calls_at_once_and_is_found_again),
        TEST(a_server_that_is_down_from_the_start),
        TEST(a_stalled_server_costs_the_first_calls_their_deadline_and_the_rest_nothing),
        TEST(a_late_reply_never_answers_another_call),
        TEST(an_abandoned_call_is_never_reported),
        TEST(what_is_late_already_is_not_sent),
        TEST(free_cancels_what_is_out),
        TEST(posts_are_carried_out),
        TEST(password_and_database_are_set_before_any_command),
        TEST(too_many_clients_is_unavailable),
        TEST(old_and_clustered_servers_are_refused_with_a_reason),
        TEST(words_that_nobody_asked_for_answer_nothing),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    server = servers_redis(NULL);
    (void)alarm(120);
    config = (struct qn_config_redis){.socket = (char *)servers_address(server), .connect_ms = LIMIT_MS,
                                      .command_ms = LIMIT_MS, .max_pending = 10000};
    admin_config = config;
    admin_config.command_ms = 5000;
    base = event_base_new();
    admin_base = event_base_new();
    arena = qn_arena_new(65536);
    redis = qn_redis_new(base, &config);
    admin = qn_redis_new(admin_base, &admin_config);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    qn_redis_free(redis);
    qn_redis_free(admin);
    qn_arena_free(arena);
    event_base_free(base);
    event_base_free(admin_base);
    return failures;
}
