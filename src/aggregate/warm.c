/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "aggregate/warm.h"
#include "base/clock.h"
#include "base/log.h"
#include "cachekeys/cachekeys.h"
#include "link/scripts.h"
#include "market/price.h"
#include "market/statements.h"

enum {
    CHUNK = 50,                /* asks a statement, each in all windows */
    SCRIPT_KEYS = 100,         /* keys a script call */
    PROBES = 3,
    PROBE_MS = 40000,          /* a key written so long ago must still be there (it lives 60 s) */
    REDIS_MS = 2000,           /* a pipeline's deadline; the link's own is shorter */
};

/* One price that is kept hot: a market's own (vwap:), or an asset's in the reference quote (price:). */
struct entry {
    struct qn_price_ask ask;
    int32_t pair;              /* the market; of an asset: 0 */
    int64_t day;               /* trades in the day before H, and in 30 days: the order */
    int64_t month;
    bool due;
};

struct probe {
    struct qn_key key;
    int64_t written;           /* monotonic ms; 0: none */
};

struct qn_warm {
    struct qn_store *store;
    struct qn_redis *redis;
    const struct qn_config *config;
    struct qn_arena *arena;
    struct entry *entries;     /* most traded first */
    size_t n;
    size_t cap;
    size_t n_due;
    size_t at;                 /* where the pass is; entries before it may be due again */
    bool relist;               /* a pass over everything is to begin with a new list */
    bool again;                /* when the pass under way has ended */
    bool down;                 /* Redis, as far as we know */
    bool refused;              /* it refused the last write (memory) */
    int64_t since;
    struct probe probes[PROBES];
    size_t next_probe;
    /* of the pass, for the log */
    int64_t pass_started;      /* monotonic ms; 0: no pass */
    int64_t pass_keys;
    int64_t pass_asks;
};

struct qn_warm *qn_warm_new(struct qn_store *store, struct qn_redis *redis, const struct qn_config *config)
{
    struct qn_warm *w = qn_xcalloc(1, sizeof *w);
    w->store = store;
    w->redis = redis;
    w->config = config;
    w->arena = qn_arena_new(1 << 18);
    return w;
}

void qn_warm_free(struct qn_warm *w)
{
    if (!w)
        return;
    qn_arena_free(w->arena);
    free(w->entries);
    free(w);
}

static void begin_pass(struct qn_warm *w)
{
    if (w->pass_started)
        return;
    w->pass_started = qn_clock_mono_ms();
    w->pass_keys = w->pass_asks = 0;
}

/* From the top, whatever is under way. */
static void start_over(struct qn_warm *w)
{
    begin_pass(w);
    w->relist = true;
    w->again = false;
}

void qn_warm_all(struct qn_warm *w)
{
    w->since = qn_clock_mono_ms();
    if (w->n_due > 0)
        w->again = true;
    else
        start_over(w);
}

static void mark(struct qn_warm *w, size_t i)
{
    if (!w->entries[i].due) {
        w->entries[i].due = true;
        w->n_due++;
    }
    if (i < w->at)
        w->at = i;
}

static int compare_pairs(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int compare_assets(const void *a, const void *b)
{
    const struct qn_asset *x = a, *y = b;
    return qn_str_cmp(qn_asset_str(x), qn_asset_str(y));
}

void qn_warm_pairs(struct qn_warm *w, const int32_t *pairs, size_t n)
{
    if (n == 0 || w->n == 0 || w->relist)
        return; /* a new list makes them due */
    int32_t *sorted = qn_xmalloc(n * sizeof *sorted);
    memcpy(sorted, pairs, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_pairs);
    /* An asset's price is pooled over all of its names. */
    struct qn_asset *assets = qn_xcalloc(n < w->n ? n : w->n, 2 * QN_ASSET_MAX_FAMILY * sizeof *assets);
    size_t n_assets = 0;
    bool hops = false;
    for (size_t i = 0; i < w->n; i++) {
        const struct entry *e = &w->entries[i];
        if (e->pair != 0 && bsearch(&e->pair, sorted, n, sizeof *sorted, compare_pairs)) {
            mark(w, i);
            n_assets += qn_asset_family(w->config, &e->ask.asset, assets + n_assets, QN_ASSET_MAX_FAMILY);
            n_assets += qn_asset_family(w->config, &e->ask.quote, assets + n_assets, QN_ASSET_MAX_FAMILY);
            hops = hops || qn_price_carries_hops(w->config, &e->ask.asset, &e->ask.quote);
        }
    }
    qsort(assets, n_assets, sizeof *assets, compare_assets);
    for (size_t i = 0; n_assets > 0 && i < w->n; i++) {
        const struct entry *e = &w->entries[i];
        if (e->pair == 0 && (hops || bsearch(&e->ask.asset, assets, n_assets, sizeof *assets, compare_assets)))
            mark(w, i);
    }
    free(assets);
    free(sorted);
    if (w->n_due > 0)
        begin_pass(w);
}

bool qn_warm_due(const struct qn_warm *w)
{
    return w->relist || w->n_due > 0;
}

int64_t qn_warm_since(const struct qn_warm *w)
{
    return w->since;
}

/* QN_EUNAVAIL means Redis to our caller. */
static enum qn_err of_postgres(enum qn_err err)
{
    return err == QN_EUNAVAIL ? QN_ECANCEL : err;
}

/* ---- the list */

static struct entry *add(struct qn_warm *w)
{
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 256;
        w->entries = qn_xrealloc(w->entries, w->cap * sizeof *w->entries);
    }
    memset(&w->entries[w->n], 0, sizeof w->entries[0]);
    return &w->entries[w->n++];
}

