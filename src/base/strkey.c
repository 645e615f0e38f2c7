/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) the quoin authors
 */
#include "base/base.h"

#include "base/strkey.h"

enum { TEXT = 56, RAW = 35, PAYLOAD = 33 };

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

static unsigned char version_of(enum qn_strkey_kind kind)
{
    return kind == QN_STRKEY_ACCOUNT ? 6 << 3 : 2 << 3; /* the first letter in the upper five bits */
}

/* CRC-16/XMODEM: polynomial 0x1021, start 0, not reflected; a nibble at a time. */
static unsigned crc16(const unsigned char *p, size_t n)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                       0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;
    for (size_t i = 0; i < n; i++) {
        crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ p[i] >> 4];
        crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ (p[i] & 15)];
    }
    return crc;
}

static int base32_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= '2' && c <= '7')
        return c - '2' + 26;
    return -1;
}

bool qn_strkey_valid(enum qn_strkey_kind kind, struct qn_str text)
{
    if (text.n != TEXT)
        return false;
    unsigned char raw[RAW];
    /* 56 * 5 bits are 35 bytes exactly: there are no left-over bits that could differ. */
    for (size_t group = 0; group < TEXT / 8; group++) {
        uint64_t bits = 0;
        for (size_t i = 0; i < 8; i++) {
            int v = base32_value(text.p[group * 8 + i]);
            if (v < 0)
                return false;
            bits = bits << 5 | (unsigned)v;
        }
        for (size_t i = 0; i < 5; i++)
            raw[group * 5 + i] = (unsigned char)(bits >> (32 - 8 * i));
    }
    return raw[0] == version_of(kind) && crc16(raw, PAYLOAD) == (raw[PAYLOAD] | (unsigned)raw[PAYLOAD + 1] << 8);
}

void qn_strkey_encode(enum qn_strkey_kind kind, const unsigned char bytes[32], char out[57])
{
    unsigned char raw[RAW];
    raw[0] = version_of(kind);
    memcpy(raw + 1, bytes, 32);
    unsigned crc = crc16(raw, PAYLOAD);
    raw[PAYLOAD] = (unsigned char)crc;
    raw[PAYLOAD + 1] = (unsigned char)(crc >> 8);
    for (size_t group = 0; group < TEXT / 8; group++) {
        uint64_t bits = 0;
        for (size_t i = 0; i < 5; i++)
            bits = bits << 8 | raw[group * 5 + i];
        for (size_t i = 0; i < 8; i++)
            out[group * 8 + i] = alphabet[bits >> (35 - 5 * i) & 31];
    }
    out[TEXT] = '\0';
}
