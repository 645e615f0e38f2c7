/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "aggregate/horizon.h"
#include "base/when.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t qn_horizon_floor(int64_t ms)
{
    return ms == QN_HORIZON_NEVER ? ms : qn_grain_start(QN_1M, ms);
}

/* How far a source could be closed by what it has read. */
static int64_t reach(const struct qn_horizon_clock *clock, const struct qn_horizon_source *source)
{
    return qn_horizon_floor(least(source->watermark, clock->now - clock->grace));
}

void qn_horizon_decide(struct qn_horizon_clock *clock, struct qn_horizon_source *sources, size_t n)
{
    clock->closed_until = most(clock->closed_until, qn_horizon_floor(clock->now - clock->grace));
    for (size_t i = 0; i < n; i++) {
        struct qn_horizon_source *s = &sources[i];
        s->alive = s->seen_at != QN_HORIZON_NEVER && clock->now - s->seen_at <= clock->timeout;
        s->closed_until = most(s->closed_until, s->alive ? reach(clock, s) : clock->closed_until);
    }
}

bool qn_horizon_joins(const struct qn_horizon_clock *clock, const struct qn_horizon_pair *pair,
                      const struct qn_horizon_source *source)
{
    return pair->fresh || (source->alive && reach(clock, source) >= pair->horizon);
}

void qn_horizon_hold(const struct qn_horizon_clock *clock, struct qn_horizon_pair *pair,
                     const struct qn_horizon_source *const *follows, size_t n)
{
    int64_t was = pair->fresh ? QN_HORIZON_NEVER : pair->horizon;
    int64_t read = INT64_MAX, read_alive = INT64_MAX;
    bool caught_up = true, any_alive = false;
    for (size_t i = 0; i < n; i++) {
        int64_t r = reach(clock, follows[i]);
        read = least(read, r);
        if (follows[i]->alive) {
            any_alive = true;
            read_alive = least(read_alive, r);
            caught_up = caught_up && r >= follows[i]->closed_until;
        }
    }
    if (n > 0 && !any_alive) {
        /* Where it was; or, when nobody looked while the last of them was alive, as far as all of them had read. */
        pair->held = true;
        pair->held_until = most(was, read);
    } else if (pair->held || pair->fresh) {
        int64_t until = pair->held ? pair->held_until : QN_HORIZON_NEVER;
        pair->held = n > 0 && !caught_up;
        pair->held_until = most(until, read_alive);
    }
}

int64_t qn_horizon_of(const struct qn_horizon_clock *clock, const struct qn_horizon_pair *pair,
                      const struct qn_horizon_source *const *follows, size_t n)
{
    int64_t h = pair->held ? least(clock->closed_until, pair->held_until) : clock->closed_until;
    for (size_t i = 0; i < n; i++)
        h = least(h, follows[i]->closed_until);
    return h;
}
