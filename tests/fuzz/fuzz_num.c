/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "base/num.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* A decimal that is read prints as one that is read, of the same value, and that prints the same; and its exact
 * rational (which the one division truncates to 18 digits) prints the same where there are no more digits than that. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct qn_dec x, y;
    struct qn_buf first = {0}, second = {0};
    qn_dec_init(&x);
    qn_dec_init(&y);
    if (qn_dec_parse(&x, (struct qn_str){(const char *)data, size}, 200) == QN_OK) {
        mpq_t q;
        mpq_init(q);
        qn_dec_put(&first, &x);
        if (qn_dec_parse(&y, qn_buf_view(&first), 0) != QN_OK || qn_dec_cmp(&x, &y) != 0)
            abort();
        qn_dec_put(&second, &y);
        if (!qn_str_eq(qn_buf_view(&first), qn_buf_view(&second)))
            abort();
        qn_dec_get_q(q, &x);
        qn_buf_clear(&second);
        qn_num_put_quotient(&second, q);
        if (mpz_sizeinbase(y.m, 10) < QN_NUM_SIGNIFICANT && !qn_str_eq(qn_buf_view(&first), qn_buf_view(&second)))
            abort();
        mpq_clear(q);
    }
    qn_buf_free(&first);
    qn_buf_free(&second);
    qn_dec_clear(&x);
    qn_dec_clear(&y);
    return 0;
}
