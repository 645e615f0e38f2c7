/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * A bounded cache from names to numbers. When it is full it forgets everything and starts again: what it holds can be
 * asked for again, and its memory stays bounded.
 */
#ifndef QN_INGEST_MAP_H
#define QN_INGEST_MAP_H

#include "base/base.h"

struct qn_map;

/* max: names kept at most. */
struct qn_map *qn_map_new(size_t max);
void qn_map_free(struct qn_map *m);
/* QN_MISS: not there. */
QN_MUST enum qn_err qn_map_get(const struct qn_map *m, struct qn_str name, int64_t *value);
/* Copies the name, which must not be there yet. */
void qn_map_put(struct qn_map *m, struct qn_str name, int64_t value);

/* A well mixed hash of bytes, going on from seed. Not for anything that an adversary may aim at but in memory. */
uint64_t qn_map_hash(uint64_t seed, const void *p, size_t n);

#endif
