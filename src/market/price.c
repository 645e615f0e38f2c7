/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "market/price.h"
#include "market/statements.h"

/* The pools of markets that an ask may be answered from, in the order of contract-prices, section 1. A hop is two pools
 * that share a horizon; native's leg in the reference is its direct market, else its stand-ins. */
enum group { DIRECT, STAND_INS, HOP_OWN, HOP_NATIVE, HOP2_OWN, HOP2_NATIVE, GROUPS };
static const int HSET[GROUPS] = {0, 1, 2, 2, 3, 3};

/* A way to the price: one pool, or two whose prices multiply. */
static const struct path {
    enum group own;
    enum group second; /* = own: no hop */
} PATHS[] = {{DIRECT, DIRECT}, {STAND_INS, STAND_INS}, {HOP_OWN, HOP_NATIVE}, {HOP2_OWN, HOP2_NATIVE}};

enum { COLUMNS = 19 };

static const struct qn_asset NATIVE = {QN_ASSET_NATIVE, 6, "native"};

/* The legs' parameters, as six parallel arrays. */
struct legs {
    struct qn_arena *arena;
    struct qn_buf ask, hset, grp, base, quote, flip;
    size_t n;
};

static void put_item(struct qn_buf *b, bool first, struct qn_str item, bool quoted)
{
    qn_buf_char(b, first ? '{' : ',');
    if (quoted)
        qn_buf_char(b, '"'); /* canonical assets have no quotes or backslashes */
    qn_buf_str(b, item);
    if (quoted)
        qn_buf_char(b, '"');
}

static void put_int(struct qn_buf *b, bool first, int64_t v)
{
    qn_buf_char(b, first ? '{' : ',');
    qn_buf_i64(b, v);
}

static void add_leg(const struct qn_config *config, struct legs *l, size_t ask, enum group group,
                    const struct qn_asset *asset, const struct qn_asset *quote)
{
    struct qn_asset base, counter;
    if (qn_asset_same_family(config, asset, quote))
        return;
    bool first = l->n++ == 0, flip = qn_asset_stored(asset, quote, &base, &counter);
    put_int(&l->ask, first, (int64_t)ask);
    put_int(&l->hset, first, HSET[group]);
    put_int(&l->grp, first, group);
    put_item(&l->base, first, qn_asset_str(&base), true);
    put_item(&l->quote, first, qn_asset_str(&counter), true);
    put_item(&l->flip, first, flip ? QN_STR("t") : QN_STR("f"), false);
}

static void add_pool(const struct qn_config *config, struct legs *l, size_t ask, enum group group,
                     const struct qn_asset *assets, size_t n, const struct qn_asset *quotes, size_t m)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++)
            add_leg(config, l, ask, group, &assets[i], &quotes[j]);
}

static const struct qn_config_assets *stand_ins_of(const struct qn_config *config, const struct qn_asset *quote)
{
    for (size_t i = 0; i < config->prices.n_proxies; i++)
        if (qn_asset_eq(&config->prices.proxies[i].key, quote))
            return &config->prices.proxies[i];
    return NULL;
}

static void add_ask(const struct qn_config *config, struct legs *l, size_t i, const struct qn_price_ask *ask)
{
    if (!ask->resolve) {
        add_leg(config, l, i, DIRECT, &ask->asset, &ask->quote);
        return;
    }
    struct qn_asset own[QN_ASSET_MAX_FAMILY], native[QN_ASSET_MAX_FAMILY];
    size_t n_own = qn_asset_family(config, &ask->asset, own, QN_ASSET_MAX_FAMILY);
    size_t n_native = qn_asset_family(config, &NATIVE, native, QN_ASSET_MAX_FAMILY);
    const struct qn_config_assets *proxies = stand_ins_of(config, &ask->quote);
    add_pool(config, l, i, DIRECT, own, n_own, &ask->quote, 1);
    for (size_t p = 0; proxies && p < proxies->n; p++)
        if (qn_asset_same_family(config, &ask->asset, &proxies->items[p]))
            return; /* a stand-in against its own fiat: its market or nothing */
    if (proxies)
        add_pool(config, l, i, STAND_INS, own, n_own, proxies->items, proxies->n);
    if (qn_asset_same_family(config, &ask->asset, &NATIVE) || qn_asset_same_family(config, &ask->quote, &NATIVE))
        return;
    add_pool(config, l, i, HOP_OWN, own, n_own, native, n_native);
    add_pool(config, l, i, HOP_NATIVE, native, n_native, &ask->quote, 1);
    if (!proxies)
        return;
    add_pool(config, l, i, HOP2_OWN, own, n_own, native, n_native);
    add_pool(config, l, i, HOP2_NATIVE, native, n_native, proxies->items, proxies->n);
}

