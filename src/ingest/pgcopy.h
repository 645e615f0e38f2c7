/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Rows in Postgres' binary COPY format, which costs the server no parsing of text: header, rows of fields, trailer. The
 * caller writes the fields of a row in the order of the COPY statement's columns. Pure.
 */
#ifndef QN_INGEST_PGCOPY_H
#define QN_INGEST_PGCOPY_H

#include <gmp.h>

#include "base/buf.h"

/* Bytes of a field: the length word and the value of an int2, int4 or timestamptz. */
enum { QN_PGCOPY_ROW = 2, QN_PGCOPY_LEN = 4, QN_PGCOPY_I16 = 6, QN_PGCOPY_I32 = 8, QN_PGCOPY_TS = 12 };

void qn_pgcopy_begin(struct qn_buf *b);
void qn_pgcopy_end(struct qn_buf *b);
void qn_pgcopy_row(struct qn_buf *b, int16_t nfields);
void qn_pgcopy_i16(struct qn_buf *b, int16_t v);
void qn_pgcopy_i32(struct qn_buf *b, int32_t v);
/* timestamptz, from milliseconds since 1970. */
void qn_pgcopy_ts(struct qn_buf *b, int64_t ms);
/* text or bytea. */
void qn_pgcopy_bytes(struct qn_buf *b, const void *p, size_t n);
void qn_pgcopy_null(struct qn_buf *b);
/* numeric, from `-`? digits (`.` digits)?, which must be of that form; keeps the digits after the point as written. */
void qn_pgcopy_numeric(struct qn_buf *b, struct qn_str text);
/* numeric, from an integer that is not negative. */
void qn_pgcopy_integer(struct qn_buf *b, const mpz_t z);

/* ---- reading back what was written; p is at a field */

/* The field's bytes; p == NULL: NULL. *p moves behind it. */
struct qn_str qn_pgcopy_get(const char **p);
int64_t qn_pgcopy_get_ts(struct qn_str field);
/* A numeric in plain decimal notation, with the digits after the point that it was written with. */
void qn_pgcopy_get_numeric(struct qn_buf *out, struct qn_str field);
/* Whether two numerics are one value, whatever their digits after the point. Two NULLs are equal. */
bool qn_pgcopy_numeric_eq(struct qn_str a, struct qn_str b);

#endif
