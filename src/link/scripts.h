/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The scripts of lua/, embedded at build time (the generated scripts_data.c defines the table).
 */
#ifndef QN_LINK_SCRIPTS_H
#define QN_LINK_SCRIPTS_H

#include "link/command.h"

/* By file name without .lua; never NULL for the names below. Aborts for a name that isn't there: a bug of ours. */
const struct qn_script *qn_script_get(const char *name);
/* All of them, for tests: count into *n. */
const struct qn_script *qn_script_all(size_t *n);

/* The generated table itself, for scripts.c alone. */
extern const struct qn_script qn_scripts_data[];
extern const size_t qn_scripts_data_n;

#endif
