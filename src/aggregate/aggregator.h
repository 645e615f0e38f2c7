/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The aggregator: the one writer of candles and of the horizon. A session advisory lock on a direct connection makes a
 * second copy a hot standby; losing the connection is losing the lock. Neither Postgres nor Redis being down ends it.
 */
#ifndef QN_AGGREGATE_AGGREGATOR_H
#define QN_AGGREGATE_AGGREGATOR_H

#include "base/config.h"

struct qn_aggregator_options {
    bool once;             /* end when everything that is dirty now is done, by this process or by the one that runs */
    int timeout_s;         /* … within so many seconds */
};

/* Runs until SIGTERM or SIGINT, or with once until done; returns the exit status: QN_EXIT_OK; QN_EXIT_CONFIG (a Redis
 * that is too old or in cluster mode); of once: QN_EXIT_INTERNAL past the timeout, QN_EXIT_TEMPFAIL when Postgres is
 * gone, or when it was told to end before it was done. */
QN_MUST int qn_aggregator_run(const struct qn_config *config, const struct qn_aggregator_options *options);

#endif
