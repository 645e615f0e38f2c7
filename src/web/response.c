/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/config.h"
#include "web/response.h"

static const char EXPOSED[] = "ETag, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
                              "X-Request-ID, Cache-Status, Link";

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } REASONS[] = {
        {200, "OK"}, {204, "No Content"}, {304, "Not Modified"}, {400, "Bad Request"}, {404, "Not Found"},
        {405, "Method Not Allowed"}, {413, "Content Too Large"}, {500, "Internal Server Error"},
        {503, "Service Unavailable"},
    };
    for (size_t i = 0; i < QN_LEN(REASONS); i++)
        if (REASONS[i].status == status)
            return REASONS[i].text;
    return "Status";
}

static bool header_safe(struct qn_str value)
{
    return !memchr(value.p, '\r', value.n) && !memchr(value.p, '\n', value.n) && !memchr(value.p, '\0', value.n);
}

void qn_response_header(struct qn_response *rs, const char *name, struct qn_str value)
{
    if (rs->n_extra == QN_RESPONSE_MAX_HEADERS || !header_safe(value))
        return;
    rs->extra[rs->n_extra].name = name;
    rs->extra[rs->n_extra].value = value;
    rs->n_extra++;
}

int qn_response_status(const struct qn_request *rq, const struct qn_response *rs)
{
    bool conditional = rs->status == 200 && (rq->method == QN_GET || rq->method == QN_HEAD);
    return conditional && qn_request_matches(rq, rs->etag) ? 304 : rs->status;
}

static void put_header(struct qn_buf *out, const char *name, struct qn_str value)
{
    qn_buf_puts(out, name);
    qn_buf_puts(out, ": ");
    qn_buf_str(out, value);
    qn_buf_puts(out, "\r\n");
}

void qn_response_put(const struct qn_config *config, const struct qn_request *rq, const struct qn_response *rs,
                     struct qn_buf *out)
{
    int status = qn_response_status(rq, rs);
    bool any_origin = strcmp(config->prices.allow_origin, "*") == 0;
    qn_buf_reserve(out, 512 + rs->body.n);
    qn_buf_printf(out, "Status: %d %s\r\n", status, reason(status));
    if (rs->content_type && status != 304)
        put_header(out, "Content-Type", qn_str_of(rs->content_type));
    if (rs->cache_control.p)
        put_header(out, "Cache-Control", rs->cache_control);
    if (rs->etag.p)
        put_header(out, "ETag", rs->etag);
    if (rs->cache_control.p && qn_str_starts(rs->cache_control, QN_STR("public")))
        put_header(out, "Vary", any_origin ? QN_STR("Authorization, X-API-Key")
                                           : QN_STR("Authorization, X-API-Key, Origin"));
    put_header(out, "X-Request-ID", qn_str_of(rq->id));
    put_header(out, "X-Content-Type-Options", QN_STR("nosniff"));
    put_header(out, "Access-Control-Allow-Origin", qn_str_of(config->prices.allow_origin));
    put_header(out, "Access-Control-Expose-Headers", qn_str_of(EXPOSED));
    for (size_t i = 0; i < rs->n_extra; i++)
        put_header(out, rs->extra[i].name, rs->extra[i].value);
    if (status != 204 && status != 304)
        qn_buf_printf(out, "Content-Length: %zu\r\n", rs->body.n);
    qn_buf_puts(out, "\r\n");
    if (status != 204 && status != 304 && rq->method != QN_HEAD)
        qn_buf_str(out, rs->body);
}
