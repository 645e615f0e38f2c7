/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "prices/history.h"
#include "prices/ohlc.h"
#include "prices/price.h"
#include "prices/routes.h"
#include "web/service.h"

static const char *const NO_PARAMS[] = {NULL};

static const struct qn_route healthz = {"/v1/healthz", QN_GET, NO_PARAMS, qn_service_healthz, NULL, NULL};
static const struct qn_route version = {"/v1/version", QN_GET, NO_PARAMS, qn_service_version, NULL, NULL};
static const struct qn_route readyz = {"/v1/readyz", QN_GET, NO_PARAMS, qn_service_ready_plan, qn_service_ready_replies,
                                       qn_service_ready_rows};

static const struct qn_route *const ROUTES[] = {
    &qn_prices_price, &qn_prices_ohlc, &qn_prices_history, &healthz, &readyz, &version,
};

const struct qn_route *const *qn_prices_routes(size_t *n)
{
    *n = QN_LEN(ROUTES);
    return ROUTES;
}
