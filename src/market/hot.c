/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <sodium.h>

#include "base/when.h"
#include "market/hot.h"

enum { ETAG_HEX = 16, FORMAT = 1 };

void qn_sums_init(struct qn_sums *s)
{
    memset(s, 0, sizeof *s);
    mpq_inits(s->price, s->reference, s->second, NULL);
    qn_dec_init(&s->base);
    qn_dec_init(&s->quote);
    qn_dec_init(&s->day_base);
    qn_dec_init(&s->day_quote);
}

void qn_sums_clear(struct qn_sums *s)
{
    mpq_clears(s->price, s->reference, s->second, NULL);
    qn_dec_clear(&s->base);
    qn_dec_clear(&s->quote);
    qn_dec_clear(&s->day_base);
    qn_dec_clear(&s->day_quote);
}

static void swap_dec(struct qn_dec *a, struct qn_dec *b)
{
    struct qn_dec t = *a;
    *a = *b;
    *b = t;
}

void qn_sums_invert(struct qn_sums *s)
{
    mpq_inv(s->price, s->price);
    if (s->has_reference)
        mpq_inv(s->reference, s->reference);
    swap_dec(&s->base, &s->quote);
    swap_dec(&s->day_base, &s->day_quote);
}

/* A volume in the quote: of a hop the asset's own leg's times the second price. */
static void put_quote_volume(struct qn_buf *b, const struct qn_sums *s, const struct qn_dec *volume)
{
    if (!s->hop) {
        qn_dec_put(b, volume);
        return;
    }
    mpq_t v;
    mpq_init(v);
    qn_dec_get_q(v, volume);
    mpq_mul(v, v, s->second);
    qn_num_put_quotient(b, v);
    mpq_clear(v);
}

static void put_data(struct qn_buf *b, const struct qn_sums *s, struct qn_str asset, struct qn_str quote)
{
    qn_buf_puts(b, "{\"asset\":");
    qn_buf_json(b, asset);
    qn_buf_puts(b, ",\"quote\":");
    qn_buf_json(b, quote);
    qn_buf_puts(b, ",\"price\":\"");
    qn_num_put_quotient(b, s->price);
    qn_buf_puts(b, s->last_trade ? "\",\"price_type\":\"last_trade\"" : "\",\"price_type\":\"vwap\"");
    qn_buf_puts(b, ",\"window_seconds\":");
    qn_buf_i64(b, s->window);
    qn_buf_puts(b, ",\"observed_at\":\"");
    qn_when_put(b, s->observed_ms);
    qn_buf_puts(b, "\",\"age_seconds\":");
    qn_buf_i64(b, (s->h_ms - s->observed_ms) / 1000);
    qn_buf_puts(b, ",\"base_volume\":\"");
    qn_dec_put(b, &s->base);
    qn_buf_puts(b, "\",\"quote_volume\":\"");
    put_quote_volume(b, s, &s->quote);
    qn_buf_puts(b, "\",\"trades\":");
    qn_buf_i64(b, s->trades);
    qn_buf_puts(b, ",\"quote_volume_24h\":\"");
    put_quote_volume(b, s, &s->day_quote);
    qn_buf_puts(b, "\",\"trades_24h\":");
    qn_buf_i64(b, s->day_trades);
    qn_buf_puts(b, ",\"change_24h_pct\":");
    if (s->has_reference) {
        qn_buf_char(b, '"');
        qn_num_put_change(b, s->price, s->reference);
        qn_buf_char(b, '"');
    } else {
        qn_buf_puts(b, "null");
    }
    qn_buf_char(b, '}');
}

static void put_ratio(struct qn_buf *b, const mpq_t q)
{
    qn_buf_char(b, ' ');
    qn_num_put_z(b, mpq_numref(q));
    qn_buf_char(b, ' ');
    qn_num_put_z(b, mpq_denref(q));
}

static void put_decimal(struct qn_buf *b, const struct qn_dec *x)
{
    qn_buf_char(b, ' ');
    qn_dec_put(b, x);
}

