/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "ingest/batch.h"

#include <stdlib.h>

#include "base/when.h"
#include "ingest/map.h"
#include "ingest/pgcopy.h"
#include "link/pgconn.h"

enum { FIELDS = 10, IDS_FIELDS = 3, DIRTY_FIELDS = 2, NO_ROW = UINT32_MAX };

enum state { NEW, SAME, OTHER };

/* A line. A twin has no bytes of its own and the state of the trade that it is the twin of. */
struct row {
    uint64_t hash;
    uint64_t line;
    int64_t ts_ms;
    uint32_t at, end;      /* its row in data */
    uint32_t twin_of;      /* index of a row, or NO_ROW */
    int32_t pair_id;
    int16_t source_id;
    uint8_t id_len;
    uint8_t flags;
    enum state state;
};

struct qn_batch {
    size_t max;
    size_t n;
    size_t trades;         /* NEW, no twins */
    struct row *rows;
    uint32_t *slots;       /* open addressing by identity: index of a row, or NO_ROW */
    size_t mask;
    struct qn_buf data;    /* header and rows of the COPY of all trades */
    struct qn_buf out;     /* COPY data that is made anew */
    uint32_t *order;       /* workspace: rows in some order */
    uint64_t *minutes;     /* workspace */
};

struct qn_batch *qn_batch_new(size_t max)
{
    struct qn_batch *b = qn_xcalloc(1, sizeof *b);
    b->max = max;
    size_t slots = 16;
    while (slots < 2 * max)
        slots *= 2;
    b->mask = slots - 1;
    b->rows = qn_xcalloc(max, sizeof *b->rows);
    b->slots = qn_xcalloc(slots, sizeof *b->slots);
    b->order = qn_xcalloc(max, sizeof *b->order);
    b->minutes = qn_xcalloc(max, sizeof *b->minutes);
    qn_batch_reset(b);
    return b;
}

void qn_batch_free(struct qn_batch *b)
{
    if (!b)
        return;
    free(b->rows);
    free(b->slots);
    free(b->order);
    free(b->minutes);
    qn_buf_free(&b->data);
    qn_buf_free(&b->out);
    free(b);
}

void qn_batch_reset(struct qn_batch *b)
{
    b->n = b->trades = 0;
    memset(b->slots, 0xff, (b->mask + 1) * sizeof *b->slots); /* NO_ROW */
    qn_buf_clear(&b->data);
    qn_pgcopy_begin(&b->data);
}

uint64_t qn_batch_hash(int16_t source_id, struct qn_str id)
{
    return qn_map_hash((uint64_t)(uint16_t)source_id + 1, id.p, id.n);
}

size_t qn_batch_lines(const struct qn_batch *b)
{
    return b->n;
}

size_t qn_batch_trades(const struct qn_batch *b)
{
    return b->trades;
}

/* ---- rows */

static bool is_new(const struct row *r)
{
    return r->state == NEW && r->twin_of == NO_ROW;
}

/* The id, in the row's second field. */
static struct qn_str row_id(const struct qn_batch *b, const struct row *r)
{
    return (struct qn_str){b->data.p + r->at + QN_PGCOPY_ROW + QN_PGCOPY_I16 + QN_PGCOPY_LEN, r->id_len};
}

/* The fields of a row from the third on. */
struct rest {
    struct qn_str ord, ts, pair, base, quote, n, d;
};

static struct rest row_rest(const struct qn_batch *b, const struct row *r)
{
    struct qn_str id = row_id(b, r);
    const char *p = id.p + id.n;
    struct rest f;
    f.ord = qn_pgcopy_get(&p);
    f.ts = qn_pgcopy_get(&p);
    f.pair = qn_pgcopy_get(&p);
    f.base = qn_pgcopy_get(&p);
    f.quote = qn_pgcopy_get(&p);
    f.n = qn_pgcopy_get(&p);
    f.d = qn_pgcopy_get(&p);
    return f;
}

/* Whether two rows of one identity say the same: pair, moment, amounts and price by value. flags is left out: dust
 * depends on the configuration. */
