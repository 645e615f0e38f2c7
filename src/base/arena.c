/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Under AddressSanitizer what isn't handed out is poisoned, so that a pointer kept over a reset is found. */
#if defined(__SANITIZE_ADDRESS__)
#define POISONING 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONING 1
#endif
#endif
#ifdef POISONING
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = alignof(max_align_t), MIN_BLOCK = 1024, MAX_GROWTH = 1 << 20 };

struct block {
    struct block *older;
    size_t size; /* of bytes */
    size_t used; /* of bytes; always a multiple of ALIGN */
    alignas(max_align_t) char bytes[];
};

struct qn_arena {
    struct block *newest; /* owned, all of the list; the oldest is the first block */
    size_t used;
};

static struct block *new_block(size_t size, struct block *older)
{
    struct block *b = qn_xmalloc(sizeof *b + size);
    b->older = older;
    b->size = size;
    b->used = 0;
    ASAN_POISON_MEMORY_REGION(b->bytes, size);
    return b;
}

static void free_block(struct block *b)
{
    ASAN_UNPOISON_MEMORY_REGION(b->bytes, b->size);
    free(b);
}

struct qn_arena *qn_arena_new(size_t first_block)
{
    struct qn_arena *a = qn_xmalloc(sizeof *a);
    a->newest = new_block(first_block < MIN_BLOCK ? MIN_BLOCK : first_block, NULL);
    a->used = 0;
    return a;
}

/* Frees all blocks but the first one. */
static void shrink(struct qn_arena *a)
{
    while (a->newest->older) {
        struct block *older = a->newest->older;
        free_block(a->newest);
        a->newest = older;
    }
}

void qn_arena_free(struct qn_arena *a)
{
    if (!a)
        return;
    shrink(a);
    free_block(a->newest);
    free(a);
}

void qn_arena_reset(struct qn_arena *a)
{
    shrink(a);
    a->newest->used = 0;
    ASAN_POISON_MEMORY_REGION(a->newest->bytes, a->newest->size);
    a->used = 0;
}

size_t qn_arena_used(const struct qn_arena *a)
{
    return a->used;
}

void *qn_arena_alloc(struct qn_arena *a, size_t n)
{
    /* Room for the rounding and for the block's header; no request is near it, so a size beyond is an overflow. */
    if (n > SIZE_MAX / 4)
        n = SIZE_MAX / 4;
    size_t room = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct block *b = a->newest;
    if (b->size - b->used < room) {
        size_t size = b->size < MAX_GROWTH ? b->size * 2 : b->size;
        b = a->newest = new_block(size < room ? room : size, b);
    }
    char *p = b->bytes + b->used;
    b->used += room;
    a->used += n;
    ASAN_UNPOISON_MEMORY_REGION(p, n);
    return p;
}

void *qn_arena_zalloc(struct qn_arena *a, size_t n)
{
    return memset(qn_arena_alloc(a, n), 0, n);
}

void *qn_arena_array(struct qn_arena *a, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        n = SIZE_MAX;
    return qn_arena_zalloc(a, n);
}

struct qn_str qn_arena_copy(struct qn_arena *a, struct qn_str s)
{
    char *p = qn_arena_alloc(a, s.n + 1);
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return (struct qn_str){p, s.n};
}

struct qn_str qn_arena_printf(struct qn_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) /* only for a wide character that isn't one, or over INT_MAX bytes: our formats have neither */
        abort();
    char *p = qn_arena_alloc(a, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return (struct qn_str){p, (size_t)n};
}
