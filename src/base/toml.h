/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * TOML as a tree of plain nodes. toml.cc is the one C++ file: it reads with toml++ and lets no exception out. What the
 * values mean is not decided here.
 */
#ifndef QN_BASE_TOML_H
#define QN_BASE_TOML_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* OTHER: floats, dates and times, none of which we use. */
enum qn_toml_type { QN_TOML_TABLE, QN_TOML_ARRAY, QN_TOML_STR, QN_TOML_INT, QN_TOML_BOOL, QN_TOML_OTHER };

/* A value. All of it belongs to the struct qn_toml that it came from. */
struct qn_toml_node {
    enum qn_toml_type type;
    unsigned line;      /* from 1, where its key (in an array: it) starts */
    struct qn_str key;  /* of a member of a table; else absent */
    struct qn_str str;  /* of a STR; may hold NUL */
    int64_t num;        /* of an INT; 0 or 1 of a BOOL */
    const struct qn_toml_node *child; /* first of a TABLE (in order of lines) or an ARRAY, or NULL */
    const struct qn_toml_node *next;  /* in the same table or array, or NULL */
};

struct qn_toml_error {
    unsigned line; /* 0: of the whole text */
    char text[160];
};

struct qn_toml;

/* Reads text of at most 1 MiB (UTF-8, BOM and CRLF are fine). At most 32 containers within each other and 32 dots in a
 * key: deeper text would be read by as deep a recursion. *out belongs to the caller (qn_toml_free).
 * QN_ERANGE: longer or deeper; QN_EINVAL: not TOML. Both say why in *error. */
QN_MUST enum qn_err qn_toml_parse(struct qn_str text, struct qn_toml **out, struct qn_toml_error *error);
void qn_toml_free(struct qn_toml *toml);
/* The root table. */
const struct qn_toml_node *qn_toml_root(const struct qn_toml *toml);

#ifdef __cplusplus
}
#endif

#endif
