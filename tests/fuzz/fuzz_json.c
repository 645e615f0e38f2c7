/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* What is read prints as JSON that is read again, and prints the same. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct qn_json_reader *reader;
    struct json_object *o, *again;
    const char *why = NULL;
    if (!reader)
        reader = qn_json_reader_new();
    if (qn_json_read(reader, (struct qn_str){(const char *)data, size}, &o, &why) != QN_OK) {
        if (!why)
            abort();
        return 0;
    }
    struct qn_str text = qn_str_of(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
    if (qn_json_read(reader, text, &again, &why) != QN_OK ||
        !qn_str_eq(qn_str_of(json_object_to_json_string_ext(again, JSON_C_TO_STRING_PLAIN)), text))
        abort();
    json_object_put(again);
    json_object_put(o);
    return 0;
}
