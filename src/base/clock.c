/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

/* Set once at start, never in production. */
static int64_t wall_offset_ms;

int64_t qn_clock_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t); /* fails only for a clock that does not exist */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + wall_offset_ms;
}

int64_t qn_clock_offset_ms(void)
{
    return wall_offset_ms;
}

int64_t qn_clock_mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t qn_clock_mono_ms(void)
{
    return qn_clock_mono_us() / 1000;
}

enum qn_err qn_clock_init(bool allow_offset)
{
    const char *text = getenv("QUOIN_TEST_CLOCK_OFFSET");
    if (!allow_offset || !text)
        return QN_OK;
    bool negative = text[0] == '-';
    uint64_t seconds;
    if (qn_str_u64(qn_str_of(text + negative), 9999999999, &seconds) != QN_OK)
        return QN_EINVAL;
    wall_offset_ms = (negative ? -1 : 1) * (int64_t)seconds * 1000;
    return QN_OK;
}