bool qn_price_carries_hops(const struct qn_config *config, const struct qn_asset *base, const struct qn_asset *quote)
{
    const struct qn_asset *reference = &config->prices.reference;
    bool native_base = qn_asset_same_family(config, base, &NATIVE);
    if (!native_base && !qn_asset_same_family(config, quote, &NATIVE))
        return false;
    const struct qn_asset *other = native_base ? quote : base;
    const struct qn_config_assets *proxies = stand_ins_of(config, reference);
    for (size_t i = 0; proxies && i < proxies->n; i++)
        if (qn_asset_eq(other, &proxies->items[i]))
            return true;
    return qn_asset_eq(other, reference);
}

static struct qn_str close_array(struct qn_buf *b)
{
    qn_buf_puts(b, b->n ? "}" : "{}");
    return qn_buf_view(b);
}

struct qn_query qn_price_query(const struct qn_config *config, struct qn_arena *arena, const struct qn_price_ask *asks,
                               size_t n, const int *windows, size_t nw)
{
    struct legs l = {.ask.arena = arena, .hset.arena = arena, .grp.arena = arena, .base.arena = arena,
                     .quote.arena = arena, .flip.arena = arena};
    struct qn_buf w = {.arena = arena};
    for (size_t i = 0; i < n; i++)
        add_ask(config, &l, i, &asks[i]);
    for (size_t i = 0; i < nw; i++)
        put_int(&w, i == 0, windows[i]);
    struct qn_str *params = qn_arena_array(arena, 8, sizeof *params);
    params[0] = close_array(&l.ask);
    params[1] = close_array(&l.hset);
    params[2] = close_array(&l.grp);
    params[3] = close_array(&l.base);
    params[4] = close_array(&l.quote);
    params[5] = close_array(&l.flip);
    params[6] = close_array(&w);
    params[7] = qn_arena_printf(arena, "%lld", (long long)(config->prices.lookback_ms / 1000));
    return (struct qn_query){&qn_market_stmts[QN_STMT_PRICE], params};
}

/* What a row says of one pool; text is borrowed from the rows. */
struct pool {
    bool there;
    int64_t h_ms;
    bool reduced;
    int64_t last_ms;
    bool in_window;
    bool in_lookback;
    struct qn_str base, quote, trades, day_base, day_quote, day_trades, ref_base, ref_quote, close_n, close_d;
    struct qn_str sources; /* comma-separated */
};

static bool read_int(struct qn_str s, int64_t *out)
{
    uint64_t v;
    if (!s.p || qn_str_u64(s, INT64_MAX, &v) != QN_OK)
        return false;
    *out = (int64_t)v;
    return true;
}

static bool is_true(struct qn_str s)
{
    return s.n == 1 && s.p[0] == 't';
}

