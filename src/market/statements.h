/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Every statement that prices and the aggregator share or that handlers declare; the workers prepare them on connect.
 */
#ifndef QN_MARKET_STATEMENTS_H
#define QN_MARKET_STATEMENTS_H

#include "link/command.h"

enum qn_market_stmt {
    QN_STMT_PRICE,        /* market/price.c */
    QN_STMT_OHLC,
    QN_STMT_HISTORY_ASC,
    QN_STMT_HISTORY_DESC,
    QN_STMT_SCHEMA,       /* the schema's version: what /v1/readyz asks */
    QN_MARKET_STMTS
};
extern const struct qn_stmt qn_market_stmts[QN_MARKET_STMTS];

#endif
