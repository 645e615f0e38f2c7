/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/report.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"

enum { REDRAW_US = 100 * 1000, SECOND_US = 1000 * 1000, BAR_WIDTH = 30 };

void qn_report_init(struct qn_report *r, const char *name, uint64_t total_bytes, bool bar)
{
    *r = (struct qn_report){
        .name = name, .total_bytes = total_bytes, .bar = bar && isatty(STDERR_FILENO), .start_us = qn_clock_mono_us(),
    };
}

void qn_report_clear(struct qn_report *r)
{
    if (r->bar_drawn)
        fputs("\r\033[K", stderr);
    r->bar_drawn = false;
}

void qn_report_line(struct qn_report *r, uint64_t line, const char *why)
{
    if (r->told > QN_REPORT_MAX_LINES)
        return;
    qn_report_clear(r);
    if (r->told++ < QN_REPORT_MAX_LINES)
        fprintf(stderr, "%s:%" PRIu64 ": %s\n", r->name, line, why);
    else
        fprintf(stderr, "%s: more such lines are only counted\n", r->name);
}

void qn_report_add(struct qn_report *r, const struct qn_batch_counts *counts)
{
    r->counts.stored += counts->stored;
    r->counts.duplicates += counts->duplicates;
    r->counts.refused += counts->refused;
    r->counts.unpriced += counts->unpriced;
    r->counts.mismatches += counts->mismatches;
}

static uint64_t settled(const struct qn_report *r)
{
    return r->counts.stored + r->counts.duplicates + r->counts.refused;
}

static uint64_t per_second(uint64_t count, int64_t us)
{
    return us > 0 ? count * SECOND_US / (uint64_t)us : 0;
}

void qn_report_progress(struct qn_report *r, uint64_t bytes)
{
    if (!r->bar)
        return;
    int64_t now = qn_clock_mono_us();
    if (now - r->drawn_us < REDRAW_US)
        return;
    r->drawn_us = now;
    r->bar_drawn = true;
    int64_t spent = now - r->start_us;
    uint64_t rate = per_second(settled(r), spent);
    if (r->total_bytes == 0) {
        fprintf(stderr, "\r\033[K%" PRIu64 " trades  %" PRIu64 "/s", settled(r), rate);
        return;
    }
    uint64_t done = bytes < r->total_bytes ? bytes : r->total_bytes;
    unsigned percent = (unsigned)(done * 100 / r->total_bytes);
    uint64_t left_s = done ? (uint64_t)spent / SECOND_US * (r->total_bytes - done) / done : 0;
    char bar[BAR_WIDTH + 1];
    size_t filled = done * BAR_WIDTH / r->total_bytes;
    memset(bar, '#', filled);
    memset(bar + filled, '.', BAR_WIDTH - filled);
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r\033[K%3u%% [%s]  %" PRIu64 " trades  %" PRIu64 "/s  ETA %" PRIu64 ":%02" PRIu64, percent, bar,
            settled(r), rate, left_s / 60, left_s % 60);
}

void qn_report_summary(struct qn_report *r, FILE *out, bool json, bool complete)
{
    qn_report_clear(r);
    int64_t us = qn_clock_mono_us() - r->start_us;
    int64_t ms = us / 1000;
    uint64_t rate = per_second(settled(r), us);
    const struct qn_batch_counts *c = &r->counts;
    if (json) {
        fprintf(out,
                "{\"complete\":%s,\"lines\":%" PRIu64 ",\"stored\":%" PRIu64 ",\"duplicates\":%" PRIu64
                ",\"bad\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"unpriced\":%" PRIu64 ",\"price_mismatches\":%" PRIu64
                ",\"seconds\":%" PRId64 ".%03d,\"trades_per_second\":%" PRIu64 "}\n",
                complete ? "true" : "false", r->lines, c->stored, c->duplicates, r->bad, c->refused, c->unpriced,
                c->mismatches, ms / 1000, (int)(ms % 1000), rate);
    } else {
        fprintf(out,
                "%s: %" PRIu64 " lines%s: %" PRIu64 " stored, %" PRIu64 " duplicates, %" PRIu64 " bad, %" PRIu64
                " refused (%" PRIu64 " unpriced, %" PRIu64 " price mismatches), %" PRId64 ".%03d s, %" PRIu64
                " trades/s\n",
                r->name, r->lines, complete ? "" : " (not all)", c->stored, c->duplicates, r->bad, c->refused,
                c->unpriced, c->mismatches, ms / 1000, (int)(ms % 1000), rate);
    }
    fflush(out);
}
