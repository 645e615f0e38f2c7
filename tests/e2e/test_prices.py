# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""Prices and candles through nginx against exact fractions; hot, cold and inverse answers are the same bytes."""
import time

import pytest

import exact
import trades as tr

WINDOWS = (60, 300, 900, 3600, 86400)
GRAINS = ("1m", "5m", "15m", "30m", "1h", "4h", "1d", "1w", "1mo")
REFERENCE = "fiat:USD"


def made_up(end):
    return (tr.walk(1, "native", tr.USDC, end - 60 * 3600, end, 90, level=0.12)
            + tr.walk(2, "crypto:BTC", "fiat:EUR", end - 60 * 3600, end, 400, "kraken", level=60000)
            + tr.walk(3, "fiat:EUR", "native", end - 60 * 3600, end - 1800, 900, "kraken", level=9)
            + tr.walk(4, "crypto:XRP", "crypto:ETH", end - 60 * 3600, end - 20 * 3600, 700, "binance", level=0.0002))


def data_sets():
    sets = [pytest.param(None, id="made-up")]
    return sets + [pytest.param(path, id=path.rsplit("/", 1)[-1]) for path in tr.real_files()]


@pytest.fixture(scope="module", params=data_sets())
def timed(request, new_stack):
    """A stack whose clock stands just behind the newest trade, so that all windows are alive; and its markets."""
    now = int(time.time())
    trades = tr.load(request.param) if request.param else made_up(now)
    newest = max(exact.millis(t["ts"]) for t in trades) // 1000
    stack = new_stack(clock_offset=newest - now + 70).start()
    stack.ingest(request.param or trades)
    stack.aggregate()
    return stack, exact.markets(trades)


def horizon(stack):
    return int(stack.sql("SELECT extract(epoch FROM closed_until)::int8 FROM progress WHERE source_id = 0")[0][0])


def newest_markets(markets, n):
    return sorted(markets.items(), key=lambda item: -item[1][-1].ms)[:n]


