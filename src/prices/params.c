/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "prices/params.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 1000 };

static bool refuse(struct qn_turn *turn, enum qn_want *want, enum qn_problem p, const char *param, struct qn_str detail)
{
    *want = qn_turn_problem(turn, p, param, detail);
    return false;
}

static bool missing(struct qn_turn *turn, enum qn_want *want, const char *param)
{
    return refuse(turn, want, QN_P_MISSING_PARAMETER, param,
                  qn_arena_printf(turn->arena, "The parameter '%s' is required.", param));
}

bool qn_params_pair(struct qn_turn *turn, const char *first, bool with_default, struct qn_asset *asset,
                    struct qn_asset *quote, enum qn_want *want)
{
    const struct qn_config *config = turn->app->config;
    struct qn_str a = qn_request_param(turn->rq, first), q = qn_request_param(turn->rq, "quote");
    if (!a.p)
        return missing(turn, want, first);
    if (!q.p && !with_default)
        return missing(turn, want, "quote");
    if (qn_asset_parse(config, a, asset) != QN_OK)
        return refuse(turn, want, QN_P_INVALID_ASSET, first,
                      QN_STR("Give native, CODE-ISSUER, a contract (C...), fiat:CODE or crypto:TICKER."));
    if (!q.p)
        *quote = config->prices.reference;
    else if (qn_asset_parse(config, q, quote) != QN_OK)
        return refuse(turn, want, QN_P_INVALID_QUOTE, "quote",
                      QN_STR("Give native, CODE-ISSUER, a contract (C...), fiat:CODE or crypto:TICKER."));
    if (qn_asset_same_family(config, asset, quote))
        return refuse(turn, want, QN_P_IDENTITY_PAIR, q.p ? "quote" : first,
                      QN_STR("An asset has no price in itself; the two name the same asset."));
    return true;
}

static bool time_param(struct qn_turn *turn, const char *name, bool *has, int64_t *ms, enum qn_want *want)
{
    struct qn_str v = qn_request_param(turn->rq, name);
    *has = v.p != NULL;
    if (v.p && qn_when_parse_param(v, ms) != QN_OK)
        return refuse(turn, want, QN_P_INVALID_TIME, name,
                      QN_STR("Give RFC 3339 (2026-04-22T14:30:00Z) or whole seconds since the epoch."));
    return true;
}

bool qn_params_range(struct qn_turn *turn, bool default_asc, struct qn_range *range, enum qn_want *want)
{
    *range = (struct qn_range){.limit = LIMIT_DEFAULT, .asc = default_asc};
    if (!time_param(turn, "from", &range->has_from, &range->from_ms, want) ||
        !time_param(turn, "to", &range->has_to, &range->to_ms, want))
        return false;
    if (range->has_from && range->has_to && range->from_ms > range->to_ms)
        return refuse(turn, want, QN_P_INVALID_TIME, "from", QN_STR("'from' is after 'to'."));
    struct qn_str limit = qn_request_param(turn->rq, "limit");
    if (limit.p) {
        uint64_t v = 0;
        if (qn_str_u64(limit, LIMIT_MAX, &v) != QN_OK || v < 1)
            return refuse(turn, want, QN_P_INVALID_LIMIT, "limit", QN_STR("Give a whole number from 1 to 1000."));
        range->limit = (int)v;
    }
    struct qn_str order = qn_request_param(turn->rq, "order");
    if (order.p) {
        range->asc = qn_str_eq(order, QN_STR("asc"));
        if (!range->asc && !qn_str_eq(order, QN_STR("desc")))
            return refuse(turn, want, QN_P_INVALID_PARAMETER, "order", QN_STR("Give asc or desc."));
    }
    return true;
}

bool qn_params_bool(struct qn_turn *turn, const char *name, bool value_if_absent, bool *out, enum qn_want *want)
{
    struct qn_str v = qn_request_param(turn->rq, name);
    *out = v.p ? qn_str_eq(v, QN_STR("true")) : value_if_absent;
    if (v.p && !*out && !qn_str_eq(v, QN_STR("false")))
        return refuse(turn, want, QN_P_INVALID_PARAMETER, name, QN_STR("Give true or false."));
    return true;
}
