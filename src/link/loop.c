/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "link/loop.h"

struct event *qn_loop_event(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn fn, void *arg)
{
    struct event *ev = event_new(base, fd, what, fn, arg);
    if (!ev) {
        qn_log_error("out-of-memory");
        exit(QN_EXIT_INTERNAL);
    }
    return ev;
}

bool qn_loop_until(struct event_base *base, const bool *done)
{
    while (!*done) {
        if (event_base_loop(base, EVLOOP_ONCE) != 0)
            return *done;
    }
    return true;
}

static void arm(struct qn_dues *d, int64_t at)
{
    int64_t ms = at - qn_clock_mono_ms();
    if (ms < 0)
        ms = 0;
    struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    evtimer_add(d->timer, &tv);
    d->armed_at = at;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct qn_dues *d = arg;
    d->armed_at = INT64_MAX;
    int64_t now = qn_clock_mono_ms();
    struct qn_due *due;
    while ((due = TAILQ_FIRST(&d->list)) && due->at <= now) {
        qn_dues_unset(d, due);
        d->passed(d->arg, due);
    }
    /* passed may have set one and with it the timer */
    if (due && due->at < d->armed_at)
        arm(d, due->at);
}

void qn_dues_init(struct qn_dues *d, struct event_base *base, void (*passed)(void *arg, struct qn_due *due), void *arg)
{
    TAILQ_INIT(&d->list);
    d->timer = qn_loop_event(base, -1, 0, on_timer, d);
    d->armed_at = INT64_MAX;
    d->passed = passed;
    d->arg = arg;
}

void qn_dues_clear(struct qn_dues *d)
{
    event_free(d->timer);
    d->timer = NULL;
}

void qn_dues_set(struct qn_dues *d, struct qn_due *due, int64_t at)
{
    qn_dues_unset(d, due);
    due->at = at;
    due->set = true;
    struct qn_due *before = TAILQ_LAST(&d->list, qn_dues_list);
    while (before && before->at > at)
        before = TAILQ_PREV(before, qn_dues_list, link);
    if (before)
        TAILQ_INSERT_AFTER(&d->list, before, due, link);
    else
        TAILQ_INSERT_HEAD(&d->list, due, link);
    if (at < d->armed_at)
        arm(d, at);
}

void qn_dues_unset(struct qn_dues *d, struct qn_due *due)
{
    if (!due->set)
        return;
    TAILQ_REMOVE(&d->list, due, link);
    due->set = false;
}
