/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/sources.h"

#include <stdlib.h>

#include "base/when.h"
#include "cachekeys/cachekeys.h"
#include "ingest/map.h"

struct qn_sources {
    const struct qn_config *config;
    struct qn_map *by_name;
    size_t n;
    struct qn_source items[QN_LANE_MAX_MARKS];
    int64_t all_ms;        /* the newest watermark that was for all; INT64_MIN: none */
};

struct qn_sources *qn_sources_new(const struct qn_config *config)
{
    struct qn_sources *s = qn_xcalloc(1, sizeof *s);
    s->config = config;
    s->by_name = qn_map_new(QN_LANE_MAX_MARKS);
    s->all_ms = INT64_MIN;
    return s;
}

void qn_sources_free(struct qn_sources *s)
{
    if (!s)
        return;
    qn_map_free(s->by_name);
    free(s);
}

struct qn_source *qn_sources_get(struct qn_sources *s, struct qn_str name)
{
    int64_t at;
    if (qn_map_get(s->by_name, name, &at) == QN_OK)
        return &s->items[at];
    if (s->n == QN_LANE_MAX_MARKS)
        return NULL;
    const struct qn_config_source *config = qn_config_source(s->config, name);
    struct qn_source *new = &s->items[s->n];
    *new = (struct qn_source){.scale = config ? config->scale : -1, .watermark_ms = s->all_ms, .event_ms = INT64_MIN};
    memcpy(new->name, name.p, name.n);
    qn_map_put(s->by_name, name, (int64_t)s->n++);
    return new;
}

static void seen(struct qn_source *source, int64_t watermark_ms, int64_t now_ms)
{
    if (source->watermark_ms < watermark_ms)
        source->watermark_ms = watermark_ms;
    source->seen_ms = now_ms;
    source->moved = true;
}

void qn_sources_trade(struct qn_source *source, int64_t ts_ms, int64_t now_ms)
{
    if (source->event_ms < ts_ms)
        source->event_ms = ts_ms;
    seen(source, ts_ms, now_ms);
}

void qn_sources_watermark(struct qn_sources *s, struct qn_source *source, int64_t ts_ms, int64_t now_ms)
{
    if (source) {
        seen(source, ts_ms, now_ms);
        return;
    }
    if (s->all_ms < ts_ms)
        s->all_ms = ts_ms;
    for (size_t i = 0; i < s->n; i++)
        seen(&s->items[i], ts_ms, now_ms);
}

size_t qn_sources_marks(struct qn_sources *s, struct qn_lane_mark *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct qn_source *source = &s->items[i];
        if (source->moved && source->id)
            out[n++] = (struct qn_lane_mark){source->id, source->watermark_ms, source->seen_ms};
        source->moved = false;
    }
    return n;
}

static void put_moment(struct qn_buf *b, const char *name, int64_t ms)
{
    qn_buf_printf(b, ",\"%s\":", name);
    if (ms == INT64_MIN) {
        qn_buf_puts(b, "null");
        return;
    }
    qn_buf_char(b, '"');
    qn_when_put(b, ms);
    qn_buf_char(b, '"');
}

static void post_health(const struct qn_source *source, struct qn_redis *redis, int64_t now_ms)
{
    struct qn_key key;
    if (qn_key_health(&key, qn_str_of(source->name)))
        return; /* a valid name always makes a key */
    struct qn_buf value = {0};
    qn_buf_puts(&value, "{\"source\":");
    qn_buf_json(&value, qn_str_of(source->name));
    qn_buf_puts(&value, ",\"status\":\"ok\"");
    put_moment(&value, "last_event_at", source->event_ms);
    put_moment(&value, "last_poll_at", source->seen_ms);
    put_moment(&value, "watermark", source->watermark_ms);
    int64_t lag_ms = now_ms - source->watermark_ms;
    qn_buf_puts(&value, ",\"lag_seconds\":");
    qn_buf_i64(&value, lag_ms > 0 ? lag_ms / 1000 : 0);
    qn_buf_puts(&value, ",\"cursor\":null}");
    struct qn_buf ttl = {0};
    qn_buf_i64(&ttl, qn_key_ttl(QN_KEY_HEALTH, 0));
    struct qn_str argv[] = {QN_STR("SET"), {key.s, key.n}, qn_buf_view(&value), QN_STR("EX"), qn_buf_view(&ttl)};
    struct qn_cmd cmd = {.argc = QN_LEN(argv), .argv = argv};
    qn_redis_post(redis, &cmd, 1);
    qn_buf_free(&value);
    qn_buf_free(&ttl);
}

void qn_sources_health(const struct qn_sources *s, struct qn_redis *redis, int64_t now_ms)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->items[i].moved && s->items[i].id)
            post_health(&s->items[i], redis, now_ms);
    }
}
