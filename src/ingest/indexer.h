/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * From an input of NDJSON to trades in Postgres (contract-prices, section 8): reads, checks, gives each line to one of
 * several lanes by its identity, so that one identity always meets one connection, in the order of its lines. Bounded
 * memory, one thread.
 *
 * A followed input (follow) is one lane: the watermark that is committed with a batch then covers all that was read
 * before it.
 */
#ifndef QN_INGEST_INDEXER_H
#define QN_INGEST_INDEXER_H

#include "base/config.h"

struct qn_indexer_options {
    const char *path;      /* "-": standard input */
    bool follow;
    bool quiet;            /* no progress bar, no summary; bad lines are still told */
    bool json;             /* the summary as JSON */
};

/* Imports, reports, and returns the exit status: 0 all lines good, 65 some bad or refused, 66 the input can't be
 * opened, 70 the store refuses what it is asked, 75 the store is gone or a signal came: run it again. */
int qn_indexer_run(const struct qn_config *config, const struct qn_indexer_options *options);

#endif
