/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * GET /v1/ohlc (contract-prices, section 4): candles of one market.
 */
#ifndef QN_PRICES_OHLC_H
#define QN_PRICES_OHLC_H

#include "web/turn.h"

extern const struct qn_route qn_prices_ohlc;

#endif
