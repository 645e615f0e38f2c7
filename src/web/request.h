/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One HTTP request as a handler sees it, made from CGI variables: decoded once, strictly. No I/O.
 */
#ifndef QN_WEB_REQUEST_H
#define QN_WEB_REQUEST_H

#include "base/arena.h"

enum qn_method { QN_GET = 1, QN_HEAD = 2, QN_POST = 4, QN_PUT = 8, QN_DELETE = 16, QN_OPTIONS = 32, QN_METHOD_OTHER = 64 };

struct qn_param {
    struct qn_str name;
    struct qn_str value;
};

/* All text is in the request's arena, NUL-terminated behind its last byte; p == NULL: not sent. */
struct qn_request {
    enum qn_method method;
    struct qn_str path;            /* percent-decoded once; %2F stays as it was sent */
    bool path_bad;                 /* encoding broken, NUL or not UTF-8 */
    const struct qn_param *params; /* the query's, decoded (+ is a blank), in order */
    size_t n_params;
    bool query_bad;                /* encoding broken, NUL or not UTF-8: bad_param names the parameter if it is known */
    struct qn_str bad_param;
    struct qn_str remote_addr;
    struct qn_str if_none_match;
    struct qn_str origin;
    struct qn_str authorization;
    struct qn_str api_key;         /* X-API-Key */
    struct qn_str content_type;
    struct qn_str forwarded_for;
    struct qn_str body;
    bool body_too_large;
    char id[65];                   /* the client's X-Request-ID if 1-64 of [A-Za-z0-9._-], else 32 hex */
};

/* Makes a request from CGI variables (RFC 3875): REQUEST_METHOD, SCRIPT_NAME or DOCUMENT_URI or REQUEST_URI (path),
 * QUERY_STRING, REMOTE_ADDR, HTTP_*. vars are name and value; the values are copied into arena. A variable given twice
 * counts once, the first. Never fails: what is wrong is marked. Sources: RFC 3986 (escapes), WHATWG URL (the query's
 * form encoding). */
void qn_request_make(struct qn_arena *arena, const struct qn_param *vars, size_t n_vars, struct qn_str body,
                     bool body_too_large, struct qn_request *out);

/* The value of a parameter; p == NULL when it isn't there. */
struct qn_str qn_request_param(const struct qn_request *rq, const char *name);

/* Whether If-None-Match names this entity tag (with its quotes): a list, weak tags, `*`; weak comparison
 * (RFC 9110, section 13.1.2). */
bool qn_request_matches(const struct qn_request *rq, struct qn_str etag);

#endif
