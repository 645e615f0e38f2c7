/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "fcgi/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* One slot as it was read. */
struct seen {
    struct qn_slot slot;
    bool busy;              /* no consistent copy to be had: its writer is stopped or died within a write */
};

struct sums {
    struct qn_counters total;
    size_t stages[QN_STAGES];
    size_t busy;
    size_t redis_open;
    size_t postgres_open;
};

static void see(const struct qn_status *s, size_t i, struct seen *out)
{
    out->slot = (struct qn_slot){0};
    out->busy = qn_board_get(s->board, i, &out->slot) != QN_OK;
}

static void sum_up(const struct qn_status *s, struct sums *out)
{
    *out = (struct sums){.total = *s->retired};
    for (size_t i = 0; i < qn_board_slots(s->board); i++) {
        struct seen seen;
        see(s, i, &seen);
        if (seen.busy) {
            out->busy++;
            continue;
        }
        qn_counters_add(&out->total, &seen.slot.n);
        out->stages[seen.slot.stage < QN_STAGES ? seen.slot.stage : QN_STAGE_NONE]++;
        out->redis_open += seen.slot.redis_open;
        out->postgres_open += seen.slot.postgres_open;
    }
}

static size_t active(const struct sums *sums)
{
    size_t n = 0;
    for (size_t i = QN_STAGE_READING; i <= QN_STAGE_FINISHING; i++)
        n += sums->stages[i];
    return n;
}

/* Resident memory in KiB, or -1. */
static int64_t rss_kb(int64_t pid)
{
    char path[48];
    long size;
    long resident;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/statm", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    int n = fscanf(f, "%ld %ld", &size, &resident);
    fclose(f);
    return n == 2 ? (int64_t)resident * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}

static bool serving(const struct qn_slot *slot)
{
    return slot->stage >= QN_STAGE_READING && slot->stage <= QN_STAGE_FINISHING;
}

