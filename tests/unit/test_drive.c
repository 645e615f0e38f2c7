/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * fcgi/drive with routes of its own, a real Redis, and a Postgres that isn't there.
 */
#include "base/base.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/types.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fcgi/drive.h"
#include "servers.h"

enum { MAX_STAGES = 8, GUARD_MS = 5000 };

static struct server *redis;

/* What a route's steps saw. */
struct seen {
    enum qn_err replies_err;
    enum qn_err rows_err;
    char value[64];
    bool rows_null;
};

static enum qn_want say(struct qn_turn *turn, int status, struct qn_str body)
{
    turn->rs.status = status;
    turn->rs.content_type = "text/plain";
    turn->rs.body = body;
    return QN_WANT_DONE;
}

static enum qn_want plan_here(struct qn_turn *turn)
{
    return say(turn, 200, QN_STR("here"));
}

static enum qn_want plan_get(struct qn_turn *turn)
{
    static const struct qn_str argv[] = {{"GET", 3}, {"drive-key", 9}};
    struct qn_cmd *cmd = qn_arena_alloc(turn->arena, sizeof *cmd);
    *cmd = qn_turn_cmd(turn, argv, 2);
    turn->state = qn_arena_zalloc(turn->arena, sizeof(struct seen));
    turn->cmds = cmd;
    turn->n_cmds = 1;
    return QN_WANT_REDIS;
}

static const struct qn_stmt stmt = {"one", "SELECT 1", 0};

static enum qn_want replies_get(struct qn_turn *turn, enum qn_err err, const struct qn_val *replies, size_t n)
{
    static const struct qn_str argv[] = {{"SET", 3}, {"drive-after", 11}, {"written", 7}};
    struct seen *seen = turn->state;
    seen->replies_err = err;
    if (err != QN_OK) {
        turn->query = (struct qn_query){.stmt = &stmt};
        return QN_WANT_ROWS;
    }
    assert_int_equal(n, 1);
    struct qn_cmd *after = qn_arena_alloc(turn->arena, sizeof *after);
    *after = qn_turn_cmd(turn, argv, 3);
    turn->after = after;
    turn->n_after = 1;
    /* replies end with this call: what stays is copied */
    return say(turn, 200, replies[0].kind == QN_VAL_STR ? qn_arena_copy(turn->arena, replies[0].str) : QN_STR("nil"));
}

static enum qn_want rows_get(struct qn_turn *turn, enum qn_err err, const struct qn_rows *rows)
{
    struct seen *seen = turn->state;
    seen->rows_err = err;
    seen->rows_null = rows == NULL;
    return say(turn, 503, QN_STR("down"));
}

static const struct qn_route route_here = {.path = "/here", .methods = QN_GET, .plan = plan_here};
static const struct qn_route route_get = {.path = "/get", .methods = QN_GET, .plan = plan_get, .replies = replies_get,
                                          .rows = rows_get};
static const struct qn_route *const routes[] = {&route_here, &route_get};

struct run {
    struct qn_config *config;
    struct event_base *base;
    struct qn_links links;
    struct qn_app app;
    struct qn_arena *arena;
    struct qn_request rq;
    struct qn_turn turn;
    struct qn_drive drive;
    enum qn_stage stages[MAX_STAGES];
    size_t n_stages;
    int done;
};

static void on_stage(void *arg, enum qn_stage stage)
{
    struct run *r = arg;
    assert_true(r->n_stages < MAX_STAGES);
    r->stages[r->n_stages++] = stage;
}

static void on_done(void *arg)
{
    struct run *r = arg;
    r->done++;
}

static void open_run(struct run *r, const char *socket)
{
    memset(r, 0, sizeof *r);
    r->config = qn_config_defaults();
    free(r->config->redis.socket);
    r->config->redis.socket = qn_xstrndup(socket, strlen(socket));
    r->config->redis.command_ms = 60 * 1000; /* the request's own deadline is what holds */
    free(r->config->postgres.dsn);
    r->config->postgres.dsn = qn_xstrndup("host=/nonexistent dbname=x", 26);
    r->base = event_base_new();
    r->links.redis = qn_redis_new(r->base, &r->config->redis);
    r->links.postgres = qn_pgpool_new(r->base, &r->config->postgres, &stmt, 1, 1);
    r->arena = qn_arena_new(4096);
    r->app = (struct qn_app){.config = r->config, .routes = routes, .n_routes = QN_LEN(routes)};
}

static void close_run(struct run *r)
{
    qn_pgpool_free(r->links.postgres);
    qn_redis_free(r->links.redis);
    event_base_free(r->base);
    qn_arena_free(r->arena);
    qn_config_free(r->config);
}

