/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Rows for one statement: a text array a column, for SQL's unnest(). The caller takes care of quoting.
 */
#ifndef QN_AGGREGATE_COLUMNS_H
#define QN_AGGREGATE_COLUMNS_H

#include "base/buf.h"

enum { QN_COLUMNS_MAX = 16 };

/* Zero-initialised is valid and empty. Clear after use. */
struct qn_columns {
    struct qn_buf column[QN_COLUMNS_MAX];
};

void qn_columns_clear(struct qn_columns *c);
/* Empties all columns; keeps the memory. */
void qn_columns_reset(struct qn_columns *c);
/* The buffer to write the column's next item to. */
struct qn_buf *qn_columns_item(struct qn_columns *c, size_t column);
void qn_columns_int(struct qn_columns *c, size_t column, int64_t v);
/* Ends the first n columns' arrays and makes them parameters, borrowed until the next reset. Nothing may be added. */
void qn_columns_params(struct qn_columns *c, size_t n, struct qn_str *params);

#endif