/* v|l|h window n d base quote trades day_base day_quote day_trades ref_n ref_d ("0 1": none); h (a hop) is not inverted. */
static void put_sums(struct qn_buf *b, const struct qn_sums *s)
{
    qn_buf_char(b, s->hop ? 'h' : s->last_trade ? 'l' : 'v');
    qn_buf_char(b, ' ');
    qn_buf_i64(b, s->window);
    put_ratio(b, s->price);
    put_decimal(b, &s->base);
    put_decimal(b, &s->quote);
    qn_buf_char(b, ' ');
    qn_buf_i64(b, s->trades);
    put_decimal(b, &s->day_base);
    put_decimal(b, &s->day_quote);
    qn_buf_char(b, ' ');
    qn_buf_i64(b, s->day_trades);
    if (s->has_reference)
        put_ratio(b, s->reference);
    else
        qn_buf_puts(b, " 0 1");
}

static bool next_word(struct qn_str *rest, struct qn_str *word)
{
    if (rest->n == 0)
        return false;
    const char *space = memchr(rest->p, ' ', rest->n);
    size_t n = space ? (size_t)(space - rest->p) : rest->n;
    *word = (struct qn_str){rest->p, n};
    size_t skip = space ? n + 1 : n;
    rest->p += skip;
    rest->n -= skip;
    return n > 0;
}

static bool next_count(struct qn_str *rest, int64_t *out)
{
    struct qn_str w;
    uint64_t v;
    if (!next_word(rest, &w) || qn_str_u64(w, INT64_MAX, &v) != QN_OK)
        return false;
    *out = (int64_t)v;
    return true;
}

static bool next_volume(struct qn_str *rest, struct qn_dec *out)
{
    struct qn_str w;
    return next_word(rest, &w) && qn_dec_parse(out, w, 0) == QN_OK && qn_dec_sign(out) >= 0;
}

static bool next_ratio(struct qn_str *rest, mpq_t out)
{
    struct qn_str n, d;
    return next_word(rest, &n) && next_word(rest, &d) && qn_num_parse_ratio(out, n, d) == QN_OK && mpq_sgn(out) >= 0;
}

static bool read_sums(struct qn_str line, struct qn_sums *s)
{
    struct qn_str kind;
    int64_t window;
    if (!next_word(&line, &kind) || kind.n != 1 || (kind.p[0] != 'v' && kind.p[0] != 'l'))
        return false;
    s->last_trade = kind.p[0] == 'l';
    if (!next_count(&line, &window) || window > INT32_MAX || !next_ratio(&line, s->price) || mpq_sgn(s->price) == 0 ||
        !next_volume(&line, &s->base) || !next_volume(&line, &s->quote) || !next_count(&line, &s->trades) ||
        !next_volume(&line, &s->day_base) || !next_volume(&line, &s->day_quote) || !next_count(&line, &s->day_trades) ||
        !next_ratio(&line, s->reference) || line.n > 0)
        return false;
    s->window = (int)window;
    s->has_reference = mpq_sgn(s->reference) != 0;
    return true;
}

/* Etag over everything but itself: what stands before it in line 1, and lines 2 to 4. */
static void compute_etag(struct qn_str head, struct qn_str rest, char out[ETAG_HEX + 1])
{
    unsigned char hash[crypto_generichash_BYTES_MIN];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    crypto_generichash_update(&state, (const unsigned char *)head.p, head.n);
    crypto_generichash_update(&state, (const unsigned char *)rest.p, rest.n);
    crypto_generichash_final(&state, hash, sizeof hash);
    sodium_bin2hex(out, ETAG_HEX + 1, hash, ETAG_HEX / 2);
}

/* Puts line 1 in front of lines 2 to 4 and sets out's parts. */
static void finish(struct qn_arena *arena, int64_t h_ms, int64_t observed_ms, unsigned flags, struct qn_str sums,
                   struct qn_str data, struct qn_str sources, struct qn_hot *out)
{
    struct qn_buf b = {.arena = arena};
    qn_buf_reserve(&b, 96 + sums.n + data.n + sources.n);
    qn_buf_printf(&b, "%d %lld %lld %x ", FORMAT, (long long)h_ms, (long long)observed_ms, flags);
    size_t head = b.n;
    qn_buf_puts(&b, "0000000000000000\n");
    size_t rest = b.n;
    qn_buf_str(&b, sums);
    qn_buf_char(&b, '\n');
    size_t data_at = b.n;
    qn_buf_str(&b, data);
    qn_buf_char(&b, '\n');
    size_t sources_at = b.n;
    qn_buf_str(&b, sources);
    char etag[ETAG_HEX + 1];
    compute_etag((struct qn_str){b.p, head}, (struct qn_str){b.p + rest, b.n - rest}, etag);
    memcpy(b.p + head, etag, ETAG_HEX);
    *out = (struct qn_hot){
        .h_ms = h_ms,
        .observed_ms = observed_ms,
        .flags = flags,
        .etag = {b.p + head, ETAG_HEX},
        .sums = {b.p + rest, sums.n},
        .data = {b.p + data_at, data.n},
        .sources = {b.p + sources_at, sources.n},
        .text = qn_buf_view(&b),
    };
}

