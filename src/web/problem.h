/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Problem documents (RFC 9457; contract-prices, section 3): one table of slugs, one way to make one.
 */
#ifndef QN_WEB_PROBLEM_H
#define QN_WEB_PROBLEM_H

#include "web/response.h"

enum qn_problem {
    QN_P_MISSING_PARAMETER, QN_P_INVALID_ASSET, QN_P_INVALID_QUOTE, QN_P_IDENTITY_PAIR, QN_P_INVALID_WINDOW,
    QN_P_INVALID_GRANULARITY, QN_P_INVALID_TIME, QN_P_INVALID_LIMIT, QN_P_INVALID_CURSOR, QN_P_INVALID_PARAMETER,
    QN_P_UNKNOWN_PARAMETER, QN_P_DUPLICATE_PARAMETER, QN_P_INVALID_ENCODING,
    QN_P_NOT_FOUND, QN_P_PRICE_NOT_FOUND, QN_P_METHOD_NOT_ALLOWED, QN_P_BODY_TOO_LARGE, QN_P_INTERNAL_ERROR,
    QN_P_PRICE_UNAVAILABLE, QN_P_STORE_UNAVAILABLE, QN_P_WARMING_UP, QN_P_OVERLOADED,
    QN_PROBLEMS
};

int qn_problem_status(enum qn_problem p);
const char *qn_problem_slug(enum qn_problem p);

/* Makes rs the problem's document. param: the parameter at fault, or NULL. detail: one sentence for the client, never of
 * internal text; client bytes in it are escaped here. 503 gets Retry-After (whole seconds, 5 with +-20 % jitter). */
void qn_problem_set(const struct qn_config *config, struct qn_arena *arena, const struct qn_request *rq,
                    struct qn_response *rs, enum qn_problem p, const char *param, struct qn_str detail);

#endif
