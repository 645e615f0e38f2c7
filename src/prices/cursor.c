/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <sodium.h>

#include "base/buf.h"
#include "prices/cursor.h"

enum { HASH_BYTES = crypto_generichash_BYTES_MIN, HASH_HEX = 2 * HASH_BYTES, MAX_TEXT = 2048 };

/* 0001-01-01 and the end of 9999: what Postgres, and what we print, has moments for. */
#define FIRST_MS INT64_C(-62135596800000)
#define LAST_MS INT64_C(253402300800000)

/* Over the query and all that the cursor holds. */
static void hash_of(struct qn_str query, struct qn_str payload, char out[HASH_HEX + 1])
{
    unsigned char hash[HASH_BYTES];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    crypto_generichash_update(&state, (const unsigned char *)query.p, query.n + 1); /* its NUL keeps the two apart */
    crypto_generichash_update(&state, (const unsigned char *)payload.p, payload.n);
    crypto_generichash_final(&state, hash, sizeof hash);
    sodium_bin2hex(out, HASH_HEX + 1, hash, sizeof hash);
}

/* hash | from | to or nothing | a or d | key */
struct qn_str qn_cursor_put(struct qn_arena *arena, const struct qn_cursor *c)
{
    char hash[HASH_HEX + 1];
    struct qn_buf payload = {.arena = arena}, b = {.arena = arena};
    qn_buf_i64(&payload, c->from_ms);
    qn_buf_char(&payload, '|');
    if (c->has_to)
        qn_buf_i64(&payload, c->to_ms);
    qn_buf_puts(&payload, c->asc ? "|a|" : "|d|");
    qn_buf_str(&payload, c->key);
    hash_of(c->query, qn_buf_view(&payload), hash);
    qn_buf_puts(&b, hash);
    qn_buf_char(&b, '|');
    qn_buf_str(&b, qn_buf_view(&payload));
    size_t size = sodium_base64_ENCODED_LEN(b.n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    char *out = qn_arena_alloc(arena, size);
    sodium_bin2base64(out, size, (const unsigned char *)b.p, b.n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    return qn_str_of(out);
}

static bool next_part(struct qn_str *rest, struct qn_str *part)
{
    const char *bar = rest->n ? memchr(rest->p, '|', rest->n) : NULL;
    if (!bar)
        return false;
    *part = (struct qn_str){rest->p, (size_t)(bar - rest->p)};
    rest->n -= part->n + 1;
    rest->p = bar + 1;
    return true;
}

bool qn_cursor_moment(struct qn_str s, int64_t *out)
{
    int64_t ms;
    if (qn_str_i64(s, LAST_MS, &ms) != QN_OK || ms < FIRST_MS)
        return false;
    *out = ms;
    return true;
}

enum qn_err qn_cursor_read(struct qn_arena *arena, struct qn_str text, struct qn_cursor *c)
{
    struct qn_str rest, hash, from, to, order;
    char wanted[HASH_HEX + 1];
    if (text.n == 0 || text.n > MAX_TEXT)
        return QN_EINVAL;
    unsigned char *bytes = qn_arena_alloc(arena, text.n + 1);
    size_t n;
    const char *end;
    if (sodium_base642bin(bytes, text.n, text.p, text.n, NULL, &n, &end, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
        end != text.p + text.n)
        return QN_EINVAL;
    bytes[n] = '\0';
    rest = (struct qn_str){(const char *)bytes, n};
    if (!next_part(&rest, &hash))
        return QN_EINVAL;
    hash_of(c->query, rest, wanted);
    if (!qn_str_eq(hash, qn_str_of(wanted)) || !next_part(&rest, &from) || !next_part(&rest, &to) ||
        !next_part(&rest, &order) || order.n != 1 || (order.p[0] != 'a' && order.p[0] != 'd') || !qn_str_utf8(rest) ||
        memchr(rest.p, '\0', rest.n))
        return QN_EINVAL;
    c->has_to = to.n > 0;
    if (!qn_cursor_moment(from, &c->from_ms) ||
        (c->has_to && (!qn_cursor_moment(to, &c->to_ms) || c->to_ms < c->from_ms)))
        return QN_EINVAL;
    c->asc = order.p[0] == 'a';
    c->key = rest;
    return QN_OK;
}
