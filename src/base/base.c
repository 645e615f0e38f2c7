/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

const char *qn_err_name(enum qn_err err)
{
    switch (err) {
    case QN_OK:
        return "ok";
    case QN_MISS:
        return "miss";
    case QN_EINVAL:
        return "invalid";
    case QN_ERANGE:
        return "out-of-range";
    case QN_ETIMEOUT:
        return "timeout";
    case QN_EUNAVAIL:
        return "unavailable";
    case QN_EPEER:
        return "peer-error";
    case QN_ECORRUPT:
        return "corrupt";
    case QN_ECONFLICT:
        return "conflict";
    case QN_EIO:
        return "io";
    case QN_ECANCEL:
        return "cancelled";
    }
    return "unknown";
}

enum qn_err qn_str_u64(struct qn_str s, uint64_t max, uint64_t *out)
{
    if (s.n == 0 || (s.n > 1 && s.p[0] == '0'))
        return QN_EINVAL;
    uint64_t v = 0;
    bool over = false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return QN_EINVAL; /* even behind an overflow: the form comes first */
        over = over || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
               __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v);
    }
    if (over || v > max)
        return QN_ERANGE;
    *out = v;
    return QN_OK;
}

enum qn_err qn_str_i64(struct qn_str s, int64_t max, int64_t *out)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    uint64_t v;
    enum qn_err err = qn_str_u64((struct qn_str){s.p + negative, s.n - negative}, (uint64_t)max, &v);
    if (err == QN_OK)
        *out = negative ? -(int64_t)v : (int64_t)v;
    return err;
}

bool qn_utf8_step(const char *p, size_t n, size_t *len)
{
    const unsigned char *u = (const unsigned char *)p;
    *len = 1;
    if (u[0] < 0x80)
        return true;
    /* The second byte's range excludes overlong forms, surrogates and what is above U+10FFFF (RFC 3629, section 4). */
    unsigned char low = 0x80, high = 0xbf;
    size_t want;
    if (u[0] >= 0xc2 && u[0] <= 0xdf) {
        want = 2;
    } else if (u[0] >= 0xe0 && u[0] <= 0xef) {
        want = 3;
        low = u[0] == 0xe0 ? 0xa0 : low;
        high = u[0] == 0xed ? 0x9f : high;
    } else if (u[0] >= 0xf0 && u[0] <= 0xf4) {
        want = 4;
        low = u[0] == 0xf0 ? 0x90 : low;
        high = u[0] == 0xf4 ? 0x8f : high;
    } else {
        return false;
    }
    for (; *len < want; ++*len, low = 0x80, high = 0xbf)
        if (*len >= n || u[*len] < low || u[*len] > high)
            return false;
    return true;
}

bool qn_str_utf8(struct qn_str s)
{
    for (size_t i = 0, len; i < s.n; i += len)
        if (!qn_utf8_step(s.p + i, s.n - i, &len))
            return false;
    return true;
}

void qn_open_standard_fds(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_WRONLY) != fd)
            _exit(QN_EXIT_INTERNAL);
}

QN_NORETURN static void out_of_memory(size_t n)
{
    qn_log_error("out-of-memory", QN_F_INT("bytes", n > INT64_MAX ? INT64_MAX : (int64_t)n));
    _exit(QN_EXIT_INTERNAL); /* no atexit handlers: they may want memory too */
}

void *qn_xmalloc(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p)
        out_of_memory(n);
    return p;
}

void *qn_xcalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        out_of_memory(count);
    return p;
}

void *qn_xrealloc(void *old, size_t n)
{
    void *p = realloc(old, n ? n : 1);
    if (!p)
        out_of_memory(n);
    return p;
}

char *qn_xstrndup(const char *p, size_t n)
{
    if (n == SIZE_MAX)
        out_of_memory(n);
    char *z = qn_xmalloc(n + 1);
    if (n)
        memcpy(z, p, n);
    z[n] = '\0';
    return z;
}
