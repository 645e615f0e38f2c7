/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * When a worker that ended is started again. Until the first worker was READY the start itself is in doubt: one at a
 * time, 1, 2, 4 … 60 s apart, and after `start_limit` failures it is given up. After that a client that crashes its
 * own request must never shut the pool: ten starts at once, then one a second for ever. Pure: time is handed in.
 */
#ifndef QN_FCGI_RESPAWN_H
#define QN_FCGI_RESPAWN_H

#include "base/base.h"

enum {
    QN_RESPAWN_BURST = 10,
    QN_RESPAWN_INTERVAL_MS = 1000,
    QN_RESPAWN_MAX_DELAY_MS = 60 * 1000,
    QN_RESPAWN_FORK_RETRY_MS = 1000,
};

struct qn_respawn {
    int start_limit;
    bool served;             /* a worker was READY */
    int failures;            /* starts that failed before that */
    int64_t next;            /* token bucket: when the last token handed out is paid back, monotonic ms */
    uint64_t planned;        /* ends that were planned */
    uint64_t crashed;        /* ends that were not */
};

void qn_respawn_init(struct qn_respawn *r, int start_limit);
/* A worker is READY. True the first time. */
bool qn_respawn_ready(struct qn_respawn *r);

/* How a worker ended. */
struct qn_ending {
    bool signalled;
    int code;                /* exit code, or the signal */
    bool ready;              /* it had been READY */
};

enum qn_verdict {
    QN_VERDICT_START,        /* again, at *start_at */
    QN_VERDICT_DOWN,         /* not again: it said that its configuration or usage is wrong */
    QN_VERDICT_CONFIG,       /* the same before any was READY: the master exits 78 */
    QN_VERDICT_GIVE_UP,      /* start_limit starts failed: the master exits 70 */
};

enum qn_verdict qn_respawn_ended(struct qn_respawn *r, const struct qn_ending *e, int64_t now, int64_t *start_at);

#endif
