/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The scoreboard: what every worker does now and has done, in memory that the master and its workers share. A slot has
 * one writer: its worker, or the master while no worker has it. No locks: a sequence number a slot (odd while a write
 * is under way) tells a reader that it saw two writes mixed; a worker killed in the middle of one leaves an odd
 * number, and nobody waits for it.
 */
#ifndef QN_FCGI_SCOREBOARD_H
#define QN_FCGI_SCOREBOARD_H

#include "base/base.h"

enum qn_stage {
    QN_STAGE_NONE,       /* no worker has the slot */
    QN_STAGE_STARTING,
    QN_STAGE_IDLE,
    QN_STAGE_READING,    /* the request from the web server */
    QN_STAGE_AUTH,
    QN_STAGE_LIMIT,
    QN_STAGE_CACHE,      /* waits for Redis */
    QN_STAGE_STORE,      /* waits for Postgres */
    QN_STAGE_WRITING,    /* the response */
    QN_STAGE_FINISHING,
    QN_STAGE_EXITING,    /* drains */
    QN_STAGES
};
/* "idle"; static. */
const char *qn_stage_name(enum qn_stage stage);

/* What is counted, all of it growing only. */
#define QN_COUNTERS(X) \
    X(requests)      /* parsed and answered, or given up by the client while being answered */ \
    X(errors_4xx) \
    X(errors_5xx) \
    X(bytes)         /* of responses, headers included */ \
    X(deadlines)     /* requests that took their whole budget or more */ \
    X(cut)           /* connections closed because the peer was silent or too slow */ \
    X(malformed)     /* connections closed because of what the peer sent */ \
    X(aborted)       /* the peer was gone before it had its answer */ \
    X(refused)       /* TCP peers that are not in allow_peers */ \
    X(no_fd)         /* accepts that failed for want of descriptors or memory */ \
    X(cache_hit) \
    X(cache_stale) \
    X(cache_miss) \
    X(redis_opened)  /* times the breaker of Redis opened */ \
    X(postgres_opened) \
    X(log_dropped)   /* log lines that stderr did not take */

struct qn_counters {
#define QN_COUNTER_FIELD(name) uint64_t name;
    QN_COUNTERS(QN_COUNTER_FIELD)
#undef QN_COUNTER_FIELD
};
/* to += n, field by field. */
void qn_counters_add(struct qn_counters *to, const struct qn_counters *n);

enum { QN_WHAT_MAX = 96 };

/* One slot's contents. Times are monotonic ms. */
struct qn_slot {
    int64_t pid;             /* 0: none */
    uint64_t generation;     /* of workers; grows with each one started */
    uint64_t stage;          /* enum qn_stage */
    int64_t since;           /* of the stage */
    int64_t request_start;
    uint64_t redis_open;     /* breakers, 0 or 1 */
    uint64_t postgres_open;
    struct qn_counters n;
    char what[QN_WHAT_MAX];  /* method and path of the newest request, NUL-terminated: see qn_slot_what */
};

/* Sets slot->what: unprintable bytes, `"` and `\` are escaped as \xHH, the query string is no part of it (it can hold
 * keys), what is too long is cut. */
void qn_slot_what(struct qn_slot *slot, const char *method, struct qn_str path);

struct qn_board;

/* n slots, empty. Made before fork; every process that should see it inherits it. NULL: no memory. */
struct qn_board *qn_board_new(size_t n);
void qn_board_free(struct qn_board *board);
size_t qn_board_slots(const struct qn_board *board);

/* Publishes a slot's contents; only its writer may. */
void qn_board_put(struct qn_board *board, size_t slot, const struct qn_slot *contents);
/* A consistent copy. QN_ECONFLICT: three tries met a write under way (a writer that is stopped or died in one). */
QN_MUST enum qn_err qn_board_get(const struct qn_board *board, size_t slot, struct qn_slot *out);
/* For the master when the slot's worker is dead: what it had counted (*last; after a death within a write each number
 * is either the old or the new one), and the slot is empty. */
void qn_board_reap(struct qn_board *board, size_t slot, struct qn_slot *last);

#endif
