/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "aggregate/rebuild.h"
#include "aggregate/tick.h"
#include "base/clock.h"
#include "base/log.h"

void qn_tick_clear(struct qn_tick *t)
{
    qn_progress_clear(&t->progress);
    qn_dirty_clear(&t->dirty);
    free(t->touched);
}

void qn_tick_reset(struct qn_tick *t)
{
    t->late_open = false;
}

static void touch(struct qn_tick *t, int32_t pair)
{
    if (t->n_touched > 0 && t->touched[t->n_touched - 1] == pair)
        return;
    if (t->n_touched == t->cap_touched) {
        t->cap_touched = t->cap_touched ? 2 * t->cap_touched : 64;
        t->touched = qn_xrealloc(t->touched, t->cap_touched * sizeof *t->touched);
    }
    t->touched[t->n_touched++] = pair;
}

/* Counts the batch's minutes that were closed. Of the late part that is all of them; of the open part none, unless some
 * pair's horizon is behind the others'. */
static enum qn_err count_corrections(struct qn_tick *t, enum qn_dirty_part part)
{
    static const char SQL[] =
        "SELECT u.id, (extract(epoch FROM h.h) * 1000)::int8 FROM unnest($1::int4[]) AS u(id)"
        " CROSS JOIN LATERAL (SELECT horizon(u.id) AS h OFFSET 0) h WHERE isfinite(h.h) ORDER BY u.id";
    const struct qn_dirty *d = &t->dirty;
    if (part == QN_DIRTY_OPEN && t->progress.open_from >= t->progress.was_clock)
        return QN_OK;
    struct qn_rows rows = {0};
    enum qn_err err = QN_OK;
    if (part == QN_DIRTY_OPEN) {
        struct qn_columns pairs = {0};
        for (size_t i = 0; i < d->n; i++)
            if (i == 0 || d->minutes[i].pair != d->minutes[i - 1].pair)
                qn_columns_int(&pairs, 0, d->minutes[i].pair);
        struct qn_str param;
        qn_columns_params(&pairs, 1, &param);
        err = qn_store_run(t->store, SQL, 1, &param, &rows);
        qn_columns_clear(&pairs);
    }
    size_t row = 0;
    for (size_t i = 0; err == QN_OK && i < d->n; i++) {
        int64_t pair = 0, horizon = 0;
        while (part == QN_DIRTY_OPEN && row < rows.nrows) {
            err = qn_store_i64(&rows, row, 0, &pair);
            if (err == QN_OK)
                err = qn_store_i64(&rows, row, 1, &horizon);
            if (err != QN_OK || pair >= d->minutes[i].pair)
                break;
            row++;
        }
        bool known = row < rows.nrows && pair == d->minutes[i].pair;
        if (part == QN_DIRTY_LATE || (known && d->minutes[i].start < horizon)) {
            t->counts.corrections++;
            touch(t, d->minutes[i].pair);
        }
    }
    return err;
}

/* The batch that was read, in one transaction; with the horizon when it is the tick's last. */
static enum qn_err commit_batch(struct qn_tick *t, enum qn_dirty_part part, bool with_horizon)
{
    size_t candles = 0;
    enum qn_err err = qn_store_run(t->store, "BEGIN", 0, NULL, NULL);
    if (err == QN_OK && t->dirty.rows > 0) {
        err = count_corrections(t, part);
        t->counts.rows += (int64_t)t->dirty.rows;
        t->counts.minutes += (int64_t)t->dirty.n;
        if (err == QN_OK)
            err = qn_rebuild(t->store, t->dirty.minutes, t->dirty.n, &candles);
        if (err == QN_OK)
            err = qn_dirty_delete(&t->dirty, t->store);
    }
    if (err == QN_OK && with_horizon)
        err = qn_progress_store(&t->progress, t->store);
    if (err == QN_OK)
        err = qn_store_run(t->store, "COMMIT", 0, NULL, NULL);
    t->counts.candles += (int64_t)candles;
    return err;
}

static void report(const struct qn_tick *t, const char *event, int64_t started)
{
    const struct qn_tick_counts *c = &t->counts;
    int64_t h = t->progress.clock.closed_until;
    struct qn_buf horizon = {0};
    if (h != QN_HORIZON_NEVER)
        qn_when_put_seconds(&horizon, h);
    qn_log_info(event, QN_F_INT("rows", c->rows), QN_F_INT("minutes", c->minutes), QN_F_INT("candles", c->candles),
                QN_F_INT("corrections", c->corrections), QN_F_STR("horizon", qn_buf_view(&horizon)),
                QN_F_INT("ms", qn_clock_mono_ms() - started));
    qn_buf_free(&horizon);
}

enum qn_err qn_tick_run(struct qn_tick *t, int64_t now, bool *moved)
{
    int64_t started = qn_clock_mono_ms();
    int batch = t->config->aggregator.batch;
    memset(&t->counts, 0, sizeof t->counts);
    enum qn_err err = qn_progress_load(&t->progress, t->store, t->config, now);
    if (err == QN_OK)
        err = qn_dirty_open(t->store, QN_DIRTY_OPEN, t->progress.open_from);
    for (bool last = false; err == QN_OK && !last;) {
        err = *t->stop ? QN_ECANCEL : qn_dirty_next(&t->dirty, t->store, QN_DIRTY_OPEN, batch);
        last = t->dirty.rows < (size_t)batch;
        if (err == QN_OK && (t->dirty.rows > 0 || t->progress.changed))
            err = commit_batch(t, QN_DIRTY_OPEN, last);
    }
    if (err == QN_OK)
        err = qn_dirty_close(t->store, QN_DIRTY_OPEN);
    if (err != QN_OK)
        return err;
    *moved = t->progress.moved;
    t->late_from = t->progress.open_from;
    if (t->counts.rows > 0 || t->progress.moved)
        report(t, "tick", started);
    return QN_OK;
}

enum qn_err qn_tick_late(struct qn_tick *t)
{
    int64_t started = qn_clock_mono_ms();
    memset(&t->counts, 0, sizeof t->counts);
    enum qn_err err = QN_OK;
    if (!t->late_open)
        err = qn_dirty_open(t->store, QN_DIRTY_LATE, t->late_from);
    t->late_open = err == QN_OK;
    if (err == QN_OK)
        err = qn_dirty_next(&t->dirty, t->store, QN_DIRTY_LATE, t->config->aggregator.batch);
    if (err == QN_OK && t->dirty.rows == 0) {
        t->late_open = false;
        err = qn_dirty_close(t->store, QN_DIRTY_LATE);
        return err == QN_OK ? QN_MISS : err;
    }
    if (err == QN_OK)
        err = commit_batch(t, QN_DIRTY_LATE, false);
    if (err == QN_OK)
        report(t, "late", started);
    return err;
}
