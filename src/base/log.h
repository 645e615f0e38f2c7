/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One JSON line an event to stderr (key=value on a terminal). Never blocks for long: a line that stderr does not take
 * at once is dropped and counted. Values are escaped; never log a secret or a query string.
 */
#ifndef QN_BASE_LOG_H
#define QN_BASE_LOG_H

#include "base/base.h"

enum qn_log_level { QN_LOG_DEBUG, QN_LOG_INFO, QN_LOG_WARN, QN_LOG_ERROR };

/* The name of the program in every line, and the least level that is written. */
void qn_log_init(const char *program, enum qn_log_level least);
/* A level by name (debug, info, warn, error). QN_EINVAL otherwise. */
QN_MUST enum qn_err qn_log_level_parse(struct qn_str name, enum qn_log_level *out);
/* Lines lost because stderr took none, since the start. */
uint64_t qn_log_dropped(void);

/* {"ts":…,"level":…,"program":…,"pid":…,"event":<event>,…}: event is a short constant ("redis-lost"); the rest are
 * pairs made by the QN_LOG_ macros below, ended by QN_LOG_END. */
struct qn_log_field {
    const char *name;
    enum { QN_LOG_F_END, QN_LOG_F_STR, QN_LOG_F_INT, QN_LOG_F_ERRNO } kind;
    struct qn_str str;
    int64_t num;
};
void qn_log(enum qn_log_level level, const char *event, const struct qn_log_field *fields);

#define QN_F_STR(name, s) {(name), QN_LOG_F_STR, (s), 0}
#define QN_F_Z(name, z) {(name), QN_LOG_F_STR, qn_str_of(z), 0}
#define QN_F_INT(name, v) {(name), QN_LOG_F_INT, {NULL, 0}, (int64_t)(v)}
/* errno's text as "error". */
#define QN_F_ERRNO(e) {"error", QN_LOG_F_ERRNO, {NULL, 0}, (e)}
#define QN_F_END {NULL, QN_LOG_F_END, {NULL, 0}, 0}
#define QN_LOG_FIELDS(...) ((const struct qn_log_field[]){__VA_ARGS__ __VA_OPT__(,) QN_F_END})
#define qn_log_debug(event, ...) qn_log(QN_LOG_DEBUG, (event), QN_LOG_FIELDS(__VA_ARGS__))
#define qn_log_info(event, ...) qn_log(QN_LOG_INFO, (event), QN_LOG_FIELDS(__VA_ARGS__))
#define qn_log_warn(event, ...) qn_log(QN_LOG_WARN, (event), QN_LOG_FIELDS(__VA_ARGS__))
#define qn_log_error(event, ...) qn_log(QN_LOG_ERROR, (event), QN_LOG_FIELDS(__VA_ARGS__))

#endif
