/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/map.h"

#include <stdlib.h>

struct entry {
    char *name;   /* NULL: free */
    size_t n;
    uint64_t hash;
    int64_t value;
};

struct qn_map {
    size_t max;
    size_t used;
    size_t mask;  /* slots - 1; slots are a power of two, at least twice max */
    struct entry *entries;
};

uint64_t qn_map_hash(uint64_t seed, const void *p, size_t n)
{
    const unsigned char *bytes = p;
    uint64_t h = seed ^ n * UINT64_C(0x9e3779b97f4a7c15);
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
        bytes += 8;
        n -= 8;
    }
    uint64_t tail = 0;
    memcpy(&tail, bytes, n);
    h = (h ^ tail) * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 29;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 32;
}

struct qn_map *qn_map_new(size_t max)
{
    struct qn_map *m = qn_xcalloc(1, sizeof *m);
    m->max = max;
    size_t slots = 16;
    while (slots < 2 * max)
        slots *= 2;
    m->mask = slots - 1;
    m->entries = qn_xcalloc(slots, sizeof *m->entries);
    return m;
}

static void forget_all(struct qn_map *m)
{
    for (size_t i = 0; i <= m->mask; i++)
        free(m->entries[i].name);
    memset(m->entries, 0, (m->mask + 1) * sizeof *m->entries);
    m->used = 0;
}

void qn_map_free(struct qn_map *m)
{
    if (!m)
        return;
    forget_all(m);
    free(m->entries);
    free(m);
}

/* The name's slot, or the free one where it belongs. */
static struct entry *find(const struct qn_map *m, struct qn_str name, uint64_t hash)
{
    for (size_t i = hash & m->mask;; i = (i + 1) & m->mask) {
        struct entry *e = &m->entries[i];
        if (!e->name || (e->hash == hash && qn_str_eq((struct qn_str){e->name, e->n}, name)))
            return e;
    }
}

enum qn_err qn_map_get(const struct qn_map *m, struct qn_str name, int64_t *value)
{
    const struct entry *e = find(m, name, qn_map_hash(0, name.p, name.n));
    if (!e->name)
        return QN_MISS;
    *value = e->value;
    return QN_OK;
}

void qn_map_put(struct qn_map *m, struct qn_str name, int64_t value)
{
    if (m->used == m->max)
        forget_all(m);
    uint64_t hash = qn_map_hash(0, name.p, name.n);
    *find(m, name, hash) = (struct entry){qn_xstrndup(name.p, name.n), name.n, hash, value};
    m->used++;
}