def test_candles_of_every_grain_in_both_directions(timed):
    stack, markets = timed
    h = horizon(stack)
    compared = 0
    for (base, quote), rows in markets.items():
        for grain in GRAINS:
            for flip in (False, True):
                want = [c for c in exact.candles(rows, grain, flip) if exact.millis(c["t"]) // 1000 + length(c["t"], grain) <= h]
                asset, other = (quote, base) if flip else (base, quote)
                got = all_candles(stack, asset, other, grain, exact.iso(rows[0].ms // 1000 * 1000 - 40 * 86400000))
                assert got == want, (asset, other, grain)
                compared += len(want)
    assert compared > 0


def length(t, grain):
    if grain == "1w":
        return 7 * 86400
    if grain == "1mo":
        start = exact.millis(t)
        return (exact.bucket(start + 32 * 86400000, "1mo") * 1000 - start) // 1000
    return exact.SECONDS[grain]


def all_candles(stack, base, quote, grain, start):
    found, cursor = [], {}
    while True:
        answer = stack.get("/v1/ohlc", base=base, quote=quote, granularity=grain, from_=start, limit=1000, order="desc", **cursor)
        assert answer.status == 200, answer
        found += answer.data["candles"]
        cursor = {"cursor": answer.json["pagination"]["next"]}
        if not cursor["cursor"]:
            return found[::-1]


def test_prices_of_every_window_in_both_directions(timed):
    stack, markets = timed
    stack.aggregate()
    for (base, quote), rows in newest_markets(markets, 12):
        for window in WINDOWS:
            for flip in (False, True):
                asset, other = (quote, base) if flip else (base, quote)
                if other == REFERENCE:
                    continue  # may resolve over other markets too
                answer = stack.get("/v1/price", asset=asset, quote=other, window=window)
                if answer.status == 404:
                    assert all(t.price is None for t in rows)
                    continue
                h = exact.millis(answer.json["as_of"]) // 1000
                want = exact.price(rows, h, window, flip)
                if want:
                    assert answer.data == {"asset": asset, "quote": other, **want}
                else:
                    assert answer.data["price_type"] == "last_trade" and answer.json["stale_flag"]


def asks(markets):
    for (base, quote), rows in newest_markets(markets, 6):
        if all(t.price is None for t in rows):
            continue
        for window in WINDOWS:
            yield {"asset": base, "quote": quote, "window": window}
            yield {"asset": quote, "quote": base, "window": window}
            for asset in (base, quote):
                if asset != REFERENCE:
                    yield {"asset": asset, "quote": REFERENCE, "window": window}


def comparable(answer):
    if answer.status != 200:
        return answer.status, answer.slug  # a problem document has an id of its own request
    return answer.status, answer.body, answer.headers["etag"]


def test_hot_cold_and_outage_are_the_same_bytes(timed):
    """Hot (the aggregator's value), cold (no key), refilled (the reader's) and without Redis: one answer, but for
    stale_flag. The aggregator is not running, so the horizon stands still meanwhile."""
    stack, markets = timed
    stack.aggregate()
    list_of_asks = list(asks(markets))
    hot = [stack.get("/v1/price", **ask) for ask in list_of_asks]
    if any(t.price for rows in markets.values() for t in rows):
        assert stack.redis_call("DBSIZE") > 0, "the aggregator wrote no hot values"
    stack.redis_call("FLUSHALL")
    cold = [stack.get("/v1/price", **ask) for ask in list_of_asks]
    assert stack.redis_call("DBSIZE") > 0, "nothing was repopulated"
    refilled = [stack.get("/v1/price", **ask) for ask in list_of_asks]
    stack.redis.stop()
    try:
        outage = [stack.get("/v1/price", **ask) for ask in list_of_asks]
    finally:
        stack.redis.start()
    for ask, a, b, c, d in zip(list_of_asks, hot, cold, refilled, outage):
        assert comparable(a) == comparable(b) == comparable(c), ask
        assert d.status == a.status, ask
        if a.status == 200:
            assert d.json["stale_flag"] is True and d.headers["cache-control"] == "no-store"
            assert d.body.replace(b'"stale_flag":true', b"") == a.body.replace(b'"stale_flag":false', b"").replace(b'"stale_flag":true', b""), ask
    assert any(a.status == 200 for a in hot)


def test_every_key_has_a_ttl(timed):
    stack, _ = timed
    stack.aggregate()
    keys = stack.redis_call("KEYS", "*")
    assert keys
    for key in keys:
        assert 0 < stack.redis_call("TTL", key) <= 86400, key


def test_history_pages_both_ways_without_loss(timed):
    stack, markets = timed
    for (base, quote), rows in newest_markets(markets, 4):
        for flip in (False, True):
            asset, other = (quote, base) if flip else (base, quote)
            want = [{"id": t.id, "source": t.source, "ts": exact.iso(t.ms),
                     "price": None if t.price is None else exact.quotient(1 / t.price if flip else t.price),
                     "base_amount": amount(t.q if flip else t.b), "quote_amount": amount(t.b if flip else t.q)}
                    for t in rows[-1500:]]
            span = {"from_": exact.iso(rows[-1500:][0].ms), "to": exact.iso(rows[-1].ms + 1)}
            for order in ("asc", "desc"):
                got, cursor = [], {}
                while True:
                    answer = stack.get("/v1/history", base=asset, quote=other, order=order, limit=97, **span, **cursor)
                    assert answer.status == 200, answer
                    got += answer.data["trades"]
                    cursor = {"cursor": answer.json["pagination"]["next"]}
                    if not cursor["cursor"]:
                        break
                first = want[0]["ts"]
                got = [t for t in got if t["ts"] != first]  # the slice may begin inside a group of one moment
                part = [t for t in want if t["ts"] != first]
                assert got == (part if order == "asc" else part[::-1]), (asset, other, order)


def amount(f):
    return exact.decimal(f) if f >= 0 else "-" + exact.decimal(-f)


@pytest.mark.parametrize("grain", GRAINS)
def test_limit_alone_gives_that_many_whole_buckets(new_stack, grain):
    """Without from and to: the newest `limit` closed buckets, wherever in a bucket the horizon is."""
    if not hasattr(new_stack, "dense"):
        now = int(time.time())
        new_stack.dense = new_stack().start()
        new_stack.dense.ingest(tr.walk(5, "native", tr.USDC, now - 200 * 86400, now, 7000, level=0.12)
                               + tr.walk(6, "native", tr.USDC, now - 15 * 3600, now, 15, level=0.12))
        new_stack.dense.aggregate()
    answer = new_stack.dense.get("/v1/ohlc", base="native", quote=tr.USDC, granularity=grain, limit=3)
    assert [c["closed"] for c in answer.data["candles"]] == [True] * 3, answer
    h = exact.millis(answer.json["as_of"])
    newest = exact.millis(answer.data["candles"][-1]["t"])
    assert newest + length(answer.data["candles"][-1]["t"], grain) * 1000 == exact.bucket(h, grain) * 1000
    assert answer.json["pagination"]["next"] is None


def test_what_is_not_aggregated_yet_is_not_pinned(new_stack):
    """Coverage is committed with the trades, candles after them: until then an empty range is not the last word."""
    stack = new_stack().start()
    now = int(time.time())
    stack.ingest(tr.walk(51, "native", tr.USDC, now - 3600, now, 60, level=0.12))
    stack.aggregate()
    day = (now - 40 * 86400) // 86400 * 86400
    stack.ingest(tr.walk(52, "native", tr.USDC, day + 3600, day + 7200, 60, level=0.12))
    ask = {"base": "native", "quote": tr.USDC, "granularity": "1h", "from_": day, "to": day + 86400}
    early = stack.get("/v1/ohlc", **ask)
    assert early.data["candles"] == [] and early.headers["cache-control"] == "public, max-age=5"
    stack.aggregate()
    late = stack.get("/v1/ohlc", **ask)
    assert late.data["candles"] and "immutable" in late.headers["cache-control"]


def test_open_buckets_are_paged_without_loss(new_stack):
    stack = new_stack().start()
    minute = int(time.time()) // 60 * 60
    times = [minute + 60 * n + 1 for n in range(-3, 4)]
    stack.ingest([{"id": str(t), "ts": exact.iso(t * 1000), "source": "sdex", "base": "native", "quote": tr.USDC,
                   "base_amount": "1.0000000", "quote_amount": "0.5000000"} for t in times])
    stack.aggregate()
    for order in ("asc", "desc"):
        for limit in (1, 2, 3, 1000):
            got, cursor = [], {}
            while True:
                answer = stack.get("/v1/ohlc", base="native", quote=tr.USDC, granularity="1m", include_open="true", limit=limit,
                                   order=order, from_=minute - 3600, **cursor)
                page = [c["t"] for c in answer.data["candles"]]
                got += page if order == "desc" else page[::-1]
                assert answer.headers["cache-control"] == "public, max-age=5"
                cursor = {"cursor": answer.json["pagination"]["next"]}
                if not cursor["cursor"]:
                    break
            assert got == [exact.iso((t - 1) * 1000)[:19] + "Z" for t in reversed(times)], (order, limit)


def test_changed_cursors_are_400(timed):
    stack, markets = timed
    base, quote = max(markets, key=lambda market: len(exact.candles(markets[market], "1m")))
    ask = {"base": base, "quote": quote, "limit": 1, "granularity": "1m", "from_": 0}
    cursor = stack.get("/v1/ohlc", **ask).json["pagination"]["next"]
    assert cursor
    for i in range(0, len(cursor), 5):
        for changed in (cursor[:i], cursor[:i] + ("A" if cursor[i] != "A" else "B") + cursor[i + 1:]):
            answer = stack.get("/v1/ohlc", cursor=changed, **ask)
            assert (answer.status, answer.slug, answer.json["param"]) == (400, "invalid-cursor", "cursor")
