/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Circuit breaker: after a failure, requests skip the link at once and one probe a second tries again, so that an
 * outage costs the first requests their deadline and the rest nothing (design, section 3). Pure: time is handed in.
 */
#ifndef QN_LINK_BREAKER_H
#define QN_LINK_BREAKER_H

#include "base/base.h"

enum { QN_BREAKER_PROBE_MS = 1000 };

struct qn_breaker {
    bool open;
    int64_t probe_at;      /* monotonic ms of the next probe while open */
    uint64_t opened;       /* times it opened */
};

/* Whether a call may be tried now; while open, true once a second (that call is the probe). */
bool qn_breaker_allows(struct qn_breaker *b, int64_t mono_ms);
/* Reports. Returns true when the state changed (to log it once). */
bool qn_breaker_failed(struct qn_breaker *b, int64_t mono_ms);
bool qn_breaker_worked(struct qn_breaker *b);

#endif