static void json_counters(struct qn_buf *out, const char *name, const struct qn_counters *n)
{
    const char *comma = "";
    qn_buf_printf(out, ",\"%s\":{", name);
#define PUT(field) \
    qn_buf_printf(out, "%s\"" #field "\":%" PRIu64, comma, n->field); \
    comma = ",";
    QN_COUNTERS(PUT)
#undef PUT
    (void)comma;
    qn_buf_char(out, '}');
}

static void json_slot(const struct qn_status *s, size_t i, struct qn_buf *out)
{
    struct seen seen;
    const struct qn_slot *slot = &seen.slot;
    see(s, i, &seen);
    qn_buf_printf(out, "%s{\"slot\":%zu", i ? "," : "", i);
    if (seen.busy) {
        qn_buf_puts(out, ",\"stage\":\"busy\"}");
        return;
    }
    qn_buf_printf(out, ",\"stage\":\"%s\"", qn_stage_name((enum qn_stage)slot->stage));
    if (slot->stage == QN_STAGE_NONE) {
        qn_buf_char(out, '}');
        return;
    }
    qn_buf_printf(out, ",\"stage_ms\":%" PRId64 ",\"pid\":%" PRId64 ",\"generation\":%" PRIu64, s->now - slot->since,
                  slot->pid, slot->generation);
    if (serving(slot))
        qn_buf_printf(out, ",\"request_ms\":%" PRId64, s->now - slot->request_start);
    qn_buf_printf(out, ",\"redis\":\"%s\",\"postgres\":\"%s\",\"rss_kb\":%" PRId64 ",\"request\":",
                  slot->redis_open ? "open" : "closed", slot->postgres_open ? "open" : "closed", rss_kb(slot->pid));
    qn_buf_json(out, qn_str_of(slot->what));
    json_counters(out, "counters", &slot->n);
    qn_buf_char(out, '}');
}

static void put_json(const struct qn_status *s, const struct sums *sums, struct qn_buf *out)
{
    size_t n = qn_board_slots(s->board);
    qn_buf_printf(out, "{\"pool\":\"%s\",\"mode\":\"master\",\"state\":\"%s\",\"version\":\"%s\",\"pid\":%" PRId64
                       ",\"uptime_ms\":%" PRId64,
                  s->pool, s->state, PACKAGE_VERSION, s->pid, s->now - s->started);
    qn_buf_printf(out, ",\"workers\":{\"configured\":%zu,\"starting\":%zu,\"idle\":%zu,\"active\":%zu,\"exiting\":%zu"
                       ",\"none\":%zu,\"busy\":%zu}",
                  n, sums->stages[QN_STAGE_STARTING], sums->stages[QN_STAGE_IDLE], active(sums),
                  sums->stages[QN_STAGE_EXITING], sums->stages[QN_STAGE_NONE], sums->busy);
    qn_buf_printf(out, ",\"starts\":%" PRIu64 ",\"planned_ends\":%" PRIu64 ",\"crashes\":%" PRIu64
                       ",\"terminated\":%" PRIu64,
                  s->starts, s->respawn->planned, s->respawn->crashed, s->terminated);
    /* the kernel tells the depth of a TCP socket's queue only; a false 0 would mislead */
    qn_buf_printf(out, ",\"breakers\":{\"redis_open\":%zu,\"postgres_open\":%zu},\"listen_queue\":null",
                  sums->redis_open, sums->postgres_open);
    json_counters(out, "total", &sums->total);
    json_counters(out, "retired", s->retired);
    qn_buf_puts(out, ",\"slots\":[");
    for (size_t i = 0; i < n; i++)
        json_slot(s, i, out);
    qn_buf_puts(out, "]}\n");
}

static void text_slot(const struct qn_status *s, size_t i, struct qn_buf *out)
{
    struct seen seen;
    const struct qn_slot *slot = &seen.slot;
    see(s, i, &seen);
    if (seen.busy || slot->stage == QN_STAGE_NONE) {
        qn_buf_printf(out, "%4zu %8s %-9s\n", i, "-", seen.busy ? "busy" : "none");
        return;
    }
    qn_buf_printf(out, "%4zu %8" PRId64 " %-9s %9" PRId64 " %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRId64
                       " %-6s %-8s %s\n",
                  i, slot->pid, qn_stage_name((enum qn_stage)slot->stage), s->now - slot->since, slot->n.requests,
                  slot->n.errors_4xx, slot->n.errors_5xx, rss_kb(slot->pid), slot->redis_open ? "open" : "closed",
                  slot->postgres_open ? "open" : "closed", slot->what);
}

static void put_text(const struct qn_status *s, const struct sums *sums, struct qn_buf *out)
{
    size_t n = qn_board_slots(s->board);
    qn_buf_printf(out, "pool %s: %s, master %" PRId64 ", up %" PRId64 " s, quoin %s\n", s->pool, s->state, s->pid,
                  (s->now - s->started) / 1000, PACKAGE_VERSION);
    qn_buf_printf(out, "workers: %zu configured, %zu starting, %zu idle, %zu active, %zu exiting, %zu none, %zu busy\n",
                  n, sums->stages[QN_STAGE_STARTING], sums->stages[QN_STAGE_IDLE], active(sums),
                  sums->stages[QN_STAGE_EXITING], sums->stages[QN_STAGE_NONE], sums->busy);
    qn_buf_printf(out, "since the start: %" PRIu64 " starts, %" PRIu64 " planned ends, %" PRIu64 " crashes, %" PRIu64
                       " terminated\n",
                  s->starts, s->respawn->planned, s->respawn->crashed, s->terminated);
    qn_buf_printf(out, "breakers open: redis in %zu, postgres in %zu workers\nlisten queue: n/a\n", sums->redis_open,
                  sums->postgres_open);
    qn_buf_printf(out, "\n%-16s %14s %14s\n", "", "total", "retired");
#define PUT(field) \
    qn_buf_printf(out, "%-16s %14" PRIu64 " %14" PRIu64 "\n", #field, sums->total.field, s->retired->field);
    QN_COUNTERS(PUT)
#undef PUT
    qn_buf_printf(out, "\n%4s %8s %-9s %9s %10s %8s %8s %8s %-6s %-8s %s\n", "slot", "pid", "stage", "for ms",
                  "requests", "4xx", "5xx", "rss KiB", "redis", "postgres", "request");
    for (size_t i = 0; i < n; i++)
        text_slot(s, i, out);
}

void qn_status_put(const struct qn_status *s, bool json, struct qn_buf *out)
{
    struct sums sums;
    sum_up(s, &sums);
    if (json)
        put_json(s, &sums, out);
    else
        put_text(s, &sums, out);
}
