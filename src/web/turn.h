/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One request's turn, in pure steps: begin (route, check, plan) -> what is wanted of Redis -> replies -> perhaps a query
 * -> rows -> response. An engine does the I/O in between; tests do without any. Every step says what is wanted next.
 */
#ifndef QN_WEB_TURN_H
#define QN_WEB_TURN_H

#include "base/config.h"
#include "link/command.h"
#include "web/problem.h"

struct qn_turn;

enum qn_want {
    QN_WANT_DONE,  /* turn->rs is the answer; then turn->after is to be sent to Redis, nobody waits for it */
    QN_WANT_REDIS, /* turn->cmds are to be asked; then qn_turn_replies */
    QN_WANT_ROWS,  /* turn->query is to be run; then qn_turn_rows */
};

/* A path and its steps. replies may be NULL when plan never wants Redis, rows when no step wants rows. */
struct qn_route {
    const char *path;
    unsigned methods;            /* QN_GET | QN_POST …; HEAD and OPTIONS come by themselves */
    const char *const *params;   /* the query parameters it knows, NULL-terminated */
    enum qn_want (*plan)(struct qn_turn *turn);
    enum qn_want (*replies)(struct qn_turn *turn, enum qn_err err, const struct qn_val *replies, size_t n);
    enum qn_want (*rows)(struct qn_turn *turn, enum qn_err err, const struct qn_rows *rows);
};

/* How a request was answered, for the scoreboard. */
enum qn_outcome { QN_OUTCOME_NONE, QN_OUTCOME_HIT, QN_OUTCOME_MISS, QN_OUTCOME_STALE };

/* What every request of a worker shares. */
struct qn_app {
    const struct qn_config *config;
    const struct qn_route *const *routes;
    size_t n_routes;
    /* /v1/readyz: the last result, kept for a second (a worker's own). */
    int64_t ready_at;            /* monotonic ms, 0 = never */
    int ready_status;
    char ready_body[512];
    size_t ready_body_len;
};

struct qn_turn {
    struct qn_app *app;
    const struct qn_request *rq;
    struct qn_arena *arena;
    int64_t now_ms;              /* wall clock, read once */
    int64_t mono_ms;
    const struct qn_route *route;
    const struct qn_cmd *cmds;   /* WANT_REDIS; in arena */
    size_t n_cmds;
    struct qn_query query;       /* WANT_ROWS; in arena */
    const struct qn_cmd *after;  /* DONE: write-backs */
    size_t n_after;
    bool redis_down;             /* Redis could not be asked */
    enum qn_outcome outcome;
    struct qn_response rs;
    void *state;                 /* the handler's, in arena */
};

/* Routes (404, 405 with Allow, OPTIONS, unknown and duplicate parameters, broken encoding: answered here) and plans.
 * app, rq, arena, now_ms and mono_ms are set by the caller, the rest is zero. */
QN_MUST enum qn_want qn_turn_begin(struct qn_turn *turn);
/* err != QN_OK: Redis could not be asked; n is 0. */
QN_MUST enum qn_want qn_turn_replies(struct qn_turn *turn, enum qn_err err, const struct qn_val *replies, size_t n);
/* err != QN_OK: Postgres gave nothing; rows is NULL. */
QN_MUST enum qn_want qn_turn_rows(struct qn_turn *turn, enum qn_err err, const struct qn_rows *rows);

/* For handlers: the turn ends with this problem. */
QN_MUST enum qn_want qn_turn_problem(struct qn_turn *turn, enum qn_problem p, const char *param, struct qn_str detail);
/* For handlers: one command of n words in the arena. */
struct qn_cmd qn_turn_cmd(struct qn_turn *turn, const struct qn_str *argv, size_t argc);

#endif
