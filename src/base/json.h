/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Strict reading of JSON on json-c: the whole text, UTF-8, one value, no leniency that json-c 0.16 allows
 * (process-model, section 5.4): single quotes, NaN and Infinity, duplicate names, raw control bytes, a trailing point,
 * lone surrogates.
 */
#ifndef QN_BASE_JSON_H
#define QN_BASE_JSON_H

#include <json-c/json.h>

#include "base/base.h"

/* A reusable reader (a json_tokener inside). */
struct qn_json_reader;
struct qn_json_reader *qn_json_reader_new(void);
void qn_json_reader_free(struct qn_json_reader *r);

/* Reads one JSON value of depth at most 16; blanks around it are skipped. *out belongs to the caller (json_object_put)
 * and is NULL for `null`. A number has at most 18 digits (before any exponent) and an exponent of at most 290 either
 * way. On QN_EINVAL *why is a static text ("duplicate member", "not UTF-8", "number of more than 18 digits", …). */
QN_MUST enum qn_err qn_json_read(struct qn_json_reader *r, struct qn_str text, struct json_object **out,
                                 const char **why);

/* A string member as bytes (borrowed from the object). QN_MISS: absent or null; QN_EINVAL: of another type. */
QN_MUST enum qn_err qn_json_get_str(struct json_object *o, const char *name, struct qn_str *out);
/* An integer member. QN_MISS: absent or null; QN_EINVAL: of another type, or written with a point or an exponent;
 * QN_ERANGE: more than 18 digits (qn_json_read refuses such a text as a whole). */
QN_MUST enum qn_err qn_json_get_int(struct json_object *o, const char *name, int64_t *out);

#endif
