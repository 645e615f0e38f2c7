/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "aggregate/columns.h"

void qn_columns_clear(struct qn_columns *c)
{
    for (size_t i = 0; i < QN_COLUMNS_MAX; i++)
        qn_buf_free(&c->column[i]);
}

void qn_columns_reset(struct qn_columns *c)
{
    for (size_t i = 0; i < QN_COLUMNS_MAX; i++)
        qn_buf_clear(&c->column[i]);
}

struct qn_buf *qn_columns_item(struct qn_columns *c, size_t column)
{
    struct qn_buf *b = &c->column[column];
    qn_buf_char(b, b->n == 0 ? '{' : ',');
    return b;
}

void qn_columns_int(struct qn_columns *c, size_t column, int64_t v)
{
    qn_buf_i64(qn_columns_item(c, column), v);
}

void qn_columns_params(struct qn_columns *c, size_t n, struct qn_str *params)
{
    for (size_t i = 0; i < n; i++) {
        struct qn_buf *b = &c->column[i];
        qn_buf_puts(b, b->n == 0 ? "{}" : "}");
        params[i] = qn_buf_view(b);
    }
}