static void begin(struct run *r, const char *path, int budget_ms)
{
    const struct qn_param vars[] = {{QN_STR("REQUEST_METHOD"), QN_STR("GET")},
                                    {QN_STR("REQUEST_URI"), qn_str_of(path)}};
    qn_arena_reset(r->arena);
    qn_request_make(r->arena, vars, QN_LEN(vars), QN_STR(""), false, &r->rq);
    r->turn = (struct qn_turn){.app = &r->app, .rq = &r->rq, .arena = r->arena, .now_ms = qn_clock_wall_ms(),
                               .mono_ms = qn_clock_mono_ms()};
    r->drive = (struct qn_drive){.turn = &r->turn, .links = &r->links, .deadline = r->turn.mono_ms + budget_ms,
                                 .stage = on_stage, .done = on_done, .arg = r};
    r->n_stages = 0;
    r->done = 0;
    qn_drive_start(&r->drive);
}

static void wait_done(struct run *r)
{
    int64_t guard = qn_clock_mono_ms() + GUARD_MS;
    while (!r->done) {
        assert_true(qn_clock_mono_ms() < guard);
        assert_int_equal(event_base_loop(r->base, EVLOOP_ONCE), 0);
    }
    assert_int_equal(r->done, 1);
}

static struct qn_str get(struct run *r, const char *key)
{
    const struct qn_str argv[] = {QN_STR("GET"), qn_str_of(key)};
    const struct qn_cmd cmd = {.argc = 2, .argv = argv};
    const struct qn_val *replies;
    assert_int_equal(qn_redis_run(r->links.redis, &cmd, 1, qn_clock_mono_ms() + GUARD_MS, r->arena, &replies), QN_OK);
    return replies[0].str;
}

static void a_turn_that_wants_nothing_is_done_at_once(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, servers_address(redis));
    begin(&r, "/here", 1000);
    assert_int_equal(r.done, 1);
    assert_int_equal(r.n_stages, 0);
    assert_int_equal(r.turn.rs.status, 200);
    close_run(&r);
}

static void replies_reach_the_turn_and_write_backs_leave_after_it(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, servers_address(redis));
    begin(&r, "/get", 2000);
    assert_int_equal(r.done, 0);
    wait_done(&r);
    assert_true(qn_str_eq(r.turn.rs.body, QN_STR("nil")));
    assert_int_equal(r.n_stages, 1);
    assert_int_equal(r.stages[0], QN_STAGE_CACHE);
    assert_null(get(&r, "drive-after").p);
    qn_drive_after(&r.drive);
    qn_arena_reset(r.arena); /* the commands were copied */
    assert_true(qn_str_eq(get(&r, "drive-after"), QN_STR("written")));
    close_run(&r);
}

static void without_redis_and_postgres_the_turn_still_ends(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, "/nonexistent/redis.sock");
    /* the second time the breakers are open: refused at once, from within start */
    for (int i = 0; i < 2; i++) {
        begin(&r, "/get", 1000);
        if (i == 0)
            wait_done(&r);
        struct seen *seen = r.turn.state;
        assert_int_equal(r.done, 1);
        assert_int_equal(r.turn.rs.status, 503);
        assert_true(r.turn.redis_down);
        assert_int_equal(seen->replies_err, QN_EUNAVAIL);
        assert_int_equal(seen->rows_err, QN_EUNAVAIL);
        assert_true(seen->rows_null);
        assert_int_equal(r.n_stages, 2);
        assert_int_equal(r.stages[1], QN_STAGE_STORE);
    }
    close_run(&r);
}

static void a_hung_redis_costs_the_budget_and_not_its_own_limit(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, servers_address(redis));
    get(&r, "connect-first");
    servers_signal(redis, SIGSTOP);
    int64_t start = qn_clock_mono_ms();
    begin(&r, "/get", 200);
    wait_done(&r);
    int64_t took = qn_clock_mono_ms() - start;
    servers_signal(redis, SIGCONT);
    assert_int_equal(((struct seen *)r.turn.state)->replies_err, QN_ETIMEOUT);
    assert_int_equal(r.turn.rs.status, 503);
    assert_in_range(took, 200, 1000);
    close_run(&r);
}

static void an_abandoned_turn_is_never_called_again(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, servers_address(redis));
    begin(&r, "/get", 2000);
    qn_drive_abandon(&r.drive);
    memset(&r.turn, 0xff, sizeof r.turn); /* its steps would fall over this */
    get(&r, "anything");                  /* replies come in order: the abandoned one's has arrived */
    assert_int_equal(r.done, 0);
    close_run(&r);
}

static int start_servers(void **state)
{
    (void)state;
    redis = servers_redis(NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_that_wants_nothing_is_done_at_once),
        cmocka_unit_test(replies_reach_the_turn_and_write_backs_leave_after_it),
        cmocka_unit_test(without_redis_and_postgres_the_turn_still_ends),
        cmocka_unit_test(a_hung_redis_costs_the_budget_and_not_its_own_limit),
        cmocka_unit_test(an_abandoned_turn_is_never_called_again),
    };
    return cmocka_run_group_tests(tests, start_servers, NULL);
}
