/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 *
 * Stellar strkeys (SEP-23): RFC 4648 base32 without padding, a version byte, 32 bytes, CRC-16/XMODEM little-endian.
 */
#ifndef QN_BASE_STRKEY_H
#define QN_BASE_STRKEY_H

#include "base/base.h"

enum qn_strkey_kind { QN_STRKEY_ACCOUNT /* G */, QN_STRKEY_CONTRACT /* C */ };

/* Whether text is exactly one valid strkey of that kind: 56 upper-case characters, version byte and checksum right. */
bool qn_strkey_valid(enum qn_strkey_kind kind, struct qn_str text);
/* Writes the 56-character strkey of 32 bytes and a NUL into out[57]. */
void qn_strkey_encode(enum qn_strkey_kind kind, const unsigned char bytes[32], char out[57]);

#endif
