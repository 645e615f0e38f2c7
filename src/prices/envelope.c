/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include <sodium.h>

#include "base/json.h"
#include "base/when.h"
#include "cachekeys/cachekeys.h"
#include "prices/envelope.h"

unsigned qn_envelope_stale(const struct qn_turn *turn, int64_t h_ms)
{
    const struct qn_config_prices *prices = &turn->app->config->prices;
    int64_t lag = turn->now_ms - h_ms;
    return turn->redis_down || lag > prices->max_lag_ms || lag < -prices->grace_ms ? QN_FLAG_STALE : 0;
}

struct qn_cmd qn_envelope_get(struct qn_turn *turn, struct qn_str key)
{
    const struct qn_str argv[] = {QN_STR("GETRANGE"), qn_arena_copy(turn->arena, key), QN_STR("0"), QN_STR("65535")};
    return qn_turn_cmd(turn, argv, QN_LEN(argv));
}

struct qn_cmd qn_envelope_divergence_cmd(struct qn_turn *turn, const struct qn_asset *asset)
{
    struct qn_key key;
    if (qn_key_div(&key, qn_asset_str(asset)) != QN_OK)
        abort(); /* a bug: an asset always fits in a key */
    return qn_envelope_get(turn, qn_key_str(&key));
}

static bool is_true(struct json_object *o, const char *name)
{
    struct json_object *member;
    return json_object_object_get_ex(o, name, &member) && json_object_is_type(member, json_type_boolean) &&
           json_object_get_boolean(member);
}

unsigned qn_envelope_divergence(struct qn_str text, const struct qn_asset *quote)
{
    struct json_object *o = NULL, *per_quote;
    const char *why;
    unsigned flags = 0;
    if (text.n == 0) /* nearly always: no reader is made for it */
        return 0;
    struct qn_json_reader *reader = qn_json_reader_new();
    if (qn_json_read(reader, text, &o, &why) == QN_OK && json_object_is_type(o, json_type_object) &&
        json_object_object_get_ex(o, quote->text, &per_quote) && json_object_is_type(per_quote, json_type_object)) {
        flags |= is_true(per_quote, "checked") ? QN_FLAG_DIVERGENCE_CHECKED : 0u;
        flags |= is_true(per_quote, "warning") ? QN_FLAG_DIVERGENCE_WARNING : 0u;
    }
    json_object_put(o);
    qn_json_reader_free(reader);
    return flags;
}

static void put_flag(struct qn_buf *b, const char *name, unsigned flags, unsigned bit)
{
    qn_buf_puts(b, name);
    qn_buf_puts(b, flags & bit ? "true" : "false");
}

static struct qn_str hash_body(struct qn_arena *arena, struct qn_str body)
{
    unsigned char hash[crypto_generichash_BYTES_MIN];
    crypto_generichash(hash, sizeof hash, (const unsigned char *)body.p, body.n, NULL, 0);
    char *hex = qn_arena_alloc(arena, 17);
    sodium_bin2hex(hex, 17, hash, 8);
    return (struct qn_str){hex, 16};
}

void qn_envelope_put(struct qn_turn *turn, const struct qn_envelope *e, struct qn_str etag, struct qn_str cacheable,
                     bool no_store)
{
    struct qn_buf b = {.arena = turn->arena};
    qn_buf_reserve(&b, 384 + e->data.n + e->sources.n + e->next.n);
    qn_buf_puts(&b, "{\"data\":");
    qn_buf_str(&b, e->data);
    qn_buf_puts(&b, ",\"as_of\":\"");
    qn_when_put(&b, e->as_of_ms);
    put_flag(&b, "\",\"stale_flag\":", e->flags, QN_FLAG_STALE);
    qn_buf_puts(&b, ",\"sources\":");
    qn_buf_str(&b, e->sources);
    put_flag(&b, ",\"flags\":{\"triangulated\":", e->flags, QN_FLAG_TRIANGULATED);
    put_flag(&b, ",\"divergence_warning\":", e->flags, QN_FLAG_DIVERGENCE_WARNING);
    put_flag(&b, ",\"divergence_checked\":", e->flags, QN_FLAG_DIVERGENCE_CHECKED);
    put_flag(&b, ",\"reduced_redundancy\":", e->flags, QN_FLAG_REDUCED_REDUNDANCY);
    put_flag(&b, ",\"single_source\":", e->flags, QN_FLAG_SINGLE_SOURCE);
    qn_buf_char(&b, '}');
    if (e->list) {
        qn_buf_puts(&b, ",\"pagination\":{\"next\":");
        if (e->next.p)
            qn_buf_json(&b, e->next);
        else
            qn_buf_puts(&b, "null");
        qn_buf_char(&b, '}');
    }
    qn_buf_char(&b, '}');
    unsigned read_time = e->flags & (QN_FLAG_STALE | QN_FLAG_DIVERGENCE_CHECKED | QN_FLAG_DIVERGENCE_WARNING);
    if (!etag.p)
        etag = hash_body(turn->arena, qn_buf_view(&b));
    else if (read_time)
        etag = qn_arena_printf(turn->arena, "%.*s-%x", QN_FMT(etag), read_time);
    turn->rs.status = 200;
    turn->rs.content_type = "application/json";
    turn->rs.etag = qn_arena_printf(turn->arena, "\"%.*s\"", QN_FMT(etag));
    if (no_store)
        turn->rs.cache_control = QN_STR("no-store");
    else if (turn->rq->authorization.p || turn->rq->api_key.p)
        turn->rs.cache_control = QN_STR("private, max-age=5");
    else
        turn->rs.cache_control = cacheable;
    turn->rs.body = qn_buf_view(&b);
}
