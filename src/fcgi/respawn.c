/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "fcgi/respawn.h"

void qn_respawn_init(struct qn_respawn *r, int start_limit)
{
    *r = (struct qn_respawn){.start_limit = start_limit};
}

bool qn_respawn_ready(struct qn_respawn *r)
{
    bool first = !r->served;
    r->served = true;
    r->failures = 0;
    return first;
}

/* 1, 2, 4 … 60 s after the 1st, 2nd, 3rd … failure in a row. */
static int64_t start_delay(int failures)
{
    int64_t ms = 1000;
    for (int i = 1; i < failures && ms < QN_RESPAWN_MAX_DELAY_MS; i++)
        ms *= 2;
    return ms < QN_RESPAWN_MAX_DELAY_MS ? ms : QN_RESPAWN_MAX_DELAY_MS;
}

/* Takes a token and says when it may be used. A token comes back every interval; a full bucket holds BURST of them. */
static int64_t take_token(struct qn_respawn *r, int64_t now)
{
    int64_t credit = (int64_t)(QN_RESPAWN_BURST - 1) * QN_RESPAWN_INTERVAL_MS;
    int64_t base = r->next > now ? r->next : now;
    r->next = base + QN_RESPAWN_INTERVAL_MS;
    return base - credit > now ? base - credit : now;
}

enum qn_verdict qn_respawn_ended(struct qn_respawn *r, const struct qn_ending *e, int64_t now, int64_t *start_at)
{
    bool refused = !e->signalled && (e->code == QN_EXIT_USAGE || e->code == QN_EXIT_CONFIG);
    /* exit 0 of one that never was READY is no plan of ours: replaced at once it would spin */
    bool planned = !e->signalled && e->code == QN_EXIT_OK && e->ready;
    if (planned)
        r->planned++;
    else
        r->crashed++;

    if (refused)
        return r->served ? QN_VERDICT_DOWN : QN_VERDICT_CONFIG;
    if (planned) {
        *start_at = now;
        return QN_VERDICT_START;
    }
    if (!r->served) {
        if (++r->failures >= r->start_limit)
            return QN_VERDICT_GIVE_UP;
        *start_at = now + start_delay(r->failures);
        return QN_VERDICT_START;
    }
    *start_at = take_token(r, now);
    return QN_VERDICT_START;
}
