#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""Writes made-up trades as NDJSON (contract-prices, section 8), the same ones for the same arguments.

usage: gen-trades.py [--trades N] [--pairs N] [--days N] [--start ISO] [--seed N] > TRADES.ndjson

Prices walk; amounts are whole stroops; seven in ten trades carry the price n/d of an offer, which their rounded amounts
agree with; the rest are pool trades without one. A few markets are busy and most are not.
"""
import argparse, base64, bisect, hashlib, itertools, random, sys
from datetime import datetime, timedelta, timezone
from math import gcd


def account(name):
    """The strkey of a made-up account (SEP-23)."""
    body = bytes([6 << 3]) + hashlib.sha256(name.encode()).digest()
    crc = 0
    for byte in body:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return base64.b32encode(body + crc.to_bytes(2, "little")).decode()


def stroops(n):
    return f"{n // 10**7}.{n % 10**7:07d}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--trades", type=int, default=1_000_000)
    ap.add_argument("--pairs", type=int, default=200)
    ap.add_argument("--days", type=float, default=7)
    ap.add_argument("--start", default="2026-06-01T00:00:00+00:00")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--source", default="sdex")
    a = ap.parse_args()
    rnd = random.Random(a.seed)
    usd = "USDC-" + account("usdc")
    pairs = [[f"T{i}-" + account(f"token {i}"), "native" if i % 3 else usd, rnd.uniform(2, 14)]
             for i in range(a.pairs - 1)]
    pairs.insert(0, ["native", usd, 9.3])
    weights = list(itertools.accumulate(1 / (i + 1) ** 0.7 for i in range(len(pairs))))
    start = datetime.fromisoformat(a.start)
    step = a.days * 86_400_000 / a.trades
    out, ms, ledger, op = [], 0, 262109106612625409, 0
    for i in range(a.trades):
        last, ms = ms, int(i * step)
        if ms // 5000 != last // 5000:
            ledger, op = ledger + 4096 * rnd.randrange(1, 200), 0
        op += 1
        p = pairs[min(bisect.bisect(weights, rnd.random() * weights[-1]), len(pairs) - 1)]
        p[2] += rnd.gauss(0, 0.0004)
        d = rnd.randrange(10**6, 10**9)
        n = max(1, int(d * 2.718281828 ** (p[2] - 9)))
        base = int(10 ** rnd.uniform(5, 11))
        quote = base * n // d
        ts = (start + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
        g = gcd(n, d)
        price = f',"price_n":{n // g},"price_d":{d // g}' if rnd.random() < 0.7 else ""
        out.append(f'{{"id":"{ledger}-{op}","ts":"{ts}","source":"{a.source}","base":"{p[0]}","quote":"{p[1]}",'
                   f'"base_amount":"{stroops(base)}","quote_amount":"{stroops(quote)}"{price}}}\n')
        if len(out) == 10_000:
            sys.stdout.write("".join(out))
            out.clear()
    sys.stdout.write("".join(out))


if __name__ == "__main__":
    main()