static int compare_by_asset(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return compare_assets(&x->ask.asset, &y->ask.asset);
}

/* Most traded first; the rest only makes the order one. */
static int compare_by_trades(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->day != y->day)
        return x->day > y->day ? -1 : 1;
    if (x->month != y->month)
        return x->month > y->month ? -1 : 1;
    int c = compare_assets(&x->ask.asset, &y->ask.asset);
    return c ? c : compare_assets(&x->ask.quote, &y->ask.quote);
}

/* The asset's own price, and that of every other name of it: whoever asks for one of the family gets the family's. */
static void add_asset(struct qn_warm *w, const struct qn_asset *asset, int64_t day, int64_t month)
{
    const struct qn_asset *reference = &w->config->prices.reference;
    if (qn_asset_same_family(w->config, asset, reference))
        return;
    struct qn_asset family[16];
    size_t n = qn_asset_family(w->config, asset, family, QN_LEN(family));
    for (size_t i = 0; i < n; i++) {
        struct entry *e = add(w);
        e->ask = (struct qn_price_ask){.asset = family[i], .quote = *reference, .resolve = true};
        e->day = day;
        e->month = month;
    }
}

/* Sums the assets' entries [from, n) of one asset into one. */
static void merge_assets(struct qn_warm *w, size_t from)
{
    if (w->n == from)
        return;
    qsort(&w->entries[from], w->n - from, sizeof w->entries[0], compare_by_asset);
    size_t last = from;
    for (size_t i = from + 1; i < w->n; i++) {
        struct entry *e = &w->entries[i], *into = &w->entries[last];
        if (compare_by_asset(e, into) == 0) {
            into->day += e->day;
            into->month += e->month;
        } else {
            w->entries[++last] = *e;
        }
    }
    w->n = last + 1;
}

/* Every market with a trade in its lookback, and every asset in one. A trade after H counts too: the price then says
 * whether there is one before. */
static enum qn_err list(struct qn_warm *w)
{
    static const char SQL[] =
        "WITH k AS (SELECT closed_until AS h FROM progress WHERE source_id = 0)"
        " SELECT p.id, b.canonical, q.canonical, coalesce(d.n, 0), coalesce(m.n, 0)"
        " FROM (SELECT pair_id, max(last_ts) AS ts FROM pair_sources GROUP BY pair_id) l"
        " JOIN pairs p ON p.id = l.pair_id JOIN assets b ON b.id = p.base JOIN assets q ON q.id = p.quote CROSS JOIN k"
        " CROSS JOIN LATERAL (SELECT sum(c.trades) AS n FROM candles c WHERE c.pair_id = p.id AND c.grain = 3600"
        "  AND c.t >= k.h - interval '24 hours' AND c.t < k.h) d"
        " CROSS JOIN LATERAL (SELECT sum(c.trades) AS n FROM candles c WHERE c.pair_id = p.id AND c.grain = 86400"
        "  AND c.t >= k.h - interval '30 days' AND c.t < k.h) m"
        " WHERE l.ts >= horizon(p.id) - $1::int8 * interval '1 millisecond'";
    struct qn_buf lookback = {0};
    qn_buf_i64(&lookback, w->config->prices.lookback_ms);
    struct qn_str param = qn_buf_view(&lookback);
    struct qn_rows rows;
    enum qn_err err = of_postgres(qn_store_run(w->store, SQL, 1, &param, &rows));
    qn_buf_free(&lookback);
    if (err != QN_OK)
        return err;
    w->n = 0;
    for (size_t i = 0; i < rows.nrows; i++) {
        struct qn_asset base, quote;
        int64_t pair, day, month;
        if (qn_store_i64(&rows, i, 0, &pair) != QN_OK || qn_store_i64(&rows, i, 3, &day) != QN_OK ||
            qn_store_i64(&rows, i, 4, &month) != QN_OK)
            return QN_ECORRUPT;
        if (qn_asset_parse_canonical(w->config, qn_rows_cell(&rows, i, 1), &base) != QN_OK ||
            qn_asset_parse_canonical(w->config, qn_rows_cell(&rows, i, 2), &quote) != QN_OK ||
            qn_asset_same_family(w->config, &base, &quote))
            continue; /* no reader can ask for it: its ticker isn't configured any more, or its sides are one asset */
        struct entry *e = add(w);
        e->ask = (struct qn_price_ask){.asset = base, .quote = quote};
        e->pair = (int32_t)pair;
        e->day = day;
        e->month = month;
    }
    size_t markets = w->n;
    for (size_t i = 0; i < markets; i++) {
        struct entry e = w->entries[i];
        add_asset(w, &e.ask.asset, e.day, e.month);
        add_asset(w, &e.ask.quote, e.day, e.month);
    }
    merge_assets(w, markets);
    if (w->n > 0)
        qsort(w->entries, w->n, sizeof w->entries[0], compare_by_trades);
    for (size_t i = 0; i < w->n; i++)
        w->entries[i].due = true;
    w->n_due = w->n;
    w->at = 0;
    w->relist = false;
    return QN_OK;
}

