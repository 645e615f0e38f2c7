#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""Generated trades for trying quoin out. They are invented: no price in them is a real one.

usage: generate.py history --origin MS            the week before the origin, and up to now
       generate.py live --origin MS --from MS     from then to now at once, then on as time goes by, with watermarks

Output: NDJSON as `quoin-indexer --source ndjson` reads it. A trade is a pure function of the seed and of its distance
to the origin (milliseconds since the epoch; the moment of the first start). So the same trades come again wherever one
begins, with the same ids, and a gap is filled by asking for it; nothing is remembered between runs. All arithmetic is
on integers. Before the last hour only every 25th trade is made: a week is about 80,000 trades; live, it is about 3 a
second.
"""
import argparse
import base64
import hashlib
import heapq
import json
import os
import select
import sys
import time

SEED = 0x71756F696E  # "quoin"
SOURCE = "sample"
WEEK = 7 * 86400 * 1000
DENSE = 3600 * 1000
THIN = 25
# The walk: (length in ms, amplitude in millionths); each is noise with a value per length, linear in between.
OCTAVES = ((3 * 86400000, 60000), (86400000, 25000), (4 * 3600000, 9000), (1800000, 3000), (180000, 900))


def mix(*parts):
    """64 well-mixed bits of the seed and the parts (splitmix64)."""
    x = SEED
    for part in parts:
        x = (x + part + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 31
    return x


def issuer(name):
    """An account id that is well-formed (SEP-23: version byte, key, CRC16-XModem) and belongs to nobody."""
    raw = bytes([6 << 3]) + hashlib.sha256(b"quoin sample issuer " + name.encode()).digest()
    crc = 0
    for byte in raw:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return base64.b32encode(raw + crc.to_bytes(2, "little")).decode()


def issued(code):
    return f"{code}-{issuer(code)}"


USDC = "USDC-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
EURC, AQUA, SHELL, YXLM, YBTC, GOLD, WIND, RICE, COFE, SOLR = map(
    issued, ("EURC", "AQUA", "SHELL", "yXLM", "yBTC", "GOLD", "WIND", "RICE", "COFE", "SOLR"))

# name, base, quote, price in 10^-9 units of quote, typical base amount in hundredths, one trade every so many seconds.
# A market of Stellar has seven digits after the point and quotes an n/d; the others have eight and quote none.
PEGGED = {"usdc-usd", "yxlm-xlm"}  # these walk a fiftieth as far
MARKETS = [
    ("xlm-usdc", "native", USDC, 240_000_000, 90000, 2),
    ("xlm-usd", "native", "fiat:USD", 240_000_000, 150000, 3),
    ("btc-usd", "crypto:BTC", "fiat:USD", 64_000 * 10**9, 5, 2),
    ("eth-usd", "crypto:ETH", "fiat:USD", 3_100 * 10**9, 80, 3),
    ("xrp-usd", "crypto:XRP", "fiat:USD", 1_450_000_000, 70000, 5),
    ("eth-btc", "crypto:ETH", "crypto:BTC", 48_400_000, 100, 10),
    ("usdc-usd", USDC, "fiat:USD", 1_000_000_000, 200000, 8),
    ("xlm-eurc", "native", EURC, 221_000_000, 40000, 6),
    ("eurc-usdc", EURC, USDC, 1_086_000_000, 30000, 12),
    ("aqua-xlm", AQUA, "native", 3_400_000, 6000000, 5),
    ("aqua-usdc", AQUA, USDC, 816_000, 4000000, 20),
    ("yxlm-xlm", YXLM, "native", 1_002_000_000, 50000, 9),
    ("ybtc-xlm", YBTC, "native", 266_000 * 10**9, 1, 15),
    ("ybtc-usdc", YBTC, USDC, 63_900 * 10**9, 1, 30),
    ("shell-xlm", SHELL, "native", 2_100_000_000, 9000, 40),
    ("gold-usdc", GOLD, USDC, 2_650 * 10**9, 20, 60),
    ("wind-xlm", WIND, "native", 55_000_000, 250000, 90),
    ("rice-usdc", RICE, USDC, 610_000_000, 12000, 120),
    ("cofe-eurc", COFE, EURC, 4_820_000_000, 1500, 300),
    ("solr-xlm", SOLR, "native", 710_000_000, 15000, 900),
]


def decimal(units, digits):
    """units of 10^-digits as a plain decimal."""
    whole, part = divmod(units, 10**digits)
    return f"{whole}.{part:0{digits}d}"


def timestamp(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


class Market:
    def __init__(self, index, name, base, quote, level, typical, every):
        self.index, self.name, self.base, self.quote = index, name, base, quote
        self.level, self.typical, self.slot = level, typical, every * 1000
        self.calm = 50 if name in PEGGED else 1
        self.stellar = not any(side.startswith(("crypto:", "fiat:")) for side in (base, quote))
        self.lattice = [{} for _ in OCTAVES]

    def knot(self, octave, k):
        known = self.lattice[octave]
        if k not in known:
            if len(known) > 64:
                known.clear()
            known[k] = mix(self.index, octave, k) % 2_000_001 - 1_000_000
        return known[k]

    def millionths(self, at):
        """The level's factor at this time, in millionths."""
        total = 0
        for octave, (length, amplitude) in enumerate(OCTAVES):
            k, rest = divmod(at, length)
            here, there = self.knot(octave, k), self.knot(octave, k + 1)
            total += (here * length + (there - here) * rest) // length * amplitude // 1_000_000
        return 1_000_000 + total // self.calm

    def trade(self, k, at, start):
        """The k-th trade; at: ms since start."""
        dice = mix(self.index, 100, k)
        spread = (dice % 801 - 400) // self.calm
        price = self.level * (self.millionths(at) + spread) // 1_000_000  # in 10^-9 of quote
        digits = 7 if self.stellar else 8
        # from a twentieth to about three times the typical amount, small ones more often
        x = (dice >> 20) % 1000 + 1
        base = self.typical * 10**digits // 100 * (x * x + 17_000) // 340_000 + (dice >> 40) % 10**4
        row = {"id": f"{self.name}-{k}", "ts": timestamp(start + at), "source": SOURCE, "base": self.base,
               "quote": self.quote, "base_amount": decimal(base, digits)}
        if self.stellar:
            row["quote_amount"] = decimal(base * price // 10**9, 7)
            row.update(price_n=str(price), price_d=str(10**9))
        else:
            row["quote_amount"] = decimal(base * price, digits + 9)
        return row

    def trades(self, start, first, dense):
        """All from `first` on, in order, as (ts, name, maker of the row); thinned out before `dense`. All ms."""
        k = max((first - start) // self.slot, 0)
        while True:
            if k % THIN and start + (k + 1) * self.slot <= dense:
                k += THIN - k % THIN  # the rest of these is thinned out
                continue
            at = k * self.slot + mix(self.index, 200, k) % self.slot
            if start + at >= first and (start + at >= dense or k % THIN == 0):
                yield start + at, self.index, k, at
            k += 1


def all_trades(origin, first, dense):
    """(ts, line) of all markets from `first` on, in the order of time; never ends."""
    start = origin - WEEK
    markets = [Market(i, *m) for i, m in enumerate(MARKETS)]
    for ts, index, k, at in heapq.merge(*(m.trades(start, first, dense) for m in markets)):
        yield ts, json.dumps(markets[index].trade(k, at, start), separators=(",", ":")) + "\n"


def now_ms():
    """The wall clock, shifted like the programs' own in tests."""
    return time.time_ns() // 1_000_000 + 1000 * int(os.environ.get("QUOIN_TEST_CLOCK_OFFSET") or 0)


def history(origin, out):
    now = now_ms()
    for ts, line in all_trades(origin, max(origin, now) - WEEK, now - DENSE):
        if ts > now:
            break
        out.write(line)


def live(origin, first, out):
    now = now_ms()
    gone = select.poll()
    gone.register(out.fileno(), 0)  # reports only that the reader is gone
    watermark = 0
    for ts, line in all_trades(origin, max(first, now - WEEK), now - DENSE):
        while ts > now_ms():
            now = min(now_ms(), ts)
            if now - watermark >= 1000:  # every trade before now is out
                out.write(f'{{"watermark":"{timestamp(now)}"}}\n')
                watermark = now
            out.flush()
            if gone.poll(min(max(ts - now_ms(), 1), 500)):
                return
        out.write(line)


if __name__ == "__main__":
    options = argparse.ArgumentParser(usage=__doc__.partition("usage: ")[2].partition("\n\n")[0])
    options.add_argument("what", choices=("history", "live"))
    options.add_argument("--origin", type=int, required=True)
    options.add_argument("--from", dest="first", type=int)
    chosen = options.parse_args()
    try:
        if chosen.what == "history":
            history(chosen.origin, sys.stdout)
        else:
            live(chosen.origin, chosen.origin if chosen.first is None else chosen.first, sys.stdout)
        sys.stdout.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        # The reader is gone, or we are told to go: nothing is lost, the next start begins where the reader got to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
