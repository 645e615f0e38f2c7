/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "cachekeys/cachekeys.h"
#include "link/scripts.h"
#include "market/price.h"
#include "prices/envelope.h"
#include "prices/params.h"
#include "prices/price.h"

/* What plan leaves for the later steps. */
struct state {
    struct qn_asset asset, quote; /* as asked, canonical */
    struct qn_price_ask ask;      /* as stored: a direct market in its own direction */
    bool inverse;                 /* the ask is the other way round */
    int window;
    struct qn_str key;
    int ttl;
    unsigned divergence;
};

static bool window_param(struct qn_turn *turn, int *window, enum qn_want *want)
{
    const struct qn_config_prices *prices = &turn->app->config->prices;
    struct qn_str v = qn_request_param(turn->rq, "window");
    uint64_t seconds = QN_KEY_DEFAULT_WINDOW;
    if (v.p && qn_str_u64(v, INT32_MAX, &seconds) != QN_OK)
        seconds = 0;
    for (size_t i = 0; i < prices->n_windows; i++)
        if ((uint64_t)prices->windows[i] == seconds) {
            *window = prices->windows[i];
            return true;
        }
    struct qn_buf b = {.arena = turn->arena};
    qn_buf_puts(&b, "The windows are, in seconds:");
    for (size_t i = 0; i < prices->n_windows; i++)
        qn_buf_printf(&b, " %d", prices->windows[i]);
    *want = qn_turn_problem(turn, QN_P_INVALID_WINDOW, "window", qn_buf_view(&b));
    return false;
}

/* The hot value's key: price: for the reference quote, else vwap: of the market in stored direction. */
static void choose_key(struct qn_turn *turn, struct state *s)
{
    struct qn_key key;
    enum qn_err err;
    s->ask.resolve = qn_asset_eq(&s->quote, &turn->app->config->prices.reference);
    if (s->ask.resolve) {
        s->ask.asset = s->asset;
        s->ask.quote = s->quote;
        err = qn_key_price(&key, qn_asset_str(&s->asset), s->window);
        s->ttl = qn_key_ttl(QN_KEY_PRICE, 0);
    } else {
        s->inverse = qn_asset_stored(&s->asset, &s->quote, &s->ask.asset, &s->ask.quote);
        err = qn_key_vwap(&key, qn_asset_str(&s->ask.asset), qn_asset_str(&s->ask.quote), s->window);
        s->ttl = qn_key_ttl(QN_KEY_VWAP, s->window);
    }
    if (err != QN_OK)
        abort(); /* a bug: assets and windows always fit in a key */
    s->key = qn_arena_copy(turn->arena, qn_key_str(&key));
}

static enum qn_want plan(struct qn_turn *turn)
{
    struct state *s = qn_arena_zalloc(turn->arena, sizeof *s);
    enum qn_want want;
    turn->state = s;
    if (!qn_params_pair(turn, "asset", true, &s->asset, &s->quote, &want) || !window_param(turn, &s->window, &want))
        return want;
    choose_key(turn, s);
    struct qn_cmd *cmds = qn_arena_array(turn->arena, 2, sizeof *cmds);
    cmds[0] = qn_envelope_get(turn, s->key);
    cmds[1] = qn_envelope_divergence_cmd(turn, &s->asset);
    turn->cmds = cmds;
    turn->n_cmds = 2;
    return QN_WANT_REDIS;
}

/* The answer from a value in stored direction. False: line 2 can't be inverted (corrupt). */
static bool respond(struct qn_turn *turn, const struct qn_hot *stored)
{
    struct state *s = turn->state;
    struct qn_hot hot = *stored;
    if (s->inverse &&
        qn_hot_invert(turn->arena, stored, qn_asset_str(&s->asset), qn_asset_str(&s->quote), &hot) != QN_OK)
        return false;
    unsigned lagging = qn_envelope_stale(turn, hot.h_ms);
    bool old = turn->now_ms - hot.observed_ms > turn->app->config->prices.stale_after_ms ||
               (hot.flags & QN_FLAG_LAST_TRADE);
    struct qn_envelope e = {
        .data = hot.data,
        .sources = hot.sources,
        .as_of_ms = hot.h_ms,
        .flags = hot.flags | s->divergence | lagging | (old ? QN_FLAG_STALE : 0u),
    };
    qn_envelope_put(turn, &e, hot.etag, qn_str_of(turn->app->config->prices.cache_control), lagging != 0);
    return true;
}

