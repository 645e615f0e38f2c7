/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * A worker process: what it owns, how it starts, and how it stops. TERM, INT and USR1 end it after what it has accepted
 * is answered; QUIT ends it at once.
 */
#ifndef QN_FCGI_WORKER_H
#define QN_FCGI_WORKER_H

#include <event2/event.h>

#include "fcgi/drive.h"
#include "fcgi/listen.h"
#include "fcgi/scoreboard.h"

/* What a worker is started with; the same for all of a pool. */
struct qn_pool {
    const struct qn_config *config;
    const struct qn_config_pool *pool;
    const struct qn_route *const *routes;
    size_t n_routes;
    const struct qn_stmt *stmts;     /* prepared on each Postgres connection */
    size_t n_stmts;
    int max_requests;                /* before jitter; 0 = never */
    struct qn_listener *listener;
    struct qn_board *board;
};

/* One worker. Engines use it; nothing here outlives the process. */
struct qn_worker {
    const struct qn_pool *pool;
    struct qn_app app;
    struct event_base *base;
    struct qn_links links;
    struct qn_slot slot;             /* our copy of the scoreboard slot; published by the functions below */
    size_t slot_index;
    int64_t max_requests;            /* with jitter; 0 = never */
    bool stopping;                   /* accept nothing more; finish and return */
};

/* Blocks the signals that a worker reads from its loop: at the start of the process, so that none can be missed. */
void qn_worker_block_signals(void);

/* The whole life of a worker, from right after the fork (or the start, with --worker). ready_fd: an eventfd that is
 * told when the slot is READY, or -1. Returns the exit code: 0, or 70 when it could not start. */
int qn_worker_run(const struct qn_pool *pool, size_t slot, uint64_t generation, int ready_fd);

/* For engines: the stage changed; everything counted so far is published with it. */
void qn_worker_stage(struct qn_worker *w, enum qn_stage stage);
/* For engines: turns the loop until something happened. False: it can't turn any more, the worker must end. */
QN_MUST bool qn_worker_turn(struct qn_worker *w);

#endif
