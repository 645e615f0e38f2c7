/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Input: the request's target, then on lines of their own If-None-Match and X-Request-ID. The turn is driven through all
 * of its steps with a Redis that has nothing and a store that has nothing.
 */
#include "base/base.h"

#include <stdlib.h>

#include <sodium.h>

#include "base/json.h"
#include "prices/routes.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static struct qn_str next_line(struct qn_str *rest)
{
    const char *nl = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    struct qn_str line = {rest->p, nl ? (size_t)(nl - rest->p) : rest->n};
    size_t used = line.n + (nl != NULL);
    rest->p += used;
    rest->n -= used;
    return line;
}

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void run(struct qn_turn *turn)
{
    const struct qn_rows nothing = {0};
    enum qn_want want = qn_turn_begin(turn);
    for (int steps = 0; want != QN_WANT_DONE; steps++) {
        demand(steps < 4);
        if (want == QN_WANT_REDIS) {
            struct qn_val *nil = qn_arena_array(turn->arena, turn->n_cmds, sizeof *nil);
            want = qn_turn_replies(turn, QN_OK, nil, turn->n_cmds);
        } else {
            for (int i = 0; i < turn->query.stmt->nparams; i++)
                demand(!turn->query.params[i].p || strlen(turn->query.params[i].p) == turn->query.params[i].n);
            want = qn_turn_rows(turn, QN_OK, &nothing);
        }
    }
}

/* Whatever is asked: a status that we know, a body that is JSON, no line break of the client's in a header. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct qn_app app;
    static struct qn_arena *arena;
    static struct qn_json_reader *reader;
    if (!app.config) {
        demand(sodium_init() >= 0);
        app.config = qn_config_defaults();
        app.routes = qn_prices_routes(&app.n_routes);
        arena = qn_arena_new(65536);
        reader = qn_json_reader_new();
    }
    struct qn_str rest = {(const char *)data, size}, target = next_line(&rest), match = next_line(&rest);
    const char *mark = target.n ? memchr(target.p, '?', target.n) : NULL;
    struct qn_str query = mark ? (struct qn_str){mark + 1, (size_t)(target.p + target.n - mark - 1)} : QN_STR("");
    const struct qn_param vars[] = {{QN_STR("REQUEST_METHOD"), QN_STR("GET")}, {QN_STR("REQUEST_URI"), target},
                                    {QN_STR("QUERY_STRING"), query}, {QN_STR("HTTP_IF_NONE_MATCH"), match},
                                    {QN_STR("HTTP_X_REQUEST_ID"), next_line(&rest)}};
    struct qn_request rq;
    qn_arena_reset(arena);
    qn_request_make(arena, vars, QN_LEN(vars), QN_STR(""), false, &rq);
    struct qn_turn turn = {.app = &app, .rq = &rq, .arena = arena, .now_ms = 1776868267250, .mono_ms = 1};
    run(&turn);
    int status = turn.rs.status;
    demand(status == 200 || status == 400 || status == 404 || status == 500 || status == 503);
    struct json_object *o;
    const char *why;
    demand(qn_json_read(reader, turn.rs.body, &o, &why) == QN_OK);
    json_object_put(o);
    struct qn_buf out = {.arena = arena};
    qn_response_put(app.config, &rq, &turn.rs, &out);
    const char *end = strstr(out.p, "\r\n\r\n");
    demand(end && qn_str_starts(qn_buf_view(&out), QN_STR("Status: ")));
    for (const char *p = out.p; p < end; p++)
        demand(*p != '\r' || p[1] == '\n');
    return 0;
}
