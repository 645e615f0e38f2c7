/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What is asked of Redis and Postgres, and what comes back: plain values, so that handlers and their tests need no
 * connection. Text is borrowed; who makes a value says how long it lives.
 */
#ifndef QN_LINK_COMMAND_H
#define QN_LINK_COMMAND_H

#include "base/base.h"

/* A script of lua/, embedded at build time: see link/scripts.h. */
struct qn_script {
    const char *name;      /* "fill" */
    const char *source;    /* the whole file */
    size_t source_len;
    char sha[41];          /* SHA-1 of the source in hex: what EVALSHA names */
};

/* One command. script == NULL: argv is the command whole ("GET", key). Else argv is the script's keys (the first nkeys)
 * and arguments; it is sent as EVALSHA and, answered NOSCRIPT, once more as EVAL. */
struct qn_cmd {
    const struct qn_script *script;
    size_t nkeys;
    size_t argc;
    const struct qn_str *argv;
};

enum qn_val_kind { QN_VAL_NIL, QN_VAL_STR, QN_VAL_INT, QN_VAL_ARRAY, QN_VAL_ERROR };

/* One reply. An error reply is a value too (kind ERROR, str = its text). */
struct qn_val {
    enum qn_val_kind kind;
    struct qn_str str;     /* STR (bulk and status), ERROR */
    int64_t num;           /* INT */
    size_t n;              /* ARRAY */
    const struct qn_val *items;
};

/* One statement of a table that is prepared on connect. Parameters and results are text. */
struct qn_stmt {
    const char *name;      /* prepared under this name */
    const char *sql;
    int nparams;
};

/* One call of a statement; a parameter with p == NULL is NULL. Parameters must be NUL-terminated behind their last byte
 * (arena strings are) and hold no NUL. */
struct qn_query {
    const struct qn_stmt *stmt;
    const struct qn_str *params;
};

/* A result: cells by row, then column; p == NULL is SQL NULL. Text is NUL-terminated. */
struct qn_rows {
    size_t nrows;
    size_t ncols;
    const struct qn_str *cells;
    int64_t affected;      /* of INSERT, UPDATE, DELETE, COPY; 0 else */
};

static inline struct qn_str qn_rows_cell(const struct qn_rows *rows, size_t row, size_t col)
{
    return rows->cells[row * rows->ncols + col];
}

#endif
