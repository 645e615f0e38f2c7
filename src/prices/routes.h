/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The paths of the prices pool.
 */
#ifndef QN_PRICES_ROUTES_H
#define QN_PRICES_ROUTES_H

#include "web/turn.h"

/* All routes of the pool: count into *n. Static. */
const struct qn_route *const *qn_prices_routes(size_t *n);

#endif
