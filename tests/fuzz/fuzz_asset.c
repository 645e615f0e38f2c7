/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "base/asset.h"
#include "base/config.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* What is read has a canonical text, and that reads to itself. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct qn_config *config;
    struct qn_asset a, again;
    if (!config)
        config = qn_config_defaults();
    if (qn_asset_parse(config, (struct qn_str){(const char *)data, size}, &a) != QN_OK)
        return 0;
    if (a.len >= QN_ASSET_MAX || a.text[a.len] != '\0' ||
        qn_asset_parse_canonical(config, qn_asset_str(&a), &again) != QN_OK || !qn_asset_eq(&a, &again) ||
        a.kind != again.kind)
        abort();
    return 0;
}
