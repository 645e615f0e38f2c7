/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "prices/range.h"

static const char PINNED[] = "public, max-age=86400, s-maxage=31536000, immutable";

enum qn_want qn_range_bad_cursor(struct qn_turn *turn)
{
    return qn_turn_problem(turn, QN_P_INVALID_CURSOR, "cursor",
                           QN_STR("This cursor is not one that this server gave for this query."));
}

bool qn_range_cursor(struct qn_turn *turn, struct qn_str query, bool order_given, struct qn_range *range,
                     struct qn_str *key, enum qn_want *want)
{
    struct qn_str text = qn_request_param(turn->rq, "cursor");
    struct qn_cursor c = {.query = query};
    *key = QN_STR_NULL;
    if (!text.p)
        return true;
    if (qn_cursor_read(turn->arena, text, &c) != QN_OK || (range->has_from && range->from_ms != c.from_ms) ||
        (range->has_to && (!c.has_to || range->to_ms != c.to_ms)) || (order_given && range->asc != c.asc)) {
        *want = qn_range_bad_cursor(turn);
        return false;
    }
    range->has_from = true;
    range->from_ms = c.from_ms;
    range->has_to = c.has_to;
    range->to_ms = c.to_ms;
    range->asc = c.asc;
    *key = c.key;
    return true;
}

enum qn_want qn_range_ask_redis(struct qn_turn *turn, const struct qn_asset *base)
{
    struct qn_cmd *cmd = qn_arena_array(turn->arena, 1, sizeof *cmd);
    *cmd = qn_envelope_divergence_cmd(turn, base);
    turn->cmds = cmd;
    turn->n_cmds = 1;
    return QN_WANT_REDIS;
}

unsigned qn_range_divergence(enum qn_err err, const struct qn_val *r, size_t n, const struct qn_asset *quote)
{
    return err == QN_OK && n == 1 && r[0].kind == QN_VAL_STR ? qn_envelope_divergence(r[0].str, quote) : 0;
}

struct qn_str qn_range_param(struct qn_arena *arena, bool has, int64_t ms)
{
    return has ? qn_arena_printf(arena, "%lld", (long long)ms) : QN_STR_NULL;
}

static bool read_ms(struct qn_str s, int64_t *out)
{
    return qn_str_i64(s, INT64_MAX, out) == QN_OK;
}

static bool is_true(struct qn_str s)
{
    return s.n == 1 && s.p[0] == 't';
}

enum qn_err qn_range_read(const struct qn_rows *rows, size_t ncols, const struct qn_range *range,
                          struct qn_range_head *head)
{
    if (rows->nrows == 0 || rows->ncols != ncols)
        return QN_ECORRUPT;
    const struct qn_str *c = rows->cells;
    *head = (struct qn_range_head){.reduced = is_true(c[1]), .pending = is_true(c[6])};
    if (!c[0].p)
        return QN_MISS;
    if (!read_ms(c[0], &head->h_ms) || !read_ms(c[2], &head->from_ms) || !read_ms(c[3], &head->to_ms))
        return QN_ECORRUPT;
    if (range->has_from)
        head->from_ms = range->from_ms;
    if (range->has_to)
        head->to_ms = range->to_ms;
    if (c[4].p && c[5].p) {
        if (!read_ms(c[4], &head->since_ms) || !read_ms(c[5], &head->till_ms))
            return QN_ECORRUPT;
        head->since_ms = head->since_ms > head->from_ms ? head->since_ms : head->from_ms;
        head->till_ms = head->till_ms < head->to_ms ? head->till_ms : head->to_ms;
        head->covered = head->since_ms < head->till_ms;
    }
    head->n = c[QN_RANGE_COLUMNS].p ? rows->nrows : 0;
    return QN_OK;
}

void qn_range_put_coverage(struct qn_buf *b, const struct qn_range_head *head)
{
    if (!head->covered) {
        qn_buf_puts(b, ",\"coverage\":{\"from\":null,\"to\":null}");
        return;
    }
    qn_buf_puts(b, ",\"coverage\":{\"from\":\"");
    qn_when_put(b, head->since_ms);
    qn_buf_puts(b, "\",\"to\":\"");
    qn_when_put(b, head->till_ms);
    qn_buf_puts(b, "\"}");
}

