/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include <stdlib.h>

#include "ingest/batch.h"
#include "ingest/ndjson.h"
#include "ingest/pgcopy.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const int64_t now_ms = INT64_C(1767225600000);

/* What is taken is JSON for the strict reader too, and a trade that is taken goes into a batch; its row holds the
 * amounts that were read. A line that is not taken says why. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct qn_config *config;
    static struct qn_ndjson_reader *reader;
    static struct qn_json_reader *json;
    static struct qn_trade trade;
    static struct qn_batch *batch;
    struct qn_str text = {(const char *)data, size};
    struct qn_ndjson_line line;
    struct qn_trade_market market;
    const char *why = NULL;
    if (!config) {
        config = qn_config_defaults();
        reader = qn_ndjson_reader_new();
        json = qn_json_reader_new();
        batch = qn_batch_new(4);
        qn_trade_init(&trade);
    }
    if (size > QN_NDJSON_MAX_LINE || qn_ndjson_blank(text))
        return 0;
    if (qn_ndjson_read(reader, text, &line, &why)) {
        if (!why)
            abort();
        return 0;
    }
    struct json_object *o;
    if (qn_json_read(json, text, &o, &why))
        abort();
    /* and it says the same, whichever of the two readers took it */
    const struct {
        const char *name;
        struct qn_str value;
    } members[] = {{"id", line.trade.id}, {"source", line.trade.source}, {"base", line.base}, {"quote", line.quote}};
    for (size_t i = 0; line.kind == QN_NDJSON_TRADE && i < QN_LEN(members); i++) {
        struct qn_str value;
        if (qn_json_get_str(o, members[i].name, &value) || !qn_str_eq(value, members[i].value))
            abort();
    }
    json_object_put(o);
    if (line.kind != QN_NDJSON_TRADE)
        return 0;
    why = NULL;
    if (qn_trade_market_read(config, line.base, line.quote, &market, &why) ||
        qn_trade_read(&trade, &line.trade, market.flip, 7, 100, now_ms, &why)) {
        if (!why)
            abort();
        return 0;
    }
    qn_batch_reset(batch);
    if (qn_batch_add(batch, &trade, qn_batch_hash(1, trade.id), 1, 1, 1) != QN_BATCH_ADDED ||
        qn_batch_add(batch, &trade, qn_batch_hash(1, trade.id), 1, 1, 2) != QN_BATCH_ADDED ||
        qn_batch_trades(batch) != 1 || qn_batch_lines(batch) != 2)
        abort();
    struct qn_arena *arena = qn_arena_new(1024);
    struct qn_str arrays[QN_BATCH_PAIR_ARRAYS];
    qn_batch_pairs(batch, arena, arrays);
    struct qn_dec amount;
    qn_dec_init(&amount);
    struct qn_str printed = {arrays[6].p + 2, arrays[6].n - 4}; /* without {" and "} */
    if (qn_dec_parse(&amount, printed, 0) || qn_dec_cmp(&amount, &trade.base) != 0 || amount.scale != trade.base.scale)
        abort();
    qn_dec_clear(&amount);
    qn_arena_free(arena);
    return 0;
}