static bool same_content(const struct qn_batch *b, const struct row *x, const struct row *y)
{
    if (x->pair_id != y->pair_id || x->ts_ms != y->ts_ms)
        return false;
    struct rest f = row_rest(b, x), g = row_rest(b, y);
    return qn_pgcopy_numeric_eq(f.base, g.base) && qn_pgcopy_numeric_eq(f.quote, g.quote) &&
           qn_pgcopy_numeric_eq(f.n, g.n) && qn_pgcopy_numeric_eq(f.d, g.d);
}

/* The slot of an identity, or the free one where it belongs. */
static uint32_t *find(const struct qn_batch *b, uint64_t hash, int16_t source_id, struct qn_str id)
{
    for (size_t i = hash & b->mask;; i = (i + 1) & b->mask) {
        uint32_t at = b->slots[i];
        if (at == NO_ROW)
            return &b->slots[i];
        const struct row *r = &b->rows[at];
        if (r->hash == hash && r->source_id == source_id && qn_str_eq(row_id(b, r), id))
            return &b->slots[i];
    }
}

static void encode(struct qn_buf *out, const struct qn_trade *t, int16_t source_id, int32_t pair_id)
{
    qn_pgcopy_row(out, FIELDS);
    qn_pgcopy_i16(out, source_id);
    qn_pgcopy_bytes(out, t->id.p, t->id.n);
    qn_pgcopy_bytes(out, t->ord, t->ord_len);
    qn_pgcopy_ts(out, t->ts_ms);
    qn_pgcopy_i32(out, pair_id);
    qn_pgcopy_numeric(out, t->base_amount);
    qn_pgcopy_numeric(out, t->quote_amount);
    if (t->flags & QN_TRADE_UNPRICED) {
        qn_pgcopy_null(out);
        qn_pgcopy_null(out);
    } else {
        qn_pgcopy_integer(out, mpq_numref(t->price));
        qn_pgcopy_integer(out, mpq_denref(t->price));
    }
    qn_pgcopy_i16(out, (int16_t)t->flags);
}

enum qn_batch_added qn_batch_add(struct qn_batch *b, const struct qn_trade *t, uint64_t hash, int16_t source_id,
                                 int32_t pair_id, uint64_t line)
{
    if (b->n == b->max)
        return QN_BATCH_FULL;
    struct row *r = &b->rows[b->n];
    *r = (struct row){
        .hash = hash, .line = line, .ts_ms = t->ts_ms, .at = (uint32_t)b->data.n, .twin_of = NO_ROW,
        .pair_id = pair_id, .source_id = source_id, .id_len = (uint8_t)t->id.n, .flags = (uint8_t)t->flags,
    };
    encode(&b->data, t, source_id, pair_id);
    r->end = (uint32_t)b->data.n;
    uint32_t *slot = find(b, hash, source_id, t->id);
    if (*slot == NO_ROW) {
        *slot = (uint32_t)b->n++;
        b->trades++;
        return QN_BATCH_ADDED;
    }
    bool same = same_content(b, r, &b->rows[*slot]);
    b->data.n = r->at;
    if (!same)
        return QN_BATCH_CONFLICT;
    r->end = r->at;
    r->twin_of = *slot;
    b->n++;
    return QN_BATCH_ADDED;
}

enum qn_err qn_batch_mark(struct qn_batch *b, int16_t source_id, struct qn_str id, bool same)
{
    uint32_t at = *find(b, qn_batch_hash(source_id, id), source_id, id);
    if (at == NO_ROW || b->rows[at].state != NEW)
        return QN_MISS;
    b->rows[at].state = same ? SAME : OTHER;
    b->trades--;
    return QN_OK;
}

struct qn_batch_counts qn_batch_count(const struct qn_batch *b)
{
    struct qn_batch_counts c = {0};
    for (size_t i = 0; i < b->n; i++) {
        const struct row *r = &b->rows[i];
        enum state state = r->twin_of == NO_ROW ? r->state : b->rows[r->twin_of].state;
        if (state == OTHER) {
            c.refused++;
        } else if (state == SAME || r->twin_of != NO_ROW) {
            c.duplicates++;
        } else {
            c.stored++;
            c.unpriced += (r->flags & QN_TRADE_UNPRICED) != 0;
            c.mismatches += (r->flags & QN_TRADE_MISMATCH) != 0;
        }
    }
    return c;
}

