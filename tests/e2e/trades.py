# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""Trades for tests: made up from a seed, and real ones where the folder that holds them stands beside the tree."""
import glob
import json
import os
import random

import exact
from stack import ROOT

USDC = "USDC-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
DATA = os.environ.get("QUOIN_TEST_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data"))


def real_files():
    """Paths of real trades; empty where there are none."""
    return sorted(glob.glob(f"{DATA}/trades/*-20*.ndjson")) + sorted(glob.glob(f"{DATA}/trades/sdex-mixed.ndjson"))


def load(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def walk(seed, base, quote, start, end, gap, source="sdex", level=0.1):
    """A random walk of trades, `gap` seconds apart on average; some with the price of an offer, a few of dust."""
    rng, made, at, n = random.Random(seed), [], start * 1000, 0
    while True:
        at += rng.randint(1, 2000 * gap)
        if at >= end * 1000:
            return made
        n += 1
        level *= 1 + rng.uniform(-0.003, 0.003)
        stroops = rng.choice([rng.randint(1, 300), rng.randint(10 ** 5, 10 ** 11)])
        d = rng.randint(10 ** 6, 10 ** 9)
        price_n = max(1, int(level * d))
        other = stroops * price_n // d
        trade = {"id": f"{seed}-{n}", "ts": exact.iso(at), "source": source, "base": base, "quote": quote,
                 "base_amount": f"{stroops // 10 ** 7}.{stroops % 10 ** 7:07d}",
                 "quote_amount": f"{other // 10 ** 7}.{other % 10 ** 7:07d}"}
        if rng.random() < 0.7:
            trade.update(price_n=price_n, price_d=d)
        made.append(trade)