/* Reads one row into its place. False: not a row of the price statement. */
static bool read_row(const struct qn_rows *rows, size_t row, size_t n, size_t nw, struct pool *pools)
{
    int64_t ask, group, window;
    const struct qn_str *c = &rows->cells[row * rows->ncols];
    if (!read_int(c[0], &ask) || !read_int(c[1], &group) || !read_int(c[2], &window) || ask >= (int64_t)n ||
        group >= GROUPS || window < 1 || window > (int64_t)nw)
        return false;
    struct pool p = {.there = true, .reduced = is_true(c[4]), .in_window = is_true(c[6]), .in_lookback = is_true(c[7]),
                     .base = c[8], .quote = c[9], .trades = c[10], .day_base = c[11], .day_quote = c[12],
                     .day_trades = c[13], .ref_base = c[14], .ref_quote = c[15], .close_n = c[16], .close_d = c[17],
                     .sources = c[18]};
    if (!read_int(c[3], &p.h_ms) || !read_int(c[5], &p.last_ms) || !p.base.p || !p.quote.p || !p.trades.p ||
        !p.day_base.p || !p.day_quote.p || !p.day_trades.p || !p.close_n.p || !p.close_d.p || !p.sources.p)
        return false;
    pools[((size_t)ask * nw + (size_t)window - 1) * GROUPS + (size_t)group] = p;
    return true;
}

/* The path whose pools are all in the window; else all in the lookback; else the one whose older newest trade is the
 * newest of any age. NULL: no path has a trade. */
static const struct path *choose(const struct pool pools[GROUPS], bool *last_trade)
{
    const struct path *best = NULL;
    int64_t best_ms = 0;
    *last_trade = false;
    for (size_t i = 0; i < QN_LEN(PATHS); i++)
        if (pools[PATHS[i].own].in_window && pools[PATHS[i].second].in_window)
            return &PATHS[i];
    for (size_t i = 0; i < QN_LEN(PATHS); i++)
        if (pools[PATHS[i].own].in_lookback && pools[PATHS[i].second].in_lookback)
            return &PATHS[i];
    *last_trade = true;
    for (size_t i = 0; i < QN_LEN(PATHS); i++) {
        const struct pool *own = &pools[PATHS[i].own], *second = &pools[PATHS[i].second];
        if (!own->there || !second->there)
            continue;
        int64_t ms = own->last_ms < second->last_ms ? own->last_ms : second->last_ms;
        if (!best || ms > best_ms) {
            best = &PATHS[i];
            best_ms = ms;
        }
    }
    return best;
}

/* quote / base as a rational. False: text that is no positive decimal. */
static bool ratio_of(mpq_t out, struct qn_str quote, struct qn_str base)
{
    struct qn_dec d;
    mpq_t q;
    qn_dec_init(&d);
    mpq_init(q);
    bool ok = qn_dec_parse(&d, base, 0) == QN_OK && qn_dec_sign(&d) > 0;
    if (ok) {
        qn_dec_get_q(q, &d);
        ok = qn_dec_parse(&d, quote, 0) == QN_OK && qn_dec_sign(&d) > 0;
    }
    if (ok) {
        qn_dec_get_q(out, &d);
        mpq_div(out, out, q);
    }
    mpq_clear(q);
    qn_dec_clear(&d);
    return ok;
}

static bool price_of(mpq_t out, const struct pool *p, bool last_trade)
{
    if (last_trade)
        return qn_num_parse_ratio(out, p->close_n, p->close_d) == QN_OK && mpq_sgn(out) > 0;
    return ratio_of(out, p->quote, p->base);
}

/* The sums of the chosen path. False: a corrupt row. */
static bool sum_up(const struct pool *own, const struct pool *second, bool last_trade, int window, struct qn_sums *s)
{
    mpq_t x;
    mpq_init(x);
    bool ok = true;
    s->hop = second != own;
    s->last_trade = last_trade;
    s->window = window;
    s->h_ms = own->h_ms; /* the legs of a hop share it */
    s->observed_ms = own->last_ms < second->last_ms ? own->last_ms : second->last_ms;
    ok = ok && price_of(s->price, own, last_trade);
    if (ok && s->hop) {
        ok = price_of(s->second, second, last_trade);
        mpq_mul(s->price, s->price, s->second);
    }
    if (!last_trade)
        ok = ok && qn_dec_parse(&s->base, own->base, 0) == QN_OK && qn_dec_parse(&s->quote, own->quote, 0) == QN_OK &&
             read_int(own->trades, &s->trades);
    ok = ok && qn_dec_parse(&s->day_base, own->day_base, 0) == QN_OK &&
         qn_dec_parse(&s->day_quote, own->day_quote, 0) == QN_OK && read_int(own->day_trades, &s->day_trades);
    s->has_reference = !last_trade && own->ref_base.p && second->ref_base.p;
    if (ok && s->has_reference) {
        ok = ratio_of(s->reference, own->ref_quote, own->ref_base);
        if (ok && s->hop) {
            ok = ratio_of(x, second->ref_quote, second->ref_base);
            mpq_mul(s->reference, s->reference, x);
        }
    }
    mpq_clear(x);
    return ok;
}