void qn_batch_refused(const struct qn_batch *b, void (*refused)(void *arg, uint64_t line), void *arg)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct row *r = &b->rows[i];
        if ((r->twin_of == NO_ROW ? r->state : b->rows[r->twin_of].state) == OTHER)
            refused(arg, r->line);
    }
}

/* ---- COPY */

struct qn_str qn_batch_copy_trades(struct qn_batch *b)
{
    static const size_t trailer = 2;
    size_t marked = 0;
    for (size_t i = 0; i < b->n; i++)
        marked += b->rows[i].state != NEW;
    if (marked == 0) { /* what is there already is what is asked for; the trailer is not kept */
        qn_pgcopy_end(&b->data);
        struct qn_str all = qn_buf_view(&b->data);
        b->data.n -= trailer;
        return all;
    }
    qn_buf_clear(&b->out);
    qn_buf_reserve(&b->out, b->data.n + trailer);
    qn_pgcopy_begin(&b->out);
    for (size_t i = 0; i < b->n; i++) {
        const struct row *r = &b->rows[i];
        if (is_new(r))
            qn_buf_put(&b->out, b->data.p + r->at, r->end - r->at);
    }
    qn_pgcopy_end(&b->out);
    return qn_buf_view(&b->out);
}

/* Fills b->order with the rows that are new; returns how many. */
static size_t order_new(struct qn_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (is_new(&b->rows[i]))
            b->order[n++] = (uint32_t)i;
    }
    return n;
}

static int compare_identity(const void *x, const void *y, void *arg)
{
    const struct qn_batch *b = arg;
    const struct row *r = &b->rows[*(const uint32_t *)x], *s = &b->rows[*(const uint32_t *)y];
    if (r->source_id != s->source_id)
        return r->source_id < s->source_id ? -1 : 1;
    return qn_str_cmp(row_id(b, r), row_id(b, s));
}

struct qn_str qn_batch_copy_ids(struct qn_batch *b)
{
    size_t n = order_new(b);
    qsort_r(b->order, n, sizeof *b->order, compare_identity, b);
    qn_buf_clear(&b->out);
    qn_pgcopy_begin(&b->out);
    for (size_t i = 0; i < n; i++) {
        const struct row *r = &b->rows[b->order[i]];
        struct qn_str id = row_id(b, r);
        qn_pgcopy_row(&b->out, IDS_FIELDS);
        qn_pgcopy_i16(&b->out, r->source_id);
        qn_pgcopy_bytes(&b->out, id.p, id.n);
        qn_pgcopy_ts(&b->out, r->ts_ms);
    }
    qn_pgcopy_end(&b->out);
    return qn_buf_view(&b->out);
}

static int compare_u64(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, c = *(const uint64_t *)y;
    return (a > c) - (a < c);
}

struct qn_str qn_batch_copy_dirty(struct qn_batch *b, size_t *n)
{
    enum { MINUTE_BITS = 32, MINUTE_MS = 60 * 1000 };
    size_t k = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct row *r = &b->rows[i];
        if (is_new(r) && !(r->flags & QN_TRADE_UNPRICED))
            b->minutes[k++] = (uint64_t)r->pair_id << MINUTE_BITS | (uint64_t)(r->ts_ms / MINUTE_MS);
    }
    qsort(b->minutes, k, sizeof *b->minutes, compare_u64);
    qn_buf_clear(&b->out);
    qn_pgcopy_begin(&b->out);
    *n = 0;
    for (size_t i = 0; i < k; i++) {
        if (i > 0 && b->minutes[i] == b->minutes[i - 1])
            continue;
        qn_pgcopy_row(&b->out, DIRTY_FIELDS);
        qn_pgcopy_i32(&b->out, (int32_t)(b->minutes[i] >> MINUTE_BITS));
        qn_pgcopy_ts(&b->out, (int64_t)(b->minutes[i] & UINT32_MAX) * MINUTE_MS);
        ++*n;
    }
    qn_pgcopy_end(&b->out);
    return qn_buf_view(&b->out);
}

