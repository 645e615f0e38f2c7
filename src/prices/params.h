/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The parameters that several endpoints take, each read in one place. A function that returns false has answered the
 * turn with a problem that names the parameter; *want is then QN_WANT_DONE.
 */
#ifndef QN_PRICES_PARAMS_H
#define QN_PRICES_PARAMS_H

#include "base/when.h"
#include "web/turn.h"

/* Two assets that are not of one family: parameter `first` (required) and `quote` (default: the reference quote where
 * with_default, else required). */
QN_MUST bool qn_params_pair(struct qn_turn *turn, const char *first, bool with_default, struct qn_asset *asset,
                            struct qn_asset *quote, enum qn_want *want);

/* A range as asked for; nothing is resolved that depends on H. */
struct qn_range {
    bool has_from, has_to;
    int64_t from_ms, to_ms;
    int limit;                /* 1-1000 */
    bool asc;
};

/* `from`, `to`, `limit` (100), `order` (default_asc says which). */
QN_MUST bool qn_params_range(struct qn_turn *turn, bool default_asc, struct qn_range *range, enum qn_want *want);

/* true or false. */
QN_MUST bool qn_params_bool(struct qn_turn *turn, const char *name, bool value_if_absent, bool *out,
                            enum qn_want *want);

#endif
