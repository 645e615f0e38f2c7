/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <sodium.h>

#include "base/buf.h"
#include "prices/cursor.h"

enum { HASH_BYTES = crypto_generichash_BYTES_MIN, HASH_HEX = 2 * HASH_BYTES, MAX_TEXT = 2048 };
#define MAX_MS INT64_C(1000000000000000)

static void hash_query(struct qn_str query, char out[HASH_HEX + 1])
{
    unsigned char hash[HASH_BYTES];
    crypto_generichash(hash, sizeof hash, (const unsigned char *)query.p, query.n, NULL, 0);
    sodium_bin2hex(out, HASH_HEX + 1, hash, sizeof hash);
}

struct qn_str qn_cursor_put(struct qn_arena *arena, const struct qn_cursor *c)
{
    char hash[HASH_HEX + 1];
    struct qn_buf b = {.arena = arena};
    hash_query(c->query, hash);
    qn_buf_printf(&b, "%s|%lld|%lld|%c|", hash, (long long)c->from_ms, (long long)c->to_ms, c->asc ? 'a' : 'd');
    qn_buf_str(&b, c->key);
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
    hash_query(c->query, wanted);
    if (!next_part(&rest, &hash) || !qn_str_eq(hash, qn_str_of(wanted)) || !next_part(&rest, &from) ||
        !next_part(&rest, &to) || !next_part(&rest, &order) || qn_str_i64(from, MAX_MS, &c->from_ms) != QN_OK ||
        qn_str_i64(to, MAX_MS, &c->to_ms) != QN_OK || order.n != 1 || (order.p[0] != 'a' && order.p[0] != 'd') || !qn_str_utf8(rest) || memchr(rest.p, '\0', rest.n))
        return QN_EINVAL;
    c->asc = order.p[0] == 'a';
    c->key = rest;
    return QN_OK;
}
