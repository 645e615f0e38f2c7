/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ_SIZE = 256 * 1024 };

struct qn_lines {
    int fd;
    size_t max_line;
    char *data;
    size_t cap;        /* max_line + READ_SIZE: what is left of a line, and a whole read */
    size_t at, end;    /* data[at, end) is not handed out yet */
    size_t seen;       /* bytes after at that hold no newline */
    bool skipping;     /* in a line that is too long */
    bool started;      /* the first bytes were looked at for a byte order mark */
    uint64_t number;
    uint64_t bytes;
};

struct qn_lines *qn_lines_new(int fd, size_t max_line)
{
    struct qn_lines *l = qn_xcalloc(1, sizeof *l);
    l->fd = fd;
    l->max_line = max_line;
    l->cap = max_line + READ_SIZE;
    l->data = qn_xmalloc(l->cap);
    return l;
}

void qn_lines_free(struct qn_lines *l)
{
    if (!l)
        return;
    free(l->data);
    free(l);
}

void qn_lines_reset(struct qn_lines *l)
{
    l->at = l->end = l->seen = 0;
    l->skipping = l->started = false;
    l->number = l->bytes = 0;
}

uint64_t qn_lines_number(const struct qn_lines *l)
{
    return l->number;
}

uint64_t qn_lines_bytes(const struct qn_lines *l)
{
    return l->bytes;
}

enum qn_err qn_lines_fill(struct qn_lines *l)
{
    if (l->at > 0) {
        memmove(l->data, l->data + l->at, l->end - l->at);
        l->end -= l->at;
        l->at = 0;
    }
    ssize_t n = read(l->fd, l->data + l->end, l->cap - l->end);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? QN_ETIMEOUT : QN_EIO;
    if (n == 0)
        return QN_MISS;
    l->end += (size_t)n;
    l->bytes += (uint64_t)n;
    return QN_OK;
}

/* Skips a UTF-8 byte order mark at the start; false: too few bytes to tell. */
static bool skip_mark(struct qn_lines *l, bool ended)
{
    static const char mark[3] = "\xef\xbb\xbf";
    size_t n = l->end - l->at < sizeof mark ? l->end - l->at : sizeof mark;
    bool same = memcmp(l->data + l->at, mark, n) == 0;
    if (same && n < sizeof mark && !ended)
        return false;
    if (same && n == sizeof mark)
        l->at += sizeof mark;
    l->started = true;
    return true;
}

static enum qn_lines_got hand_out(struct qn_lines *l, size_t n, size_t newline, struct qn_str *line)
{
    char *start = l->data + l->at;
    l->at += n + newline;
    l->seen = 0;
    l->number++;
    bool skipped = l->skipping;
    l->skipping = false;
    if (n > 0 && start[n - 1] == '\r')
        n--;
    if (skipped || n > l->max_line)
        return QN_LINES_TOO_LONG;
    *line = (struct qn_str){start, n};
    return QN_LINES_LINE;
}

enum qn_lines_got qn_lines_next(struct qn_lines *l, struct qn_str *line)
{
    if (!l->started && !skip_mark(l, false))
        return QN_LINES_MORE;
    const char *start = l->data + l->at;
    size_t n = l->end - l->at;
    const char *newline = n > l->seen ? memchr(start + l->seen, '\n', n - l->seen) : NULL;
    if (newline)
        return hand_out(l, (size_t)(newline - start), 1, line);
    l->seen = n;
    if (n > l->max_line + 1) { /* one more: it may be the CR */
        l->skipping = true;
        l->at = l->end;
        l->seen = 0;
    }
    return QN_LINES_MORE;
}

enum qn_lines_got qn_lines_last(struct qn_lines *l, struct qn_str *line)
{
    if (!l->started)
        (void)skip_mark(l, true);
    if (l->at == l->end && !l->skipping)
        return QN_LINES_MORE;
    return hand_out(l, l->end - l->at, 0, line);
}
