/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The status of a pool as text or JSON, read from the scoreboard: what `quoin status` prints.
 */
#ifndef QN_FCGI_STATUS_H
#define QN_FCGI_STATUS_H

#include "base/buf.h"
#include "fcgi/respawn.h"
#include "fcgi/scoreboard.h"

struct qn_status {
    const char *pool;                      /* "prices" */
    const char *state;                     /* "running", "draining", "stopping" */
    int64_t pid;
    int64_t now;                           /* monotonic ms */
    int64_t started;
    uint64_t starts;                       /* workers started */
    uint64_t terminated;                   /* workers that the master killed for a stage past its limit */
    const struct qn_board *board;
    const struct qn_counters *retired;     /* of workers that are gone */
    const struct qn_respawn *respawn;
};

void qn_status_put(const struct qn_status *s, bool json, struct qn_buf *out);

#endif
