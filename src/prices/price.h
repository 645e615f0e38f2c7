/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * GET /v1/price (contract-prices, section 4): one hot value, or the same made from Postgres.
 */
#ifndef QN_PRICES_PRICE_H
#define QN_PRICES_PRICE_H

#include "web/turn.h"

extern const struct qn_route qn_prices_price;

#endif
