/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "fcgi/drive.h"

static void on_replies(void *arg, enum qn_err err, const struct qn_val *replies, size_t n);
static void on_rows(void *arg, const struct qn_pgresult *result);

static void set_stage(const struct qn_drive *d, enum qn_stage stage)
{
    if (d->stage)
        d->stage(d->arg, stage);
}

/* Goes on until something is asked and its answer has to be waited for, or the turn is done. */
static void step(struct qn_drive *d, enum qn_want want)
{
    struct qn_turn *turn = d->turn;
    for (;;) {
        enum qn_err err;
        switch (want) {
        case QN_WANT_REDIS:
            set_stage(d, QN_STAGE_CACHE);
            err = qn_redis_send(d->links->redis, turn->cmds, turn->n_cmds, d->deadline, on_replies, d,
                                &d->redis_call);
            if (err == QN_OK)
                return;
            want = qn_turn_replies(turn, err, NULL, 0);
            break;
        case QN_WANT_ROWS:
            set_stage(d, QN_STAGE_STORE);
            err = qn_pgpool_query(d->links->postgres, &turn->query, d->deadline, on_rows, d, &d->postgres_call);
            if (err == QN_OK)
                return;
            want = qn_turn_rows(turn, err, NULL);
            break;
        case QN_WANT_DONE:
            d->done(d->arg);
            return;
        }
    }
}

static void on_replies(void *arg, enum qn_err err, const struct qn_val *replies, size_t n)
{
    struct qn_drive *d = arg;
    d->redis_call = NULL;
    step(d, qn_turn_replies(d->turn, err, replies, n));
}

static void on_rows(void *arg, const struct qn_pgresult *result)
{
    struct qn_drive *d = arg;
    d->postgres_call = NULL;
    step(d, qn_turn_rows(d->turn, result->err, result->err == QN_OK ? &result->rows : NULL));
}

void qn_drive_start(struct qn_drive *d)
{
    step(d, qn_turn_begin(d->turn));
}

void qn_drive_after(const struct qn_drive *d)
{
    if (d->turn->n_after > 0)
        qn_redis_post(d->links->redis, d->turn->after, d->turn->n_after);
}

void qn_drive_abandon(struct qn_drive *d)
{
    if (d->redis_call)
        qn_redis_abandon(d->redis_call);
    if (d->postgres_call)
        qn_pgpool_abandon(d->postgres_call);
    d->redis_call = NULL;
    d->postgres_call = NULL;
}
