/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * One line of NDJSON to a trade's text or a watermark (contract-prices, section 8). Pure.
 *
 * A trade has the members id, ts, source, base, quote, base_amount, quote_amount, and price_n with price_d or neither.
 * Members that are not known are ignored, so that a newer writer can say more; a member that is null is absent. Amounts
 * are strings or JSON numbers, taken as written; a JSON number of more than 18 digits is bad (its writer has most
 * likely lost some already), and so is any exponent. ids are strings only: most languages lose large numbers.
 */
#ifndef QN_INGEST_NDJSON_H
#define QN_INGEST_NDJSON_H

#include "base/json.h"
#include "ingest/trade.h"

enum { QN_NDJSON_MAX_LINE = 64 * 1024 };

enum qn_ndjson_kind { QN_NDJSON_TRADE, QN_NDJSON_WATERMARK };

/* What a line says. base and quote are in the trade's own direction, unchecked (qn_trade_market_read); all text is
 * borrowed from the line or the reader, until the next line is read. */
struct qn_ndjson_line {
    enum qn_ndjson_kind kind;
    struct qn_trade_text trade;   /* of a watermark: ts_ms, and source or p == NULL: every source of this run */
    struct qn_str base, quote;
};

struct qn_ndjson_reader;
struct qn_ndjson_reader *qn_ndjson_reader_new(void);
void qn_ndjson_reader_free(struct qn_ndjson_reader *r);

/* Reads one line, without its newline, neither blank nor longer than QN_NDJSON_MAX_LINE. QN_EINVAL: *why is a static
 * text that says what is wrong. The trade's own rules are qn_trade_read's. */
QN_MUST enum qn_err qn_ndjson_read(struct qn_ndjson_reader *r, struct qn_str line, struct qn_ndjson_line *out,
                                   const char **why);

/* Whether a line holds nothing but blanks. */
bool qn_ndjson_blank(struct qn_str line);

#endif