/* The Cache-Control of contract-prices, section 3. */
static struct qn_str cacheability(const struct qn_turn *turn, const struct qn_range *range,
                                  const struct qn_range_head *head, int64_t last_end_ms, bool open)
{
    if (!range->has_to || open || last_end_ms > head->h_ms || head->pending)
        return QN_STR("public, max-age=5");
    /* What is pinned is the same for a year: the state of a source now doesn't belong into it. */
    if (last_end_ms < head->h_ms - turn->app->config->prices.settle_ms && head->covered && !head->reduced)
        return qn_str_of(PINNED);
    return QN_STR("public, max-age=60");
}

/* "a,b" -> ["a","b"]; how many into *n. */
static struct qn_str names_json(struct qn_arena *arena, struct qn_str names, size_t *n)
{
    struct qn_buf b = {.arena = arena};
    *n = 0;
    qn_buf_char(&b, '[');
    while (names.n) {
        const char *comma = memchr(names.p, ',', names.n);
        struct qn_str name = {names.p, comma ? (size_t)(comma - names.p) : names.n};
        if ((*n)++)
            qn_buf_char(&b, ',');
        qn_buf_json(&b, name);
        names.p += name.n + (comma != NULL);
        names.n -= name.n + (comma != NULL);
    }
    qn_buf_char(&b, ']');
    return qn_buf_view(&b);
}

void qn_range_put(struct qn_turn *turn, const struct qn_range *range, const struct qn_range_head *head,
                  struct qn_str query, struct qn_str data, struct qn_str names, unsigned divergence,
                  int64_t last_end_ms, struct qn_str key, bool open)
{
    size_t n;
    unsigned stale = qn_envelope_stale(turn, head->h_ms);
    struct qn_envelope e = {
        .data = data,
        .sources = names_json(turn->arena, names, &n),
        .as_of_ms = head->to_ms < head->h_ms ? head->to_ms : head->h_ms,
        .flags = stale | divergence | (head->reduced ? QN_FLAG_REDUCED_REDUNDANCY : 0u) |
                 (n == 1 ? QN_FLAG_SINGLE_SOURCE : 0u),
        .list = true,
    };
    if (key.p) {
        /* Open buckets end behind H: such a range keeps no end, or its next page would end at H. */
        struct qn_cursor c = {query, head->from_ms, head->to_ms, range->has_to || !open, range->asc, key};
        e.next = qn_cursor_put(turn->arena, &c);
    }
    turn->outcome = turn->redis_down ? QN_OUTCOME_STALE : QN_OUTCOME_MISS;
    qn_envelope_put(turn, &e, QN_STR_NULL, cacheability(turn, range, head, last_end_ms, open), stale != 0);
}

enum qn_want qn_range_failed(struct qn_turn *turn, enum qn_err err)
{
    if (err == QN_MISS)
        return qn_turn_problem(turn, QN_P_WARMING_UP, NULL, QN_STR("No horizon is decided yet; the aggregator has not run."));
    if (err == QN_ECORRUPT || err == QN_EPEER)
        return qn_turn_problem(turn, QN_P_INTERNAL_ERROR, NULL, QN_STR("The store's answer could not be used."));
    return qn_turn_problem(turn, QN_P_STORE_UNAVAILABLE, NULL, QN_STR("The store can't be reached at the moment."));
}

/* Whether list (comma-separated) holds name; *after: where it, or the first name behind it in order, begins. */
static bool find_name(struct qn_str list, struct qn_str name, size_t *after)
{
    size_t i = 0;
    while (i < list.n) {
        const char *comma = memchr(list.p + i, ',', list.n - i);
        struct qn_str item = {list.p + i, comma ? (size_t)(comma - list.p) - i : list.n - i};
        int c = qn_str_cmp(item, name);
        *after = i;
        if (c >= 0)
            return c == 0;
        i += item.n + 1;
    }
    *after = list.n;
    return false;
}

struct qn_str qn_range_merge(struct qn_arena *arena, struct qn_str list, struct qn_str names)
{
    while (names.n) {
        const char *comma = memchr(names.p, ',', names.n);
        struct qn_str name = {names.p, comma ? (size_t)(comma - names.p) : names.n};
        size_t at;
        if (!find_name(list, name, &at)) {
            if (at < list.n)
                list = qn_arena_printf(arena, "%.*s%.*s,%.*s", (int)at, list.p, QN_FMT(name), (int)(list.n - at),
                                       list.p + at);
            else
                list = qn_arena_printf(arena, "%.*s%s%.*s", QN_FMT(list), list.n ? "," : "", QN_FMT(name));
        }
        names.p += name.n + (comma != NULL);
        names.n -= name.n + (comma != NULL);
    }
    return list;
}
