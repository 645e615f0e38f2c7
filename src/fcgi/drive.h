/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Runs one request's turn (web/turn.h) on the links: asks Redis and Postgres what its steps want, within the request's
 * one budget. Event driven, so that every engine can use it: one at a time or many at once.
 */
#ifndef QN_FCGI_DRIVE_H
#define QN_FCGI_DRIVE_H

#include "fcgi/scoreboard.h"
#include "link/pgpool.h"
#include "link/redis.h"
#include "web/turn.h"

struct qn_links {
    struct qn_redis *redis;
    struct qn_pgpool *postgres;
};

struct qn_drive {
    struct qn_turn *turn;
    const struct qn_links *links;
    int64_t deadline;                          /* monotonic ms; each link takes the sooner of it and its own */
    /* The turn is at this stage now; may be NULL. */
    void (*stage)(void *arg, enum qn_stage stage);
    /* turn->rs is the answer. Called once: from within qn_drive_start when nothing had to be asked. */
    void (*done)(void *arg);
    void *arg;
    struct qn_redis_call *redis_call;          /* under way, or NULL */
    struct qn_pgcall *postgres_call;
};

/* turn, links, deadline, stage, done and arg are set by the caller, the rest is zero; all of it stays until done or
 * qn_drive_abandon. */
void qn_drive_start(struct qn_drive *d);
/* Sends the turn's write-backs, which nobody waits for: after done, while the turn still lives. */
void qn_drive_after(const struct qn_drive *d);
/* Gives the turn up; done won't be called. */
void qn_drive_abandon(struct qn_drive *d);

#endif
