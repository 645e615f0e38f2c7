/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/when.h"

/* A write of at most PIPE_BUF bytes to a pipe goes whole or not at all. */
enum { LINE_MAX_BYTES = PIPE_BUF };

/* What follows the last field; no field may take its room. */
#define TAIL_JSON ",\"truncated\":true}\n"
#define TAIL_TEXT " truncated=true\n"
enum { TAIL_MAX = sizeof TAIL_JSON };

/* The log sink: the one global besides signal flags. */
static struct {
    const char *program;
    enum qn_log_level least;
    bool terminal;
    bool socket;
    int own_fd; /* our own non-blocking description of stderr's pipe or terminal, or -1 */
    atomic_uint_fast64_t dropped;
} sink = {.program = "quoin", .least = QN_LOG_INFO, .own_fd = -1};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void qn_log_init(const char *program, enum qn_log_level least)
{
    sink.program = program;
    sink.least = least;
    sink.terminal = isatty(STDERR_FILENO);
    if (sink.own_fd >= 0)
        close(sink.own_fd);
    sink.own_fd = -1;
    struct stat st;
    bool known = fstat(STDERR_FILENO, &st) == 0;
    sink.socket = known && S_ISSOCK(st.st_mode);
    /* O_NONBLOCK belongs to the open file description, and stderr's is shared with whoever started us: opening the pipe
     * or terminal anew gives one of our own. Where that is not allowed (it is another user's) poll(2) must do, which
     * leaves a gap: room may be gone again, or too little. */
    if (known && (S_ISFIFO(st.st_mode) || sink.terminal))
        sink.own_fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

enum qn_err qn_log_level_parse(struct qn_str name, enum qn_log_level *out)
{
    for (size_t i = 0; i < QN_LEN(level_names); i++)
        if (qn_str_eq(name, qn_str_of(level_names[i]))) {
            *out = (enum qn_log_level)i;
            return QN_OK;
        }
    return QN_EINVAL;
}

uint64_t qn_log_dropped(void)
{
    return atomic_load(&sink.dropped);
}

/* No heap: the line that says "out of memory" is made here too. */
struct line {
    char bytes[LINE_MAX_BYTES];
    size_t n;
    bool truncated;
};

static size_t room(const struct line *l)
{
    return sizeof l->bytes - TAIL_MAX - l->n;
}

static bool put(struct line *l, struct qn_str s)
{
    if (s.n > room(l)) {
        l->truncated = true;
        return false;
    }
    memcpy(l->bytes + l->n, s.p, s.n);
    l->n += s.n;
    return true;
}

static bool putz(struct line *l, const char *z)
{
    return put(l, qn_str_of(z));
}

/* DEL and the C1 controls (U+0080-U+009F) are legal in JSON and commands to a terminal. */
static bool is_terminal_control(struct qn_str s)
{
    return s.p[0] == 0x7f || (s.n > 1 && (unsigned char)s.p[0] == 0xc2 && (unsigned char)s.p[1] < 0xa0 &&
                              (unsigned char)s.p[1] >= 0x80);
}

/* In quotes, escaped; cut where the line is full, its closing quote is always there. */
static void put_quoted(struct line *l, struct qn_str s)
{
    if (room(l) < 2) {
        l->truncated = true;
        return;
    }
    l->bytes[l->n++] = '"';
    while (s.n > 0) {
        char out[8];
        size_t n, used;
        if (is_terminal_control(s)) {
            used = s.p[0] == 0x7f ? 1 : 2;
            n = (size_t)snprintf(out, sizeof out, "\\u%04x", used == 1 ? 0x7fu : (unsigned)(unsigned char)s.p[1]);
        } else {
            used = qn_buf_json_step(out, &n, s);
        }
        if (n + 1 > room(l)) {
            l->truncated = true;
            break;
        }
        memcpy(l->bytes + l->n, out, n);
        l->n += n;
        s.p += used;
        s.n -= used;
    }
    l->bytes[l->n++] = '"';
}

static bool needs_quotes(struct qn_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7f || s.p[i] == '"' || s.p[i] == '\\' || s.p[i] == '=')
            return true; /* where char is signed, bytes above 0x7f are <= ' ' */
    return s.n == 0;
}

static void put_field(struct line *l, const struct qn_log_field *f)
{
    char number[24], text[128];
    struct qn_str value = f->str;
    if (f->kind == QN_LOG_F_INT)
        value = (struct qn_str){number, (size_t)snprintf(number, sizeof number, "%lld", (long long)f->num)};
    else if (f->kind == QN_LOG_F_ERRNO)
        value = qn_str_of(strerror_r((int)f->num, text, sizeof text));
    else if (!value.p)
        value = QN_STR("");
    size_t before = l->n;
    bool named = sink.terminal ? putz(l, " ") && putz(l, f->name) && putz(l, "=")
                               : putz(l, ",\"") && putz(l, f->name) && putz(l, "\":");
    if (!named || room(l) < 2) {
        l->n = before; /* a name without a value would not be JSON */
        l->truncated = true;
    } else if (f->kind != QN_LOG_F_INT && (!sink.terminal || needs_quotes(value))) {
        put_quoted(l, value);
    } else if (!put(l, value)) {
        l->n = before;
    }
}

static void drop(void)
{
    atomic_fetch_add(&sink.dropped, 1);
}

/* One system call a line, and none that can wait. */
static void send_line(const struct line *l)
{
    ssize_t sent;
    if (sink.socket) {
        sent = send(STDERR_FILENO, l->bytes, l->n, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else if (sink.own_fd >= 0) {
        sent = write(sink.own_fd, l->bytes, l->n);
    } else {
        struct pollfd p = {STDERR_FILENO, POLLOUT, 0};
        if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT) || (p.revents & (POLLERR | POLLNVAL))) {
            drop();
            return;
        }
        sent = write(STDERR_FILENO, l->bytes, l->n);
    }
    if (sent != (ssize_t)l->n)
        drop();
}

void qn_log(enum qn_log_level level, const char *event, const struct qn_log_field *fields)
{
    if (level < sink.least)
        return;
    int saved_errno = errno; /* logging must not change what the caller looks at next */
    struct line l;
    l.n = 0;
    l.truncated = false;
    char ts[QN_WHEN_MAX], head[128];
    qn_when_text(ts, qn_clock_wall_ms());
    if (sink.terminal) {
        snprintf(head, sizeof head, "%s %s %.32s[%ld] ", ts, level_names[level], sink.program, (long)getpid());
        putz(&l, head);
        putz(&l, event);
    } else {
        snprintf(head, sizeof head, "{\"ts\":\"%s\",\"level\":\"%s\",\"program\":", ts, level_names[level]);
        putz(&l, head);
        put_quoted(&l, qn_str_of(sink.program));
        snprintf(head, sizeof head, ",\"pid\":%ld,\"event\":", (long)getpid());
        putz(&l, head);
        put_quoted(&l, qn_str_of(event));
    }
    for (const struct qn_log_field *f = fields; f->kind != QN_LOG_F_END; f++)
        put_field(&l, f);
    struct qn_str tail = sink.terminal ? l.truncated ? QN_STR(TAIL_TEXT) : QN_STR("\n")
                         : l.truncated ? QN_STR(TAIL_JSON)
                                       : QN_STR("}\n");
    memcpy(l.bytes + l.n, tail.p, tail.n);
    l.n += tail.n;
    send_line(&l);
    errno = saved_errno;
}
