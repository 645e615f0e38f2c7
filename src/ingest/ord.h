/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * The order of trade ids: runs of digits count as numbers (10-2 before 10-10), made sortable by bytes (contract-prices,
 * section 2: OHLC). Ids that differ in leading zeros only have one ord; the id itself breaks the tie. Pure.
 */
#ifndef QN_INGEST_ORD_H
#define QN_INGEST_ORD_H

#include "base/base.h"

enum {
    QN_ORD_ID_MAX = 128,
    QN_ORD_MAX = 320, /* 64 one-digit runs of 3 bytes and 64 one-character runs of 2 */
};

/* Writes the ord of an id of at most QN_ORD_ID_MAX printable ASCII characters into out and returns its length.
 * A run of digits is 0x01, the count of its digits without leading zeros (one byte), those digits; a run of anything
 * else is 0x02 and its bytes. */
size_t qn_ord_encode(struct qn_str id, unsigned char out[QN_ORD_MAX]);

#endif