/* The names in two comma-separated sorted lists, merged, each once; into arena. */
static const struct qn_str *merge_names(struct qn_arena *arena, struct qn_str a, struct qn_str b, size_t *n)
{
    struct qn_str lists[2] = {a, b};
    struct qn_str *out = qn_arena_array(arena, a.n + b.n + 2, sizeof *out);
    *n = 0;
    while (lists[0].n || lists[1].n) {
        struct qn_str head[2] = {QN_STR_NULL, QN_STR_NULL};
        for (int i = 0; i < 2; i++) {
            const char *comma = lists[i].n ? memchr(lists[i].p, ',', lists[i].n) : NULL;
            head[i] = (struct qn_str){lists[i].p, comma ? (size_t)(comma - lists[i].p) : lists[i].n};
        }
        int c = lists[0].n == 0 ? 1 : lists[1].n == 0 ? -1 : qn_str_cmp(head[0], head[1]);
        out[(*n)++] = head[c > 0];
        for (int i = 0; i < 2; i++) {
            if (i == 0 ? c > 0 : c < 0)
                continue;
            size_t skip = head[i].n < lists[i].n ? head[i].n + 1 : head[i].n;
            lists[i].p += skip;
            lists[i].n -= skip;
        }
    }
    return out;
}

static enum qn_err answer(struct qn_arena *arena, const struct qn_price_ask *ask, int window,
                          const struct pool pools[GROUPS], struct qn_price_answer *out)
{
    bool last_trade;
    const struct path *path = choose(pools, &last_trade);
    if (!path) {
        out->err = QN_MISS;
        return QN_OK;
    }
    const struct pool *own = &pools[path->own], *second = &pools[path->second];
    enum qn_err err = QN_ECORRUPT;
    struct qn_sums s;
    qn_sums_init(&s);
    if (sum_up(own, second, last_trade, window, &s)) {
        size_t n;
        const struct qn_str *names = merge_names(arena, own->sources, second == own ? QN_STR("") : second->sources, &n);
        unsigned flags = (path->own != DIRECT ? QN_FLAG_TRIANGULATED : 0u) | (last_trade ? QN_FLAG_LAST_TRADE : 0u) |
                         (own->reduced || second->reduced ? QN_FLAG_REDUCED_REDUNDANCY : 0u) |
                         (n == 1 ? QN_FLAG_SINGLE_SOURCE : 0u);
        qn_hot_make(arena, &s, qn_asset_str(&ask->asset), qn_asset_str(&ask->quote), flags, names, n, &out->hot);
        out->err = QN_OK;
        err = QN_OK;
    }
    qn_sums_clear(&s);
    return err;
}

enum qn_err qn_price_answers(struct qn_arena *arena,
                             const struct qn_price_ask *asks, size_t n, const int *windows, size_t nw,
                             const struct qn_rows *rows, struct qn_price_answer **out)
{
    struct pool *pools = qn_arena_array(arena, n * nw * GROUPS, sizeof *pools);
    if (rows->nrows > 0 && rows->ncols != COLUMNS)
        return QN_ECORRUPT;
    for (size_t r = 0; r < rows->nrows; r++)
        if (!read_row(rows, r, n, nw, pools))
            return QN_ECORRUPT;
    struct qn_price_answer *answers = qn_arena_array(arena, n * nw, sizeof *answers);
    for (size_t i = 0; i < n * nw; i++) {
        enum qn_err err = answer(arena, &asks[i / nw], windows[i % nw], &pools[i * GROUPS], &answers[i]);
        if (err != QN_OK)
            return err;
    }
    *out = answers;
    return QN_OK;
}
