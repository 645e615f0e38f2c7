/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The files of sql/, embedded at build time (the generated sql_data.c defines the table), by ascending version.
 */
#ifndef QN_BIN_MIGRATIONS_H
#define QN_BIN_MIGRATIONS_H

#include "base/base.h"

struct qn_migration {
    int version;       /* 1 of 0001_market.sql */
    const char *name;  /* "market" */
    const char *sql;   /* the whole file */
};

extern const struct qn_migration qn_migrations[];
extern const size_t qn_migrations_n;

#endif
