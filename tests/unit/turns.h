/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * For tests of handlers: a request from its text, driven step by step without any server.
 */
#ifndef QN_TESTS_TURNS_H
#define QN_TESTS_TURNS_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "prices/routes.h"
#include "web/turn.h"

/* 2026-04-22T14:31:07.250Z: what now is, unless a test says otherwise. */
#define NOW_MS INT64_C(1776868267250)

struct fixture {
    struct qn_config *config;
    struct qn_app app;
    struct qn_arena *arena;
    struct qn_request rq;
    struct qn_turn turn;
};

static inline void fixture_start(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    f->config = qn_config_defaults();
    f->app.config = f->config;
    f->app.routes = qn_prices_routes(&f->app.n_routes);
    f->arena = qn_arena_new(65536);
}

static inline void fixture_stop(struct fixture *f)
{
    qn_arena_free(f->arena);
    qn_config_free(f->config);
}

/* Makes the request (uri with its query; vars: name, value, …, NULL) and begins its turn. */
static inline enum qn_want fixture_begin(struct fixture *f, const char *method, const char *uri, const char *const *vars)
{
    struct qn_param list[24] = {{QN_STR("REQUEST_METHOD"), qn_str_of(method)}, {QN_STR("REQUEST_URI"), qn_str_of(uri)}};
    size_t n = 2;
    const char *mark = strchr(uri, '?');
    list[n++] = (struct qn_param){QN_STR("QUERY_STRING"), qn_str_of(mark ? mark + 1 : "")};
    for (; vars && vars[0]; vars += 2)
        list[n++] = (struct qn_param){qn_str_of(vars[0]), qn_str_of(vars[1])};
    qn_arena_reset(f->arena);
    qn_request_make(f->arena, list, n, QN_STR(""), false, &f->rq);
    memset(&f->turn, 0, sizeof f->turn);
    f->turn.app = &f->app;
    f->turn.rq = &f->rq;
    f->turn.arena = f->arena;
    f->turn.now_ms = NOW_MS;
    f->turn.mono_ms = 5000;
    return qn_turn_begin(&f->turn);
}

static inline enum qn_want fixture_get(struct fixture *f, const char *uri)
{
    return fixture_begin(f, "GET", uri, NULL);
}

/* The whole answer as it goes to the web server. */
static inline const char *fixture_answer(struct fixture *f)
{
    struct qn_buf b = {.arena = f->arena};
    qn_response_put(f->config, &f->rq, &f->turn.rs, &b);
    return b.p;
}

static inline void assert_problem(struct fixture *f, int status, const char *slug, const char *param)
{
    const char *body = f->turn.rs.body.p;
    assert_int_equal(f->turn.rs.status, status);
    assert_string_equal(f->turn.rs.content_type, "application/problem+json");
    assert_true(qn_str_eq(f->turn.rs.cache_control, QN_STR("no-store")));
    assert_non_null(strstr(body, qn_arena_printf(f->arena, "\"type\":\"/errors/%s\"", slug).p));
    assert_non_null(strstr(body, qn_arena_printf(f->arena, "\"request_id\":\"%s\"", f->rq.id).p));
    if (param)
        assert_non_null(strstr(body, qn_arena_printf(f->arena, "\"param\":\"%s\"", param).p));
    else
        assert_null(strstr(body, "\"param\""));
}

#endif
