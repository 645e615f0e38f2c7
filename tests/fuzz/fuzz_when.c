/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "base/when.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* A moment that is read is printed in our one form, and that reads to the same moment; its buckets hold it. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    int64_t ms, again;
    char text[QN_WHEN_MAX];
    if (qn_when_parse_param((struct qn_str){(const char *)data, size}, &ms) != QN_OK)
        return 0;
    size_t n = qn_when_text(text, ms);
    if (n != 24 || qn_when_parse((struct qn_str){text, n}, &again) != QN_OK || again != ms)
        abort();
    for (int g = 0; g < QN_GRAINS; g++) {
        int64_t start = qn_grain_start((enum qn_grain)g, ms), end = qn_grain_end((enum qn_grain)g, ms);
        if (start > ms || ms >= end || qn_grain_start((enum qn_grain)g, end) != end ||
            qn_grain_start((enum qn_grain)g, end - 1) != start || qn_grain_previous((enum qn_grain)g, end) != start)
            abort();
    }
    return 0;
}
