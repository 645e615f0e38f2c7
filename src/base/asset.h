/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Asset ids (contract-prices, section 1): every spelling that is accepted, and the one canonical form of each.
 */
#ifndef QN_BASE_ASSET_H
#define QN_BASE_ASSET_H

#include "base/base.h"

struct qn_config;

enum qn_asset_kind { QN_ASSET_NATIVE, QN_ASSET_CLASSIC, QN_ASSET_CONTRACT, QN_ASSET_FIAT, QN_ASSET_CRYPTO };

/* More names than one asset has: room for qn_asset_family. */
enum { QN_ASSET_MAX_FAMILY = 16 };

/* 12 of code, 1 of hyphen, 56 of issuer, NUL. */
enum { QN_ASSET_MAX = 72 };

/* A plain value; copied by assignment. text is canonical and NUL-terminated. */
struct qn_asset {
    enum qn_asset_kind kind;
    uint8_t len;
    char text[QN_ASSET_MAX];
};

static inline struct qn_str qn_asset_str(const struct qn_asset *a)
{
    return (struct qn_str){a->text, a->len};
}

/* Reads any accepted spelling and canonicalises it; the lists of fiat and crypto tickers are the configuration's.
 * QN_EINVAL: anything else (secret seeds, muxed accounts, bad checksums, lower case, 13-character codes, control bytes,
 * tickers that are not listed …). */
QN_MUST enum qn_err qn_asset_parse(const struct qn_config *config, struct qn_str text, struct qn_asset *out);
/* Reads a canonical form only: QN_EINVAL for an alias too. For our own stores. */
QN_MUST enum qn_err qn_asset_parse_canonical(const struct qn_config *config, struct qn_str text, struct qn_asset *out);

bool qn_asset_eq(const struct qn_asset *a, const struct qn_asset *b);
/* Whether both are one asset under several names: native, crypto:XLM and native's contract; configured aliases. */
bool qn_asset_same_family(const struct qn_config *config, const struct qn_asset *a, const struct qn_asset *b);
/* The canonical names of a's family, a first, then native, crypto:XLM, the contract, configured aliases in order: into
 * out, at most max; returns how many. A family of one is a alone. */
size_t qn_asset_family(const struct qn_config *config, const struct qn_asset *a, struct qn_asset *out, size_t max);

/* A market in stored direction: the bytewise smaller canonical string is the base. Returns true when (a, b) is the
 * inverse of the stored direction, i.e. base = b. */
bool qn_asset_stored(const struct qn_asset *a, const struct qn_asset *b, struct qn_asset *base, struct qn_asset *quote);

#endif
