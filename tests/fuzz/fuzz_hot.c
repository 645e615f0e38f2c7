/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * What Redis may hold under our key. The etag that a reader checks is computed for the input, or nothing would get past
 * it.
 */
#include "base/base.h"

#include <stdlib.h>

#include <sodium.h>

#include "market/hot.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* The input with the right etag in its first line, where there is room for one. */
static struct qn_str sealed(struct qn_arena *arena, struct qn_str in)
{
    enum { HEX = 16 };
    struct qn_str copy = qn_arena_copy(arena, in);
    const char *nl = in.n ? memchr(in.p, '\n', in.n) : NULL;
    if (!nl || nl - in.p < HEX)
        return copy;
    size_t head = (size_t)(nl - in.p) - HEX;
    unsigned char hash[crypto_generichash_BYTES_MIN];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    crypto_generichash_update(&state, (const unsigned char *)in.p, head);
    crypto_generichash_update(&state, (const unsigned char *)nl + 1, in.n - head - HEX - 1);
    crypto_generichash_final(&state, hash, sizeof hash);
    char hex[HEX + 1];
    sodium_bin2hex(hex, sizeof hex, hash, HEX / 2);
    struct qn_buf b = {.arena = arena};
    qn_buf_put(&b, in.p, head);
    qn_buf_put(&b, hex, HEX);
    qn_buf_put(&b, nl, in.n - head - HEX);
    return qn_buf_view(&b);
}

/* Not read, or read; then turned round twice it says the same. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct qn_arena *arena;
    struct qn_hot hot, inverse, again, third;
    if (!arena && sodium_init() < 0)
        abort();
    if (!arena)
        arena = qn_arena_new(65536);
    qn_arena_reset(arena);
    if (qn_hot_read(sealed(arena, (struct qn_str){(const char *)data, size}), &hot) != QN_OK ||
        qn_hot_invert(arena, &hot, QN_STR("a"), QN_STR("b"), &inverse) != QN_OK)
        return 0;
    if (qn_hot_read(inverse.text, &again) != QN_OK ||
        qn_hot_invert(arena, &again, QN_STR("b"), QN_STR("a"), &third) != QN_OK ||
        qn_hot_invert(arena, &third, QN_STR("a"), QN_STR("b"), &again) != QN_OK || !qn_str_eq(again.text, inverse.text))
        abort();
    return 0;
}
