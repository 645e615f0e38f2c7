/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "web/turn.h"

enum qn_want qn_turn_problem(struct qn_turn *turn, enum qn_problem p, const char *param, struct qn_str detail)
{
    qn_problem_set(turn->app->config, turn->arena, turn->rq, &turn->rs, p, param, detail);
    return QN_WANT_DONE;
}

struct qn_cmd qn_turn_cmd(struct qn_turn *turn, const struct qn_str *argv, size_t argc)
{
    struct qn_str *copy = qn_arena_array(turn->arena, argc, sizeof *copy);
    memcpy(copy, argv, argc * sizeof *copy);
    return (struct qn_cmd){.argc = argc, .argv = copy};
}

static const struct qn_route *find_route(const struct qn_app *app, struct qn_str path)
{
    for (size_t i = 0; i < app->n_routes; i++)
        if (qn_str_eq(path, qn_str_of(app->routes[i]->path)))
            return app->routes[i];
    return NULL;
}

static struct qn_str allowed(struct qn_arena *arena, unsigned methods)
{
    static const struct {
        unsigned method;
        const char *name;
    } NAMES[] = {{QN_GET, "GET, HEAD"}, {QN_POST, "POST"}, {QN_PUT, "PUT"}, {QN_DELETE, "DELETE"}};
    struct qn_buf b = {.arena = arena};
    for (size_t i = 0; i < QN_LEN(NAMES); i++)
        if (methods & NAMES[i].method) {
            qn_buf_puts(&b, NAMES[i].name);
            qn_buf_puts(&b, ", ");
        }
    qn_buf_puts(&b, "OPTIONS");
    return qn_buf_view(&b);
}

/* OPTIONS on a path that exists, preflight or not. */
static enum qn_want answer_options(struct qn_turn *turn)
{
    struct qn_str methods = allowed(turn->arena, turn->route->methods);
    turn->rs.status = 204;
    qn_response_header(&turn->rs, "Allow", methods);
    qn_response_header(&turn->rs, "Access-Control-Allow-Methods", methods);
    qn_response_header(&turn->rs, "Access-Control-Allow-Headers",
                       QN_STR("Authorization, X-API-Key, Content-Type, If-None-Match, Last-Event-ID, Idempotency-Key"));
    qn_response_header(&turn->rs, "Access-Control-Max-Age", QN_STR("86400"));
    return QN_WANT_DONE;
}

static bool known_param(const struct qn_route *route, struct qn_str name)
{
    for (size_t i = 0; route->params && route->params[i]; i++)
        if (qn_str_eq(name, qn_str_of(route->params[i])))
            return true;
    return false;
}

/* The rules that hold for every query. True: broken, and answered. */
static bool refuse_query(struct qn_turn *turn, enum qn_want *want)
{
    const struct qn_request *rq = turn->rq;
    if (rq->query_bad) {
        *want = qn_turn_problem(turn, QN_P_INVALID_ENCODING, rq->bad_param.p,
                                QN_STR("The query has a broken percent escape, a NUL or bytes that are not UTF-8."));
        return true;
    }
    for (size_t i = 0; i < rq->n_params; i++) {
        struct qn_str name = rq->params[i].name;
        if (!known_param(turn->route, name)) {
            *want = qn_turn_problem(turn, QN_P_UNKNOWN_PARAMETER, name.p,
                                    name.n <= 64 ? qn_arena_printf(turn->arena, "This path has no parameter '%s'.", name.p)
                                                 : QN_STR("This path has no parameter of that name."));
            return true;
        }
        for (size_t j = 0; j < i; j++)
            if (qn_str_eq(rq->params[j].name, name)) {
                *want = qn_turn_problem(turn, QN_P_DUPLICATE_PARAMETER, name.p,
                                        qn_arena_printf(turn->arena, "'%s' is given twice.", name.p));
                return true;
            }
    }
    return false;
}

enum qn_want qn_turn_begin(struct qn_turn *turn)
{
    const struct qn_request *rq = turn->rq;
    enum qn_want want;
    if (rq->path_bad)
        return qn_turn_problem(turn, QN_P_INVALID_ENCODING, NULL,
                               QN_STR("The path has a broken percent escape, a NUL or bytes that are not UTF-8."));
    turn->route = find_route(turn->app, rq->path);
    if (!turn->route)
        return qn_turn_problem(turn, QN_P_NOT_FOUND, NULL, QN_STR("There is nothing at this path."));
    if (rq->method == QN_OPTIONS)
        return answer_options(turn);
    unsigned method = rq->method == QN_HEAD ? QN_GET : rq->method;
    if (!(turn->route->methods & method)) {
        qn_response_header(&turn->rs, "Allow", allowed(turn->arena, turn->route->methods));
        return qn_turn_problem(turn, QN_P_METHOD_NOT_ALLOWED, NULL, QN_STR("This path does not take that method."));
    }
    if (rq->body_too_large)
        return qn_turn_problem(turn, QN_P_BODY_TOO_LARGE, NULL, QN_STR("The body is longer than this server takes."));
    if (refuse_query(turn, &want))
        return want;
    return turn->route->plan(turn);
}

enum qn_want qn_turn_replies(struct qn_turn *turn, enum qn_err err, const struct qn_val *replies, size_t n)
{
    turn->redis_down = err != QN_OK;
    return turn->route->replies(turn, err, replies, n);
}

enum qn_want qn_turn_rows(struct qn_turn *turn, enum qn_err err, const struct qn_rows *rows)
{
    return turn->route->rows(turn, err, rows);
}
