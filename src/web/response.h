/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What goes back: status, headers, body. No I/O.
 */
#ifndef QN_WEB_RESPONSE_H
#define QN_WEB_RESPONSE_H

#include "base/buf.h"
#include "web/request.h"

struct qn_config;

enum { QN_RESPONSE_MAX_HEADERS = 16 };

/* Text is static or in the request's arena. */
struct qn_response {
    int status;
    const char *content_type;      /* NULL: no body, no Content-Type */
    struct qn_str cache_control;
    struct qn_str etag;            /* with its quotes; p == NULL: none */
    struct qn_str body;
    struct { const char *name; struct qn_str value; } extra[QN_RESPONSE_MAX_HEADERS];
    size_t n_extra;
};

/* Adds a header; the value has no CR or LF (checked: such a header is left out). */
void qn_response_header(struct qn_response *rs, const char *name, struct qn_str value);

/* Writes status line, headers and body as a CGI response (RFC 3875, section 6.3: `Status: 200 OK`) to out. Does once for
 * all: 304 where If-None-Match matches a 200's ETag, HEAD without body, X-Request-ID, nosniff, CORS, Content-Length. */
void qn_response_put(const struct qn_config *config, const struct qn_request *rq, const struct qn_response *rs,
                     struct qn_buf *out);
/* The status that put will send (304 for a match). */
int qn_response_status(const struct qn_request *rq, const struct qn_response *rs);

#endif
