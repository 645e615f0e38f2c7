/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "base/toml.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static size_t walk(const struct qn_toml_node *node)
{
    size_t n = 1;
    for (const struct qn_toml_node *c = node->child; c; c = c->next) {
        if (c->line == 0 || (node->type == QN_TOML_TABLE) != (c->key.p != NULL))
            abort();
        n += walk(c);
    }
    if (node->child && node->type != QN_TOML_TABLE && node->type != QN_TOML_ARRAY)
        abort();
    return n;
}

/* No exception gets out, a refusal says why, and the tree is whole and no larger than its text explains. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct qn_toml *toml;
    struct qn_toml_error error = {0};
    if (qn_toml_parse((struct qn_str){(const char *)data, size}, &toml, &error) != QN_OK) {
        if (!error.text[0])
            abort();
        return 0;
    }
    if (walk(qn_toml_root(toml)) > size + 1)
        abort();
    qn_toml_free(toml);
    return 0;
}