/* ---- writing */

/* The link logs the change. */
static void set_down(struct qn_warm *w, bool down)
{
    if (down == w->down)
        return;
    w->down = down;
    if (!down) {
        memset(w->probes, 0, sizeof w->probes);
        start_over(w);
    }
}

/* Runs a pipeline; says whether Redis is there. */
static enum qn_err ask_redis(struct qn_warm *w, const struct qn_cmd *cmds, size_t n, const struct qn_val **replies)
{
    enum qn_err err = qn_redis_run(w->redis, cmds, n, qn_clock_mono_ms() + REDIS_MS, w->arena, replies);
    set_down(w, err != QN_OK);
    return err == QN_OK ? QN_OK : QN_EUNAVAIL;
}

static enum qn_err ping(struct qn_warm *w)
{
    const struct qn_str argv[] = {QN_STR("PING")};
    const struct qn_cmd cmd = {.argc = 1, .argv = argv};
    const struct qn_val *reply;
    return ask_redis(w, &cmd, 1, &reply);
}

struct writes {
    size_t n;
    struct qn_key *keys;
    struct qn_str *values;
    int *ttls;
};

static void add_write(struct writes *out, const struct entry *e, int window, const struct qn_price_answer *answer)
{
    if (answer->err != QN_OK || (answer->hot.flags & QN_FLAG_LAST_TRADE))
        return; /* nothing in the lookback: a key that is there runs out */
    struct qn_key *key = &out->keys[out->n];
    struct qn_str asset = qn_asset_str(&e->ask.asset);
    enum qn_err err = e->pair ? qn_key_vwap(key, asset, qn_asset_str(&e->ask.quote), window)
                              : qn_key_price(key, asset, window);
    if (err != QN_OK)
        return; /* can't be: canonical assets are short, windows are checked */
    out->ttls[out->n] = e->pair ? qn_key_ttl(QN_KEY_VWAP, window) : qn_key_ttl(QN_KEY_PRICE, 0);
    out->values[out->n] = answer->hot.text;
    out->n++;
}

/* The writes as calls of hot.lua in one pipeline. */
static enum qn_err write_keys(struct qn_warm *w, const struct writes *writes)
{
    size_t calls = (writes->n + SCRIPT_KEYS - 1) / SCRIPT_KEYS;
    struct qn_cmd *cmds = qn_arena_array(w->arena, calls, sizeof *cmds);
    for (size_t c = 0; c < calls; c++) {
        size_t first = c * SCRIPT_KEYS, n = writes->n - first < SCRIPT_KEYS ? writes->n - first : SCRIPT_KEYS;
        struct qn_str *argv = qn_arena_array(w->arena, 3 * n, sizeof *argv);
        for (size_t i = 0; i < n; i++) {
            argv[i] = qn_key_str(&writes->keys[first + i]);
            argv[n + 2 * i] = qn_arena_printf(w->arena, "%d", writes->ttls[first + i]);
            argv[n + 2 * i + 1] = writes->values[first + i];
        }
        cmds[c] = (struct qn_cmd){.script = qn_script_get("hot"), .nkeys = n, .argc = 3 * n, .argv = argv};
    }
    const struct qn_val *replies;
    enum qn_err err = ask_redis(w, cmds, calls, &replies);
    if (err != QN_OK)
        return err;
    struct qn_str refusal = QN_STR_NULL;
    for (size_t c = 0; c < calls; c++) {
        if (replies[c].kind == QN_VAL_INT)
            w->pass_keys += replies[c].num;
        else
            refusal = replies[c].kind == QN_VAL_ERROR ? replies[c].str : QN_STR("unexpected reply");
    }
    if (refusal.p && !w->refused)
        qn_log_warn("redis-refuses", QN_F_STR("reason", refusal)); /* full: reads go on, writes are skipped */
    w->refused = refusal.p != NULL;
    if (!w->refused) {
        w->probes[w->next_probe] = (struct probe){writes->keys[0], qn_clock_mono_ms()};
        w->next_probe = (w->next_probe + 1) % PROBES;
    }
    return QN_OK;
}

