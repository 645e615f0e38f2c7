/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * GET /v1/history (contract-prices, section 4): the trades of one market, in total order.
 */
#ifndef QN_PRICES_HISTORY_H
#define QN_PRICES_HISTORY_H

#include "web/turn.h"

extern const struct qn_route qn_prices_history;

#endif
