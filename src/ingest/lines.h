/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Lines out of a file descriptor, in bounded memory: a line that is too long is skipped to its end, however long it is.
 */
#ifndef QN_INGEST_LINES_H
#define QN_INGEST_LINES_H

#include "base/base.h"

struct qn_lines;

/* max_line: the longest line, without its newline, that is handed out. The descriptor stays the caller's. */
struct qn_lines *qn_lines_new(int fd, size_t max_line);
void qn_lines_free(struct qn_lines *l);

/* Reads once, as much as there is room for. Call it when qn_lines_next said MORE and the descriptor is readable. QN_OK:
 * something came; QN_MISS: the end of the file, for now; QN_EIO: errno says why (EAGAIN and EINTR are QN_ETIMEOUT). */
QN_MUST enum qn_err qn_lines_fill(struct qn_lines *l);

enum qn_lines_got {
    QN_LINES_LINE,     /* *line is one, without newline and without the CR before it; valid until the next call */
    QN_LINES_TOO_LONG, /* there was one of more than max_line bytes; it is skipped */
    QN_LINES_MORE,     /* no whole line left: fill */
};
enum qn_lines_got qn_lines_next(struct qn_lines *l, struct qn_str *line);
/* The last line when the input has ended without a newline: LINE, TOO_LONG, or MORE when there is none. */
enum qn_lines_got qn_lines_last(struct qn_lines *l, struct qn_str *line);
/* Starts anew at the descriptor's present place: the input was truncated. */
void qn_lines_reset(struct qn_lines *l);

/* The number of the line handed out last, from 1; bytes read so far. */
uint64_t qn_lines_number(const struct qn_lines *l);
uint64_t qn_lines_bytes(const struct qn_lines *l);

#endif
