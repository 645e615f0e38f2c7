#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""How long a price and a page of candles take when Redis has nothing: a million candle rows in a private Postgres.

usage: tests/bench/cold.py [--rows N] [--requests N]     the programs come from $QUOIN_BUILD (default: build/)

Prints milliseconds as a client of nginx sees them. The worst kind of market is asked: one that trades every minute.
"""
import argparse
import http.client
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import stack as stacks  # noqa: E402
import trades as tr  # noqa: E402

TICKERS = ["BTC", "ETH", "XRP", "USDT", "USDC", "BCH", "LTC", "DOGE", "ADA", "SOL"]
FIAT = ["EUR", "GBP", "JPY", "CHF", "AUD", "CAD", "SEK", "NOK", "PLN", "MXN"]

FILL = """
INSERT INTO candles (pair_id, grain, t, open_n, open_d, high_n, high_d, low_n, low_d, close_n, close_d, base_volume,
  quote_volume, trades, sources, dust)
SELECT p.id, 60, date_trunc('minute', to_timestamp({now})) - m * interval '1 minute', 1234567 + m, 10000000, 1234999 + m,
  10000000, 1234000 + m, 10000000, 1234500 + m, 10000000, 1000.0000000 + m, 123.4567890 + m, 7,
  ARRAY[(SELECT min(id) FROM sources)], false
FROM pairs p, generate_series(5, {minutes}) m ON CONFLICT DO NOTHING;
ANALYZE;
"""


def percentile(sorted_ms, p):
    return sorted_ms[min(len(sorted_ms) - 1, int(len(sorted_ms) * p))]


def measure(stack, name, paths, requests, cold):
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=10)
    took, failed = [], 0
    for i in range(requests):
        if cold:
            stack.redis_call("FLUSHALL")
        started = time.perf_counter()
        connection.request("GET", paths[i % len(paths)])
        answer = connection.getresponse()
        answer.read()
        took.append((time.perf_counter() - started) * 1000)
        failed += answer.status != 200
    took.sort()
    print(f"{name:42} p50 {percentile(took, .5):7.2f}  p95 {percentile(took, .95):7.2f}  p99 {percentile(took, .99):7.2f}"
          f"  worst {took[-1]:7.2f} ms  failed {failed}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=400)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="quoin-bench.", dir="/tmp")
    postgres = stack = None
    try:
        postgres = stacks.Postgres(folder).create()
        postgres.start()
        stack = stacks.Stack(postgres, {"pool.prices": {"workers": 2}}).start()
        now = int(time.time())
        pairs = [(f"crypto:{t}", f"fiat:{f}") for t in TICKERS for f in FIAT]
        for n, (base, quote) in enumerate(pairs):
            stack.ingest(tr.walk(n, base, quote, now - 600, now - 60, 60, level=0.12))
        stack.aggregate()
        stack.postgres.query(stack.database, FILL.format(now=now, minutes=options.rows // len(pairs) + 4), 300)
        rows = stack.sql("SELECT count(*) FROM candles")[0][0]
        print(f"{rows} candle rows of {len(pairs)} markets")
        for window in (60, 3600, 86400):
            paths = [f"/v1/price?asset={b}&quote={q}&window={window}" for b, q in pairs]
            measure(stack, f"price, window {window}, cold", paths, options.requests, True)
        measure(stack, "price, hot", [f"/v1/price?asset={b}&quote={q}" for b, q in pairs[:1]], options.requests, False)
        inverse = [f"/v1/price?asset=fiat:{f}&quote=crypto:BTC" for f in FIAT]
        measure(stack, "price, the other way round, cold", inverse, options.requests, True)
        for limit in (100, 1000):
            paths = [f"/v1/ohlc?base={b}&quote={q}&granularity=1m&limit={limit}" for b, q in pairs]
            measure(stack, f"candles, {limit} of 1m", paths, options.requests, False)
    finally:
        if stack:
            stack.close()
        if postgres:
            postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
