/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * A request's memory: allocated by bumping, released all at once. Nothing in it may outlive the request.
 */
#ifndef QN_BASE_ARENA_H
#define QN_BASE_ARENA_H

#include "base/base.h"

struct qn_arena;

/* A new arena that keeps its first block over resets. Owner: the caller (qn_arena_free). */
struct qn_arena *qn_arena_new(size_t first_block);
void qn_arena_free(struct qn_arena *arena);
/* Forgets all that was allocated; keeps the first block, frees the others. */
void qn_arena_reset(struct qn_arena *arena);
/* Bytes handed out since the last reset. */
size_t qn_arena_used(const struct qn_arena *arena);

/* n bytes, aligned for any type, not cleared (alloc) or cleared (zalloc). Never NULL. n == 0 gives a valid pointer. */
void *qn_arena_alloc(struct qn_arena *arena, size_t n);
void *qn_arena_zalloc(struct qn_arena *arena, size_t n);
/* count * size bytes, cleared; a product that overflows is out of memory (exit 70). */
void *qn_arena_array(struct qn_arena *arena, size_t count, size_t size);
/* A copy, NUL-terminated behind its last byte. */
struct qn_str qn_arena_copy(struct qn_arena *arena, struct qn_str s);
/* printf into the arena, NUL-terminated behind its last byte. */
QN_PRINTF(2, 3) struct qn_str qn_arena_printf(struct qn_arena *arena, const char *fmt, ...);

#endif