/* The next entries that are due, at most CHUNK, from where the pass is; indices into out. */
static size_t choose(struct qn_warm *w, size_t *out)
{
    size_t n = 0;
    for (size_t looked = 0; looked < w->n && n < CHUNK && n < w->n_due; looked++) {
        if (w->at >= w->n)
            w->at = 0;
        if (w->entries[w->at].due)
            out[n++] = w->at;
        w->at++;
    }
    return n;
}

static enum qn_err write_chunk(struct qn_warm *w, const size_t *chosen, size_t n)
{
    const int *windows = w->config->prices.windows;
    size_t nw = w->config->prices.n_windows;
    qn_arena_reset(w->arena);
    struct qn_price_ask *asks = qn_arena_array(w->arena, n, sizeof *asks);
    for (size_t i = 0; i < n; i++)
        asks[i] = w->entries[chosen[i]].ask;
    struct qn_query query = qn_price_query(w->config, w->arena, asks, n, windows, nw);
    struct qn_rows rows;
    enum qn_err err = of_postgres(qn_store_run_prepared(w->store, &query, w->arena, &rows));
    struct qn_price_answer *answers;
    if (err == QN_OK)
        err = qn_price_answers(w->arena, asks, n, windows, nw, &rows, &answers);
    if (err != QN_OK)
        return err;
    struct writes writes = {
        .keys = qn_arena_array(w->arena, n * nw, sizeof *writes.keys),
        .values = qn_arena_array(w->arena, n * nw, sizeof *writes.values),
        .ttls = qn_arena_array(w->arena, n * nw, sizeof *writes.ttls),
    };
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < nw; j++)
            add_write(&writes, &w->entries[chosen[i]], windows[j], &answers[i * nw + j]);
    return writes.n > 0 ? write_keys(w, &writes) : QN_OK;
}

static void end_pass(struct qn_warm *w)
{
    qn_log_info("hot", QN_F_INT("asks", w->pass_asks), QN_F_INT("keys", w->pass_keys),
                QN_F_INT("ms", qn_clock_mono_ms() - w->pass_started));
    w->pass_started = 0;
    if (w->again)
        start_over(w);
}

enum qn_err qn_warm_step(struct qn_warm *w)
{
    if (!qn_warm_due(w))
        return QN_MISS;
    enum qn_err err = QN_OK;
    if (w->down) {
        qn_arena_reset(w->arena);
        err = ping(w); /* before Postgres is asked for what can't be written */
    }
    if (err == QN_OK && w->relist)
        err = list(w);
    if (err != QN_OK)
        return err;
    size_t chosen[CHUNK], n = choose(w, chosen);
    if (n > 0)
        err = write_chunk(w, chosen, n);
    if (err != QN_OK)
        return err;
    for (size_t i = 0; i < n; i++)
        w->entries[chosen[i]].due = false;
    w->n_due -= n;
    w->pass_asks += (int64_t)n;
    if (w->n_due == 0)
        end_pass(w);
    return QN_OK;
}

void qn_warm_check(struct qn_warm *w)
{
    struct qn_str argv[1 + PROBES] = {QN_STR("EXISTS")};
    size_t n = 1;
    for (size_t i = 0; i < PROBES; i++)
        if (w->probes[i].written && qn_clock_mono_ms() - w->probes[i].written < PROBE_MS)
            argv[n++] = qn_key_str(&w->probes[i].key);
    if (n == 1 || w->down)
        return;
    qn_arena_reset(w->arena);
    const struct qn_cmd cmd = {.argc = n, .argv = argv};
    const struct qn_val *reply;
    if (ask_redis(w, &cmd, 1, &reply) != QN_OK || reply[0].kind != QN_VAL_INT || reply[0].num == (int64_t)n - 1)
        return; /* a reader may have put one of them back already: one that is gone is enough */
    qn_log_warn("redis-emptied");
    memset(w->probes, 0, sizeof w->probes);
    start_over(w);
}
