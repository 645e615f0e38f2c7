/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/ord.h"

enum { RUN_DIGITS = 1, RUN_TEXT = 2 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t qn_ord_encode(struct qn_str id, unsigned char out[QN_ORD_MAX])
{
    size_t n = 0;
    size_t i = 0;
    while (i < id.n) {
        size_t start = i;
        if (is_digit(id.p[i])) {
            while (i < id.n && is_digit(id.p[i]))
                i++;
            while (start < i && id.p[start] == '0')
                start++;
            out[n++] = RUN_DIGITS;
            out[n++] = (unsigned char)(i - start);
        } else {
            while (i < id.n && !is_digit(id.p[i]))
                i++;
            out[n++] = RUN_TEXT;
        }
        memcpy(out + n, id.p + start, i - start);
        n += i - start;
    }
    return n;
}
