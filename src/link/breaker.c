/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "link/breaker.h"

bool qn_breaker_allows(struct qn_breaker *b, int64_t mono_ms)
{
    if (!b->open)
        return true;
    if (mono_ms < b->probe_at)
        return false;
    b->probe_at = mono_ms + QN_BREAKER_PROBE_MS;
    return true;
}

bool qn_breaker_failed(struct qn_breaker *b, int64_t mono_ms)
{
    /* A failure while open is a probe's or a straggler's: neither may put the next probe off. */
    if (b->open)
        return false;
    b->open = true;
    b->probe_at = mono_ms + QN_BREAKER_PROBE_MS;
    b->opened++;
    return true;
}

bool qn_breaker_worked(struct qn_breaker *b)
{
    bool changed = b->open;
    b->open = false;
    return changed;
}
