/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What every pool answers about itself (contract-prices, section 4): alive, ready, version.
 */
#ifndef QN_WEB_SERVICE_H
#define QN_WEB_SERVICE_H

#include "web/turn.h"

/* The steps of /v1/healthz, /v1/version and /v1/readyz. Ready asks Redis (PING) and Postgres (the schema's version): ok;
 * degraded (200) when one of them is out; unready (503) when both are. A worker keeps a result for a second. */
enum qn_want qn_service_healthz(struct qn_turn *turn);
enum qn_want qn_service_version(struct qn_turn *turn);
enum qn_want qn_service_ready_plan(struct qn_turn *turn);
enum qn_want qn_service_ready_replies(struct qn_turn *turn, enum qn_err err, const struct qn_val *r, size_t n);
enum qn_want qn_service_ready_rows(struct qn_turn *turn, enum qn_err err, const struct qn_rows *rows);

#endif
