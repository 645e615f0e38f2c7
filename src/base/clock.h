/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The two clocks: wall time for data, monotonic time for deadlines.
 */
#ifndef QN_BASE_CLOCK_H
#define QN_BASE_CLOCK_H

#include "base/base.h"

/* Milliseconds since the epoch, UTC, plus the test offset. */
int64_t qn_clock_wall_ms(void);
/* What the test offset adds to it, in milliseconds; 0 but in tests. */
int64_t qn_clock_offset_ms(void);
/* Milliseconds of CLOCK_MONOTONIC. */
int64_t qn_clock_mono_ms(void);
/* Microseconds of CLOCK_MONOTONIC. */
int64_t qn_clock_mono_us(void);

/* Shifts the wall clock of this process by QUOIN_TEST_CLOCK_OFFSET (a signed count of seconds), for tests only: call it
 * once at start with what the configuration says (`test.allow_clock_offset`). Not allowed or not set: nothing changes.
 * QN_EINVAL: allowed, but not an integer of at most 10 digits. */
QN_MUST enum qn_err qn_clock_init(bool allow_offset);

#endif