/* ---- pair_sources */

/* By pair and source, then in the total order within one source: ts, ord, id. */
static int compare_market(const void *x, const void *y, void *arg)
{
    const struct qn_batch *b = arg;
    const struct row *r = &b->rows[*(const uint32_t *)x], *s = &b->rows[*(const uint32_t *)y];
    if (r->pair_id != s->pair_id)
        return r->pair_id < s->pair_id ? -1 : 1;
    if (r->source_id != s->source_id)
        return r->source_id < s->source_id ? -1 : 1;
    if (r->ts_ms != s->ts_ms)
        return r->ts_ms < s->ts_ms ? -1 : 1;
    int c = qn_str_cmp(row_rest(b, r).ord, row_rest(b, s).ord);
    return c ? c : qn_str_cmp(row_id(b, r), row_id(b, s));
}

static struct qn_str put_time(struct qn_arena *arena, int64_t ms)
{
    struct qn_buf out = {.arena = arena};
    qn_when_put(&out, ms);
    return qn_buf_view(&out);
}

static struct qn_str put_numeric(struct qn_arena *arena, struct qn_str value)
{
    if (!value.p)
        return QN_STR_NULL;
    struct qn_buf out = {.arena = arena};
    qn_pgcopy_get_numeric(&out, value);
    return qn_buf_view(&out);
}

static struct qn_str put_hex(struct qn_arena *arena, struct qn_str bytes)
{
    struct qn_buf out = {.arena = arena};
    qn_buf_puts(&out, "\\x");
    for (size_t i = 0; i < bytes.n; i++)
        qn_buf_printf(&out, "%02x", (unsigned char)bytes.p[i]);
    return qn_buf_view(&out);
}

/* Whether the row at place i of the order is the last of its pair and source. */
static bool ends_market(const struct qn_batch *b, size_t i, size_t n)
{
    if (i + 1 == n)
        return true;
    const struct row *r = &b->rows[b->order[i]], *next = &b->rows[b->order[i + 1]];
    return next->pair_id != r->pair_id || next->source_id != r->source_id;
}

void qn_batch_pairs(struct qn_batch *b, struct qn_arena *arena, struct qn_str arrays[QN_BATCH_PAIR_ARRAYS])
{
    size_t n = order_new(b), markets = 0;
    qsort_r(b->order, n, sizeof *b->order, compare_market, b);
    for (size_t i = 0; i < n; i++)
        markets += ends_market(b, i, n);
    struct qn_str *columns[QN_BATCH_PAIR_ARRAYS];
    for (size_t c = 0; c < QN_BATCH_PAIR_ARRAYS; c++)
        columns[c] = qn_arena_array(arena, markets, sizeof *columns[c]);
    size_t k = 0;
    for (size_t i = 0, first = 0; i < n; i++) {
        if (!ends_market(b, i, n))
            continue;
        const struct row *r = &b->rows[b->order[i]];
        struct rest f = row_rest(b, r);
        columns[0][k] = qn_arena_printf(arena, "%d", r->pair_id);
        columns[1][k] = qn_arena_printf(arena, "%d", r->source_id);
        columns[2][k] = put_time(arena, b->rows[b->order[first]].ts_ms);
        columns[3][k] = put_time(arena, r->ts_ms);
        columns[4][k] = put_hex(arena, f.ord);
        columns[5][k] = row_id(b, r);
        columns[6][k] = put_numeric(arena, f.base);
        columns[7][k] = put_numeric(arena, f.quote);
        columns[8][k] = put_numeric(arena, f.n);
        columns[9][k] = put_numeric(arena, f.d);
        k++;
        first = i + 1;
    }
    for (size_t c = 0; c < QN_BATCH_PAIR_ARRAYS; c++)
        arrays[c] = qn_pg_array(arena, columns[c], k);
}
