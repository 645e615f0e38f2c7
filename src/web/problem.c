/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <sodium.h>

#include "base/config.h"
#include "web/problem.h"

static const struct {
    const char *slug;
    int status;
    const char *title;
} PROBLEMS[QN_PROBLEMS] = {
    [QN_P_MISSING_PARAMETER] = {"missing-parameter", 400, "A required parameter is missing"},
    [QN_P_INVALID_ASSET] = {"invalid-asset", 400, "Not an asset id"},
    [QN_P_INVALID_QUOTE] = {"invalid-quote", 400, "Not an asset id for the quote"},
    [QN_P_IDENTITY_PAIR] = {"identity-pair", 400, "Both sides are the same asset"},
    [QN_P_INVALID_WINDOW] = {"invalid-window", 400, "Not one of the windows"},
    [QN_P_INVALID_GRANULARITY] = {"invalid-granularity", 400, "Not a granularity"},
    [QN_P_INVALID_TIME] = {"invalid-time", 400, "Not a time, or not a range"},
    [QN_P_INVALID_LIMIT] = {"invalid-limit", 400, "Not a limit"},
    [QN_P_INVALID_CURSOR] = {"invalid-cursor", 400, "Not a cursor of this query"},
    [QN_P_INVALID_PARAMETER] = {"invalid-parameter", 400, "A parameter has a value that it can't have"},
    [QN_P_UNKNOWN_PARAMETER] = {"unknown-parameter", 400, "Unknown parameter"},
    [QN_P_DUPLICATE_PARAMETER] = {"duplicate-parameter", 400, "A parameter is given twice"},
    [QN_P_INVALID_ENCODING] = {"invalid-encoding", 400, "Broken percent-encoding or UTF-8"},
    [QN_P_NOT_FOUND] = {"not-found", 404, "No such path"},
    [QN_P_PRICE_NOT_FOUND] = {"price-not-found", 404, "No price"},
    [QN_P_METHOD_NOT_ALLOWED] = {"method-not-allowed", 405, "Method not allowed"},
    [QN_P_BODY_TOO_LARGE] = {"body-too-large", 413, "Request body too large"},
    [QN_P_INTERNAL_ERROR] = {"internal-error", 500, "Internal error"},
    [QN_P_PRICE_UNAVAILABLE] = {"price-unavailable", 503, "The price can't be had at the moment"},
    [QN_P_STORE_UNAVAILABLE] = {"store-unavailable", 503, "The store can't be reached at the moment"},
    [QN_P_WARMING_UP] = {"warming-up", 503, "Nothing is aggregated yet"},
    [QN_P_OVERLOADED] = {"overloaded", 503, "Too much to do at the moment"},
};

int qn_problem_status(enum qn_problem p)
{
    return PROBLEMS[p].status;
}

const char *qn_problem_slug(enum qn_problem p)
{
    return PROBLEMS[p].slug;
}

void qn_problem_set(const struct qn_config *config, struct qn_arena *arena, const struct qn_request *rq,
                    struct qn_response *rs, enum qn_problem p, const char *param, struct qn_str detail)
{
    struct qn_buf b = {.arena = arena};
    qn_buf_puts(&b, "{\"type\":");
    qn_buf_json(&b, qn_arena_printf(arena, "%s%s", config->prices.error_base, PROBLEMS[p].slug));
    qn_buf_puts(&b, ",\"title\":");
    qn_buf_json(&b, qn_str_of(PROBLEMS[p].title));
    qn_buf_puts(&b, ",\"status\":");
    qn_buf_i64(&b, PROBLEMS[p].status);
    qn_buf_puts(&b, ",\"detail\":");
    qn_buf_json(&b, detail);
    qn_buf_puts(&b, ",\"instance\":");
    qn_buf_json(&b, rq->path);
    qn_buf_puts(&b, ",\"request_id\":");
    qn_buf_json(&b, qn_str_of(rq->id));
    if (param) {
        qn_buf_puts(&b, ",\"param\":");
        qn_buf_json(&b, qn_str_of(param));
    }
    qn_buf_char(&b, '}');
    rs->status = PROBLEMS[p].status;
    rs->content_type = "application/problem+json";
    rs->cache_control = QN_STR("no-store");
    rs->etag = QN_STR_NULL;
    rs->body = qn_buf_view(&b);
    if (rs->status == 503)
        qn_response_header(rs, "Retry-After", qn_arena_printf(arena, "%u", 4 + (unsigned)randombytes_uniform(3)));
}