void qn_hot_make(struct qn_arena *arena, const struct qn_sums *s, struct qn_str asset, struct qn_str quote,
                 unsigned flags, const struct qn_str *sources, size_t n_sources, struct qn_hot *out)
{
    struct qn_buf sums = {.arena = arena}, data = {.arena = arena}, names = {.arena = arena};
    put_sums(&sums, s);
    put_data(&data, s, asset, quote);
    qn_buf_char(&names, '[');
    for (size_t i = 0; i < n_sources; i++) {
        if (i)
            qn_buf_char(&names, ',');
        qn_buf_json(&names, sources[i]);
    }
    qn_buf_char(&names, ']');
    finish(arena, s->h_ms, s->observed_ms, flags, qn_buf_view(&sums), qn_buf_view(&data), qn_buf_view(&names), out);
}

static bool next_line(struct qn_str *rest, struct qn_str *line)
{
    const char *nl = memchr(rest->p, '\n', rest->n);
    if (!nl)
        return false;
    *line = (struct qn_str){rest->p, (size_t)(nl - rest->p)};
    rest->n -= line->n + 1;
    rest->p = nl + 1;
    return true;
}

static bool read_flags(struct qn_str hex, unsigned *out)
{
    static const char DIGITS[] = "0123456789abcdef";
    unsigned v = 0;
    if (hex.n == 0 || hex.n > 4)
        return false;
    for (size_t i = 0; i < hex.n; i++) {
        const char *digit = memchr(DIGITS, hex.p[i], sizeof DIGITS - 1);
        if (!digit)
            return false;
        v = v << 4 | (unsigned)(digit - DIGITS);
    }
    *out = v;
    return true;
}

enum qn_err qn_hot_read(struct qn_str text, struct qn_hot *out)
{
    struct qn_hot hot = {.text = text};
    struct qn_str rest = text, head, word, flags;
    int64_t format;
    char etag[ETAG_HEX + 1];
    if (!text.p || !next_line(&rest, &head))
        return QN_ECORRUPT;
    struct qn_str body = rest, first = head;
    if (!next_line(&rest, &hot.sums) || !next_line(&rest, &hot.data))
        return QN_ECORRUPT;
    hot.sources = rest;
    if (!next_count(&head, &format) || format != FORMAT || !next_count(&head, &hot.h_ms) ||
        !next_count(&head, &hot.observed_ms) || !next_word(&head, &flags) || !read_flags(flags, &hot.flags) ||
        !next_word(&head, &word) || word.n != ETAG_HEX || head.n > 0)
        return QN_ECORRUPT;
    compute_etag((struct qn_str){first.p, (size_t)(word.p - first.p)}, body, etag);
    if (memcmp(etag, word.p, ETAG_HEX) != 0)
        return QN_ECORRUPT;
    hot.etag = word;
    *out = hot;
    return QN_OK;
}

enum qn_err qn_hot_invert(struct qn_arena *arena, const struct qn_hot *hot, struct qn_str asset, struct qn_str quote,
                          struct qn_hot *out)
{
    struct qn_sums s;
    enum qn_err err = QN_ECORRUPT;
    qn_sums_init(&s);
    if (read_sums(hot->sums, &s)) {
        struct qn_buf sums = {.arena = arena}, data = {.arena = arena};
        s.h_ms = hot->h_ms;
        s.observed_ms = hot->observed_ms;
        qn_sums_invert(&s);
        put_sums(&sums, &s);
        put_data(&data, &s, asset, quote);
        finish(arena, s.h_ms, s.observed_ms, hot->flags, qn_buf_view(&sums), qn_buf_view(&data), hot->sources, out);
        err = QN_OK;
    }
    qn_sums_clear(&s);
    return err;
}
