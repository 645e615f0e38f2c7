/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "base/log.h"
#include "link/scripts.h"

const struct qn_script *qn_script_get(const char *name)
{
    for (size_t i = 0; i < qn_scripts_data_n; i++) {
        if (strcmp(qn_scripts_data[i].name, name) == 0)
            return &qn_scripts_data[i];
    }
    qn_log_error("script-unknown", QN_F_Z("name", name));
    abort();
}

const struct qn_script *qn_script_all(size_t *n)
{
    *n = qn_scripts_data_n;
    return qn_scripts_data;
}