static enum qn_want ask_store(struct qn_turn *turn)
{
    struct state *s = turn->state;
    turn->query = qn_price_query(turn->app->config, turn->arena, &s->ask, 1, &s->window, 1);
    return QN_WANT_ROWS;
}

static enum qn_want replies(struct qn_turn *turn, enum qn_err err, const struct qn_val *r, size_t n)
{
    struct state *s = turn->state;
    struct qn_hot hot;
    if (err != QN_OK || n != 2)
        return ask_store(turn);
    if (r[1].kind == QN_VAL_STR)
        s->divergence = qn_envelope_divergence(r[1].str, &s->quote);
    /* An error reply, a value that is corrupt or too far behind the clock: a miss, which the write-back heals. */
    if (r[0].kind != QN_VAL_STR || qn_hot_read(r[0].str, &hot) != QN_OK ||
        turn->now_ms - hot.h_ms > turn->app->config->prices.max_hot_lag_ms || !respond(turn, &hot))
        return ask_store(turn);
    turn->outcome = QN_OUTCOME_HIT;
    return QN_WANT_DONE;
}

/* Repopulates: the script keeps a value that is as new or newer. */
static void write_back(struct qn_turn *turn, const struct qn_hot *hot)
{
    struct state *s = turn->state;
    const struct qn_str argv[] = {
        s->key,
        hot->text,
        qn_arena_printf(turn->arena, "%d", s->ttl),
        qn_arena_printf(turn->arena, "%lld", (long long)hot->h_ms),
        qn_arena_printf(turn->arena, "%lld", (long long)hot->observed_ms),
    };
    struct qn_cmd *cmd = qn_arena_array(turn->arena, 1, sizeof *cmd);
    *cmd = qn_turn_cmd(turn, argv, QN_LEN(argv));
    cmd->script = qn_script_get("fill");
    cmd->nkeys = 1;
    turn->after = cmd;
    turn->n_after = 1;
}

static enum qn_want rows(struct qn_turn *turn, enum qn_err err, const struct qn_rows *rows)
{
    struct state *s = turn->state;
    struct qn_price_answer *answers;
    if (err == QN_OK)
        err = qn_price_answers(turn->arena, &s->ask, 1, &s->window, 1, rows, &answers);
    if (err == QN_ECORRUPT || err == QN_EPEER)
        return qn_turn_problem(turn, QN_P_INTERNAL_ERROR, NULL, QN_STR("The store's answer could not be used."));
    if (err != QN_OK)
        return qn_turn_problem(turn, QN_P_PRICE_UNAVAILABLE, NULL,
                               QN_STR("Neither the cache nor the store has an answer at the moment."));
    turn->outcome = turn->redis_down ? QN_OUTCOME_STALE : QN_OUTCOME_MISS;
    if (answers->err == QN_MISS)
        return qn_turn_problem(turn, QN_P_PRICE_NOT_FOUND, NULL,
                               qn_arena_printf(turn->arena, "There is no trade of %s in %s to price it by.",
                                               s->asset.text, s->quote.text));
    if (!respond(turn, &answers->hot))
        return qn_turn_problem(turn, QN_P_INTERNAL_ERROR, NULL, QN_STR("The store's answer could not be used."));
    if (!turn->redis_down)
        write_back(turn, &answers->hot);
    return QN_WANT_DONE;
}

static const char *const PARAMS[] = {"asset", "quote", "window", NULL};

const struct qn_route qn_prices_price = {"/v1/price", QN_GET, PARAMS, plan, replies, rows};
