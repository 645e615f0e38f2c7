/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "aggregate/dirty.h"
#include "aggregate/horizon.h"

/* WITH HOLD: ordered once, and not again for each batch's transaction. */
#define DECLARE(cursor, compare) \
    "DECLARE " cursor " NO SCROLL CURSOR WITH HOLD FOR SELECT id, pair_id, (extract(epoch FROM minute) * 1000)::int8" \
    " FROM dirty WHERE minute " compare " coalesce(to_timestamp($1::int8), '-infinity') ORDER BY pair_id, minute, id"

static const struct {
    const char *cursor;
    const char *declare;
    const char *close;
} PARTS[] = {
    [QN_DIRTY_OPEN] = {"quoin_open", DECLARE("quoin_open", ">="), "CLOSE quoin_open"},
    [QN_DIRTY_LATE] = {"quoin_late", DECLARE("quoin_late", "<"), "CLOSE quoin_late"},
};

void qn_dirty_clear(struct qn_dirty *d)
{
    qn_columns_clear(&d->ids);
    free(d->minutes);
    memset(d, 0, sizeof *d);
}

enum qn_err qn_dirty_open(struct qn_store *store, enum qn_dirty_part part, int64_t from)
{
    struct qn_buf moment = {0};
    qn_buf_i64(&moment, from / 1000);
    struct qn_str param = from == QN_HORIZON_NEVER ? QN_STR_NULL : qn_buf_view(&moment);
    enum qn_err err = qn_store_run(store, PARTS[part].declare, 1, &param, NULL);
    qn_buf_free(&moment);
    return err;
}

enum qn_err qn_dirty_close(struct qn_store *store, enum qn_dirty_part part)
{
    return qn_store_run(store, PARTS[part].close, 0, NULL, NULL);
}

enum qn_err qn_dirty_next(struct qn_dirty *d, struct qn_store *store, enum qn_dirty_part part, int max)
{
    d->rows = 0;
    d->n = 0;
    qn_columns_reset(&d->ids);
    struct qn_rows rows;
    enum qn_err err = qn_store_fetch(store, PARTS[part].cursor, max, &rows);
    if (err != QN_OK)
        return err;
    if (d->cap < rows.nrows) {
        d->cap = rows.nrows;
        d->minutes = qn_xrealloc(d->minutes, d->cap * sizeof *d->minutes);
    }
    for (size_t i = 0; i < rows.nrows; i++) {
        int64_t id, pair;
        struct qn_bucket *minute = &d->minutes[d->n];
        if (qn_store_i64(&rows, i, 0, &id) != QN_OK || qn_store_i64(&rows, i, 1, &pair) != QN_OK ||
            qn_store_i64(&rows, i, 2, &minute->start) != QN_OK)
            return QN_ECORRUPT;
        minute->pair = (int32_t)pair;
        minute->start = qn_grain_start(QN_1M, minute->start);
        qn_columns_int(&d->ids, 0, id);
        if (d->n == 0 || qn_bucket_cmp(minute, minute - 1) != 0)
            d->n++;
    }
    d->rows = rows.nrows;
    return QN_OK;
}

enum qn_err qn_dirty_delete(struct qn_dirty *d, struct qn_store *store)
{
    struct qn_str param;
    qn_columns_params(&d->ids, 1, &param);
    return qn_store_run(store, "DELETE FROM dirty WHERE id = ANY ($1::int8[])", 1, &param, NULL);
}
