/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Where lines come from: a file, a pipe, standard input. Waiting for more turns the loop, so that the lanes work on.
 */
#ifndef QN_INGEST_INPUT_H
#define QN_INGEST_INPUT_H

#include <event2/event.h>

#include "ingest/lines.h"

struct qn_input;

/* Opens a path, or standard input for "-". QN_EIO: errno says why. */
QN_MUST enum qn_err qn_input_open(struct event_base *base, const char *path, size_t max_line, struct qn_input **out);
void qn_input_close(struct qn_input *in);
struct qn_lines *qn_input_lines(struct qn_input *in);
/* Bytes of a regular file, 0 of anything else. */
uint64_t qn_input_size(const struct qn_input *in);

/* Gets more bytes for the lines, when they have none. QN_OK: some came. QN_MISS: the end; a regular file may grow yet.
 * QN_ETIMEOUT: none within wait_ms (-1: no limit), or the loop did something else. QN_EIO: errno says why.
 * QN_ECONFLICT: the file is shorter than what was read of it. */
QN_MUST enum qn_err qn_input_more(struct qn_input *in, int64_t wait_ms);
/* After QN_MISS of a file that may grow: turns the loop for a moment. */
void qn_input_pause(struct qn_input *in, int64_t wait_ms);
/* Whether the end that QN_MISS told of is final: not for a regular file. */
bool qn_input_ends(const struct qn_input *in);
/* Reads the file from its start again. */
QN_MUST enum qn_err qn_input_rewind(struct qn_input *in);

#endif
