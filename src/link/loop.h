/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What the links share of the libevent loop: events, deadlines, and turning it until something is done.
 */
#ifndef QN_LINK_LOOP_H
#define QN_LINK_LOOP_H

#include <event2/event.h>
#include <sys/queue.h>

#include "base/base.h"

/* event_new that never returns NULL: out of memory logs once and exits 70. Owner: the caller (event_free). */
struct event *qn_loop_event(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn fn, void *arg);

/* Turns the loop until *done. False: the loop can't turn (it is being turned already, or has nothing to wait for). */
QN_MUST bool qn_loop_until(struct event_base *base, const bool *done);

/* One deadline; lives inside what it belongs to. */
struct qn_due {
    TAILQ_ENTRY(qn_due) link;
    int64_t at;            /* monotonic ms */
    bool set;
};

/* Deadlines in the order they pass, with one timer for all. The timer is only ever moved forward: a deadline that is
 * unset in time (nearly all are) costs no system call and no heap operation; the timer then fires once for nothing. */
struct qn_dues {
    TAILQ_HEAD(qn_dues_list, qn_due) list;
    struct event *timer;
    int64_t armed_at;      /* INT64_MAX: not armed */
    void (*passed)(void *arg, struct qn_due *due);
    void *arg;
};

/* passed is called from the loop for each deadline that passed; it is unset then. */
void qn_dues_init(struct qn_dues *d, struct event_base *base, void (*passed)(void *arg, struct qn_due *due), void *arg);
/* All deadlines must be unset. */
void qn_dues_clear(struct qn_dues *d);
/* Sets or moves a deadline. Cheap when it is later than most. */
void qn_dues_set(struct qn_dues *d, struct qn_due *due, int64_t at);
/* No-op if it isn't set. */
void qn_dues_unset(struct qn_dues *d, struct qn_due *due);

#endif
