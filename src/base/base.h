/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What every file may use: result codes, byte strings, checked allocation.
 * Included first by every .c file (it brings config.h in).
 */
#ifndef QN_BASE_BASE_H
#define QN_BASE_BASE_H

#ifdef HAVE_CONFIG_H
#include <config.h> /* not "config.h": that would be base/config.h beside this file */
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define QN_MUST __attribute__((warn_unused_result))
#define QN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define QN_NORETURN __attribute__((noreturn))
#define QN_UNUSED __attribute__((unused))
#define QN_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* The result of everything that can fail. 0 is success. A miss is not a failure, a failure is never a miss. */
enum qn_err {
    QN_OK = 0,
    QN_MISS,     /* asked and not there */
    QN_EINVAL,   /* the input is not of the form asked for */
    QN_ERANGE,   /* of the form, but too large, too long, too many */
    QN_ETIMEOUT, /* the deadline passed */
    QN_EUNAVAIL, /* the peer can't be reached, or its breaker is open */
    QN_EPEER,    /* the peer answered with an error */
    QN_ECORRUPT, /* stored data is not of our form */
    QN_ECONFLICT,/* somebody else holds it, or changed it first */
    QN_EIO,      /* a system call failed; errno says why */
    QN_ECANCEL,  /* given up by its owner */
};

/* A short lower-case name of a result code ("timeout"), for logs and readiness. Static. */
const char *qn_err_name(enum qn_err err);

/* Bytes with their length; not NUL-terminated unless said. p == NULL means absent. Never owned through this struct. */
struct qn_str {
    const char *p;
    size_t n;
};

#define QN_STR(literal) ((struct qn_str){(literal), sizeof(literal) - 1})
#define QN_STR_NULL ((struct qn_str){NULL, 0})
/* For printf's "%.*s". */
#define QN_FMT(s) (int)(s).n, (s).p

static inline struct qn_str qn_str_of(const char *z)
{
    return (struct qn_str){z, z ? strlen(z) : 0};
}

static inline bool qn_str_eq(struct qn_str a, struct qn_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Bytewise order, a prefix first: < 0, 0, > 0. */
static inline int qn_str_cmp(struct qn_str a, struct qn_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static inline bool qn_str_starts(struct qn_str s, struct qn_str prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

/* Reads a decimal integer without sign, blanks or leading zeros ("0" is one). QN_EINVAL: not of that form;
 * QN_ERANGE: above max. */
QN_MUST enum qn_err qn_str_u64(struct qn_str s, uint64_t max, uint64_t *out);
/* The same with an optional `-` in front; max bounds the absolute value. */
QN_MUST enum qn_err qn_str_i64(struct qn_str s, int64_t max, int64_t *out);

/* Looks at the UTF-8 sequence (RFC 3629) at the front of p[0..n), n > 0: *len is its length and true is returned; or
 * false, and *len (1-3) is how many bytes one U+FFFD stands for. */
bool qn_utf8_step(const char *p, size_t n, size_t *len);
/* Whether all of s is UTF-8. */
bool qn_str_utf8(struct qn_str s);

/* malloc and friends that never return NULL: out of memory logs once and exits 70 (the master replaces a worker).
 * The caller owns the memory (free). */
void *qn_xmalloc(size_t n);
void *qn_xcalloc(size_t count, size_t size);
void *qn_xrealloc(void *p, size_t n);
/* A NUL-terminated copy. */
char *qn_xstrndup(const char *p, size_t n);

/* Opens /dev/null for each of descriptors 0-2 that is closed, so that no file of ours gets its number and is read or
 * written for it: what would be read from 0 can't be, rather than being empty. First in every program. */
void qn_open_standard_fds(void);

/* sysexits(3) that our programs use. */
enum {
    QN_EXIT_OK = 0,
    QN_EXIT_FAIL = 1,
    QN_EXIT_USAGE = 64,
    QN_EXIT_DATA = 65,
    QN_EXIT_INTERNAL = 70,
    QN_EXIT_TEMPFAIL = 75,
    QN_EXIT_CONFIG = 78,
};

#endif
