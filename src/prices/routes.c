/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "prices/history.h"
#include "prices/ohlc.h"
#include "prices/price.h"
#include "prices/routes.h"
#include "web/service.h"

const struct qn_route *qn_prices_routes(size_t *n)
{
    static struct qn_route routes[6];
    static const char *const none[] = {NULL};
    routes[0] = qn_prices_price;
    routes[1] = qn_prices_ohlc;
    routes[2] = qn_prices_history;
    routes[3] = (struct qn_route){"/v1/healthz", QN_GET, none, qn_service_healthz, NULL, NULL};
    routes[4] = (struct qn_route){"/v1/readyz", QN_GET, none, qn_service_ready_plan, qn_service_ready_replies,
                                  qn_service_ready_rows};
    routes[5] = (struct qn_route){"/v1/version", QN_GET, none, qn_service_version, NULL, NULL};
    *n = QN_LEN(routes);
    return routes;
}
