/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "market/statements.h"
#include "web/service.h"

/* A result of /v1/readyz is shared for this long, so that probes can't use the connections up. */
enum { READY_KEEP_MS = 1000 };

static enum qn_want answer(struct qn_turn *turn, int status, struct qn_str body)
{
    turn->rs.status = status;
    turn->rs.content_type = "application/json";
    turn->rs.cache_control = QN_STR("no-store");
    turn->rs.body = body;
    if (status == 503)
        qn_response_header(&turn->rs, "Retry-After", QN_STR("1"));
    return QN_WANT_DONE;
}

enum qn_want qn_service_healthz(struct qn_turn *turn)
{
    return answer(turn, 200, QN_STR("{\"status\":\"ok\"}"));
}

enum qn_want qn_service_version(struct qn_turn *turn)
{
    return answer(turn, 200, QN_STR("{\"name\":\"quoin\",\"version\":\"" PACKAGE_VERSION "\"}"));
}

enum qn_want qn_service_ready_plan(struct qn_turn *turn)
{
    const struct qn_app *app = turn->app;
    if (app->ready_at && turn->mono_ms - app->ready_at < READY_KEEP_MS)
        return answer(turn, app->ready_status, (struct qn_str){app->ready_body, app->ready_body_len});
    const struct qn_str ping[] = {QN_STR("PING")};
    struct qn_cmd *cmd = qn_arena_array(turn->arena, 1, sizeof *cmd);
    *cmd = qn_turn_cmd(turn, ping, 1);
    turn->cmds = cmd;
    turn->n_cmds = 1;
    return QN_WANT_REDIS;
}

enum qn_want qn_service_ready_replies(struct qn_turn *turn, enum qn_err err, const struct qn_val *r, size_t n)
{
    if (err == QN_OK && (n != 1 || r[0].kind != QN_VAL_STR))
        err = QN_EPEER;
    enum qn_err *redis = qn_arena_alloc(turn->arena, sizeof *redis);
    *redis = err;
    turn->state = redis;
    turn->query = (struct qn_query){&qn_market_stmts[QN_STMT_SCHEMA], NULL};
    return QN_WANT_ROWS;
}

static void put_check(struct qn_buf *b, const char *name, enum qn_err err)
{
    qn_buf_printf(b, "\"%s\":{\"status\":\"%s\"", name, err == QN_OK ? "ok" : "out");
    if (err != QN_OK)
        qn_buf_printf(b, ",\"error\":\"%s\"", qn_err_name(err));
    qn_buf_char(b, '}');
}

enum qn_want qn_service_ready_rows(struct qn_turn *turn, enum qn_err err, const struct qn_rows *rows)
{
    struct qn_app *app = turn->app;
    enum qn_err redis = *(const enum qn_err *)turn->state;
    if (err == QN_OK && (rows->nrows != 1 || !rows->cells[0].p))
        err = QN_EPEER;
    bool unready = redis != QN_OK && err != QN_OK, degraded = redis != QN_OK || err != QN_OK;
    struct qn_buf b = {.arena = turn->arena};
    qn_buf_printf(&b, "{\"status\":\"%s\",\"checks\":{", unready ? "unready" : degraded ? "degraded" : "ok");
    put_check(&b, "redis", redis);
    qn_buf_char(&b, ',');
    put_check(&b, "postgres", err);
    qn_buf_puts(&b, "}}");
    app->ready_at = turn->mono_ms;
    app->ready_status = unready ? 503 : 200;
    app->ready_body_len = b.n < sizeof app->ready_body ? b.n : sizeof app->ready_body;
    memcpy(app->ready_body, b.p, app->ready_body_len);
    return answer(turn, app->ready_status, qn_buf_view(&b));
}
