/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What an import says: a line a bad record, a progress bar on a terminal, the summary.
 */
#ifndef QN_INGEST_REPORT_H
#define QN_INGEST_REPORT_H

#include <stdio.h>

#include "ingest/batch.h"

enum { QN_REPORT_MAX_LINES = 100 };

/* lines counts what wasn't blank: trades, watermarks and bad ones. */
struct qn_report {
    const char *name;        /* of the input, as given */
    uint64_t total_bytes;    /* of the input; 0: not known */
    bool bar;                /* draw one on stderr */
    bool bar_drawn;
    int64_t start_us, drawn_us;
    uint64_t told;           /* lines reported one by one */
    uint64_t lines, bad, watermarks;
    struct qn_batch_counts counts;
};

/* bar: whether a progress bar is wanted; it is drawn only where stderr is a terminal. name is borrowed. */
void qn_report_init(struct qn_report *r, const char *name, uint64_t total_bytes, bool bar);
/* "NAME:LINE: why" to stderr for the first hundred, after that only a remark once. Counts nothing. */
void qn_report_line(struct qn_report *r, uint64_t line, const char *why);
void qn_report_add(struct qn_report *r, const struct qn_batch_counts *counts);
/* Redraws the bar at most ten times a second. */
void qn_report_progress(struct qn_report *r, uint64_t bytes);
/* Takes the bar away, so that something else can be written. */
void qn_report_clear(struct qn_report *r);

/* The summary: text, or one JSON object on a line. complete: the whole input was read and stored. */
void qn_report_summary(struct qn_report *r, FILE *out, bool json, bool complete);

#endif
