# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""quoin-aggregator with real Postgres and Redis: candles, what is closed, locks, crashes, and hot values."""
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

import exact
import trades as tr
from stack import ROOT, Daemon, tail, wait_until

GRAINS = {"1m": 60, "5m": 300, "15m": 900, "30m": 1800, "1h": 3600, "4h": 14400, "1d": 86400, "1w": 604800,
          "1mo": 2592000}
SOME_DAY = 1772409600  # 2026-03-02T00:00:00Z, a Monday
EXPECT = os.environ.get("QUOIN_EXPECT", os.path.join(os.path.dirname(ROOT), "shared", "check", "expect.py"))

WAITING = ("SELECT count(*) FROM pg_stat_activity"
           " WHERE wait_event_type = 'Lock' AND application_name = 'quoin-aggregator'")


# ---- helpers

@pytest.fixture
def store(new_stack):
    """Makes stacks with Redis and a schema, without the pool and nginx."""
    def make(config=None, clock_offset=None):
        stack = new_stack(config, clock_offset)
        stack.redis.start()
        stack.migrate()
        return stack
    return make


def trade(n, ts, base="1.0000000", quote="0.5000000", pair=("native", "fiat:USD"), source="sdex", **more):
    ts = ts if isinstance(ts, str) else exact.iso(int(ts * 1000))
    return {"id": str(n), "ts": ts, "source": source, "base": pair[0], "quote": pair[1], "base_amount": base,
            "quote_amount": quote, **more}


def stored(stack):
    """{(base, quote, grain, start): candle as /v1/ohlc prints it}, and the versions by the side."""
    found, versions = {}, {}
    for row in stack.sql(
            "SELECT b.canonical, q.canonical, c.grain, extract(epoch FROM c.t)::int8, c.open_n, c.open_d, c.high_n,"
            " c.high_d, c.low_n, c.low_d, c.close_n, c.close_d, c.base_volume, c.quote_volume, c.trades, c.dust,"
            " c.version"
            " FROM candles c JOIN pairs p ON p.id = c.pair_id JOIN assets b ON b.id = p.base"
            " JOIN assets q ON q.id = p.quote", 120):
        price = [exact.quotient(exact.Fraction(int(row[i]), int(row[i + 1]))) for i in (4, 6, 8, 10)]
        base, quote = exact.Fraction(row[12]), exact.Fraction(row[13])
        key = (row[0], row[1], int(row[2]), int(row[3]))
        found[key] = (*price, exact.quotient(quote / base), exact.decimal(base), exact.decimal(quote), int(row[14]))
        versions[key] = int(row[16])
    return found, versions


FIELDS = ("open", "high", "low", "close", "vwap", "base_volume", "quote_volume", "trades")


def expected(trades):
    found = {}
    for (base, quote), rows in exact.markets(trades).items():
        for grain, seconds in GRAINS.items():
            for c in exact.candles(rows, grain):
                found[base, quote, seconds, exact.millis(c["t"]) // 1000] = tuple(c[f] for f in FIELDS)
    return found


def same_candles(stack, trades):
    got, want = stored(stack)[0], expected(trades)
    wrong = {k: (got.get(k), want.get(k)) for k in got.keys() | want.keys() if got.get(k) != want.get(k)}
    assert not wrong, f"{len(wrong)} of {len(want)} candles differ: {list(wrong.items())[:3]}"
    assert want
    return len(want)


def one(stack, statement):
    rows = stack.sql(statement)
    return rows[0][0] if rows else None


def dirty(stack):
    return int(one(stack, "SELECT count(*) FROM dirty"))


def events(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def log_of(daemon):
    with open(daemon.log) as f:
        return events(f.read())


def count(daemon, event):
    return sum(e["event"] == event for e in log_of(daemon))


class Session:
    """A database session of its own that stays open: to hold locks and transactions."""

    def __init__(self, stack):
        self.psql = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres",
                                      "-h", stack.postgres.socket, "-d", stack.database], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)

    def run(self, statement):
        """Runs it and waits until it is done."""
        self.psql.stdin.write(f"{statement};\n\\echo done\n")
        self.psql.stdin.flush()
        lines = []
        while (line := self.psql.stdout.readline()) != "done\n":
            assert line, f"psql ended: {statement}"
            lines.append(line.rstrip("\n"))
        return lines

    def close(self):
        self.psql.stdin.close()
        self.psql.stdout.close()
        assert self.psql.wait(10) == 0


@pytest.fixture
def session():
    made = []

    def make(stack):
        made.append(Session(stack))
        return made[-1]

    yield make
    for s in made:
        if s.psql.poll() is None:
            s.close()


# ---- candles

def data_sets():
    return [pytest.param(None, id="made-up")] + [pytest.param(p, id=os.path.basename(p)) for p in tr.real_files()]


def made_up():
    return (tr.walk(11, "native", tr.USDC, SOME_DAY - 5 * 86400, SOME_DAY + 3 * 86400, 600)
            + tr.walk(12, "crypto:BTC", "fiat:EUR", SOME_DAY - 3600, SOME_DAY + 7200, 20, "kraken", level=60000)
            + tr.walk(13, "fiat:EUR", "crypto:BTC", SOME_DAY - 1800, SOME_DAY + 1800, 60, "binance", level=0.00002))


def data_and_batches():
    """Batches of seven rows split every bucket; of large data they take long and show nothing new."""
    for one in data_sets():
        (path,) = one.values
        yield pytest.param(path, 20000, id=f"{one.id}-20000")
        if not path or os.path.getsize(path) < 500_000:
            yield pytest.param(path, 7, id=f"{one.id}-7")


@pytest.mark.parametrize("path, batch", data_and_batches())
def test_candles_of_every_grain_are_exact(store, path, batch):
    trades = tr.load(path) if path else made_up()
    stack = store({"aggregator": {"batch": batch}})
    stack.ingest(path or trades)
    stack.aggregate()
    assert same_candles(stack, trades) > 100
    assert dirty(stack) == 0


@pytest.mark.skipif(not os.path.exists(EXPECT), reason="the independent calculator isn't here")
@pytest.mark.parametrize("path", tr.real_files())
def test_candles_agree_with_the_independent_calculator(store, path):
    stack = store()
    stack.ingest(path)
    stack.aggregate()
    lines = subprocess.run([sys.executable, EXPECT, path, "-g", ",".join(GRAINS)], capture_output=True, text=True,
                           check=True, timeout=120).stdout.splitlines()
    want = {}
    for c in map(json.loads, lines):
        key = (c["base"], c["quote"], GRAINS[c["granularity"]], exact.millis(c["t"]) // 1000)
        want[key] = tuple(c[f] for f in FIELDS)
    assert stored(stack)[0] == want


def test_candles_of_a_small_day_are_what_was_worked_out_by_hand(store):
    """Total order, dust, boundaries, 128 bits, an unpriced trade and both directions of one market."""
    stack = store()
    stack.ingest([
        # one close time; arrival and text order are wrong: 10-2 comes before 10-10
        trade("10-10", "2026-03-01T11:35:28Z", "1.0000000", "17.1733669"),
        trade("10-2", "2026-03-01T11:35:28Z", "1.0000000", "17.0421333"),
        trade("9-0", "2026-03-01T11:35:23Z", "1.0000000", "17.1598849"),
        # a pool trade of one stroop: no price, but volume
        trade("11-0", "2026-03-01T11:35:40Z", "0.0000001", "0.0000001"),
        # the last moment of Sunday and of the day, and the first of Monday
        trade("12-0", "2026-03-01T23:59:59.999Z", "1.0000000", "2.0000000"),
        trade("13-0", "2026-03-02T00:00:00.000Z", "1.0000000", "3.0000000"),
        # nothing but dust in its hour
        trade("14-0", "2026-03-02T05:00:00Z", "0.0000002", "0.0000001"),
        # not a price at all
        trade("15-0", "2026-03-02T07:00:00Z", "0.0000000", "0.0000001"),
        # sums beyond int64, prices beyond int64
        trade("a", "2026-03-02T01:00:01Z", "922337203685.4775807", "922337203685.4775807", ("crypto:BTC", "fiat:EUR")),
        trade("b", "2026-03-02T01:00:02Z", "922337203685.4775807", "922337203685.4775807", ("fiat:EUR", "crypto:BTC")),
    ])
    stack.aggregate()
    got, _ = stored(stack)
    xlm, btc = ("fiat:USD", "native"), ("crypto:BTC", "fiat:EUR")

    def at(pair, grain, text):
        return got.get((*pair, GRAINS[grain], exact.millis(text) // 1000))

    # stored direction: fiat:USD is the base, so every price is 1 / the one above
    assert at(xlm, "1m", "2026-03-01T11:35:00Z") == (
        "0.0582754491552562803", "0.0586780998831877462", "0.0582296998499461395", "0.0582296998499461395",
        "0.0583937247053478053", "51.3753852", "3.0000001", 4)
    assert at(xlm, "1d", "2026-03-01T00:00:00Z")[0] == "0.0582754491552562803"
    assert at(xlm, "1d", "2026-03-01T00:00:00Z")[3] == "0.5"
    assert at(xlm, "1d", "2026-03-01T00:00:00Z")[7] == 5
    assert at(xlm, "1d", "2026-03-02T00:00:00Z") == (
        "0.333333333333333333", "0.333333333333333333", "0.333333333333333333", "0.333333333333333333",
        "0.333333388888887037", "3.0000001", "1.0000002", 2)
    assert at(xlm, "1h", "2026-03-02T05:00:00Z") == ("2", "2", "2", "2", "2", "0.0000001", "0.0000002", 1)
    assert at(xlm, "1h", "2026-03-02T07:00:00Z") is None
    assert at(xlm, "1w", "2026-02-23T00:00:00Z")[7] == 5 and at(xlm, "1w", "2026-03-02T00:00:00Z")[7] == 2
    assert at(xlm, "1mo", "2026-03-01T00:00:00Z")[7] == 7
    assert at(btc, "1m", "2026-03-02T01:00:00Z") == (
        "1", "1", "1", "1", "1", "1844674407370.9551614", "1844674407370.9551614", 2)
    assert one(stack, "SELECT string_agg(extract(epoch FROM t)::int8::text, ' ') FROM candles"
               " WHERE grain = 60 AND dust") == "1772427600"


def test_a_minute_that_lost_its_trades_loses_its_candles(store):
    stack = store()
    stack.ingest([trade(1, "2026-03-02T00:00:01Z"), trade(2, "2026-03-03T00:00:01Z")])
    stack.aggregate()
    assert len(stored(stack)[0]) == 7 + 7 + 2
    stack.sql("DELETE FROM trades WHERE trade_id = '2'; INSERT INTO dirty (pair_id, minute)"
              " SELECT id, '2026-03-03T00:00:00Z' FROM pairs")
    stack.aggregate()
    same_candles(stack, [trade(1, "2026-03-02T00:00:01Z")])


def test_a_minute_of_many_trades_takes_little_memory(store):
    """The whole minute would be 100 MB and more; it is read in pieces."""
    stack = store()
    stack.ingest([trade("1-0", "2026-03-02T00:00:00Z")])
    stack.sql("INSERT INTO trades (source_id, trade_id, ord, ts, pair_id, base_amount, quote_amount, price_n, price_d,"
              " flags) SELECT 1, 'm' || i, int8send(i), '2026-03-02T00:00:00Z'::timestamptz + i * interval '100 us', 1,"
              " 2, 1, 1, 2, 0 FROM generate_series(1, 400000) i", 120)
    stack.aggregate()
    stack.sql("INSERT INTO dirty (pair_id, minute) VALUES (1, '2026-03-02T00:00:00Z')")
    process = stack.daemon("once", ["quoin-aggregator", "--once"]).start()
    peak = 0
    while process.alive:
        peak = max(peak, peak_memory(process.pid))
    assert process.wait(1) == 0
    assert one(stack, "SELECT trades FROM candles WHERE grain = 60") == "400001"
    assert peak > 0
    if not sanitized(stack):
        assert peak < 40 * 1024, f"{peak} KiB"


def peak_memory(pid):
    """KiB at most so far; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def sanitized(stack):
    """Whether the program was built with AddressSanitizer, which multiplies what it takes."""
    path = subprocess.run(["sh", "-c", "command -v quoin-aggregator"], env=stack.env, capture_output=True, text=True,
                          check=True).stdout.strip()
    with open(path, "rb") as f:
        return b"__asan_init" in f.read()


# ---- crashes and concurrent writers

def test_killed_anywhere_and_run_again_gives_the_same_candles(store):
    """Twenty times SIGKILL at a random moment, then once to the end."""
    stack = store({"aggregator": {"batch": 40}})
    trades = tr.walk(21, "native", tr.USDC, SOME_DAY - 86400, SOME_DAY + 86400, 300)
    stack.ingest(trades)
    rng = random.Random(4)
    killed = 0
    for _ in range(20):
        process = subprocess.Popen(["quoin-aggregator", "--once"], env=stack.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0.01, 0.25))
        except subprocess.TimeoutExpired:
            process.kill()
            killed += 1
        process.wait(10)
        if dirty(stack) == 0:  # it got to the end: all of it again, over the candles that are there
            stack.sql("INSERT INTO dirty (pair_id, minute) SELECT DISTINCT pair_id, date_trunc('minute', ts, 'UTC')"
                      " FROM trades")
    assert killed > 3
    stack.aggregate()
    same_candles(stack, trades)
    assert dirty(stack) == 0


def test_a_row_with_a_lower_id_that_is_committed_later_is_not_lost(store, session):
    """Ids are given out before the commit: a session that took a lower one may commit last."""
    stack = store()
    stack.ingest([trade(1, "2026-03-02T00:00:01Z")])
    stack.aggregate()
    late = session(stack)
    late.run("BEGIN")
    late.run("INSERT INTO trades SELECT source_id, '2', '\\x02', '2026-03-02T00:05:01Z', pair_id, 3, 1, 1, 3, 0"
             " FROM trades WHERE trade_id = '1'")
    late.run("INSERT INTO dirty (pair_id, minute) VALUES (1, '2026-03-02T00:05:00Z')")
    stack.ingest([trade(3, "2026-03-02T00:07:01Z")])
    assert dirty(stack) == 1
    stack.aggregate()
    assert dirty(stack) == 0
    late.run("COMMIT")
    assert dirty(stack) == 1
    stack.aggregate()
    assert dirty(stack) == 0
    assert stack.sql("SELECT trades FROM candles WHERE grain = 300 ORDER BY t") == [["1"], ["2"]]


def test_a_row_that_comes_while_its_minute_is_made_is_not_lost(store, session):
    """The same minute is dirtied again after its trades were read and before the tick commits."""
    stack = store()
    stack.ingest([trade(1, "2026-03-02T00:00:01Z")])
    blocker = session(stack)
    blocker.run("BEGIN")
    blocker.run("LOCK TABLE candles IN SHARE MODE")  # reads go on, the upsert waits
    running = stack.daemon("once", ["quoin-aggregator", "--once"]).start()
    wait_until(lambda: one(stack, WAITING) == "1", 15, "the aggregator waits to write")
    stack.ingest([trade(2, "2026-03-02T00:00:02Z", "1.0000000", "0.7000000")])
    blocker.run("COMMIT")
    assert running.wait(30) == 0
    assert one(stack, "SELECT trades FROM candles WHERE grain = 60") == "1"
    assert dirty(stack) == 1
    stack.aggregate()
    assert one(stack, "SELECT trades FROM candles WHERE grain = 60") == "2"
    assert dirty(stack) == 0


def test_a_late_trade_makes_its_candles_again_and_is_counted(store):
    stack = store()
    now = time.time()
    stack.ingest([trade(1, now - 600), trade(2, now - 300)])
    first = events(stack.aggregate().stderr)
    assert [e["corrections"] for e in first if e["event"] == "tick"] == [0]
    before = stack.redis_call("GET", "vwap:fiat%3AUSD:native:900")
    stack.ingest([trade(3, now - 599, "9.0000000", "9.0000000")])
    done = events(stack.aggregate().stderr)
    assert [e["corrections"] for e in done if e["event"] == "late"] == [1]
    assert stack.redis_call("GET", "vwap:fiat%3AUSD:native:900") != before
    same_candles(stack, [trade(1, now - 600), trade(2, now - 300), trade(3, now - 599, "9.0000000", "9.0000000")])
    _, versions = stored(stack)
    minute = int(now - 600) // 60 * 60
    assert versions["fiat:USD", "native", 60, minute] == 2
    assert versions["fiat:USD", "native", 60, int(now - 300) // 60 * 60] == 1


def test_an_import_of_the_past_does_not_make_the_present_wait(store):
    """Minutes that are not closed yet come first, however many late ones are waiting."""
    stack = store({"aggregator": {"batch": 1, "period_s": 1}})
    now = time.time()
    stack.ingest([trade(1, now - 7200)])
    stack.aggregate()
    stack.sql("INSERT INTO dirty (pair_id, minute) SELECT 1, date_trunc('minute', to_timestamp(%d - i), 'UTC')"
              " FROM generate_series(7200, 27200) i" % now)
    stack.aggregator.start()
    wait_until(lambda: count(stack.aggregator, "late"), 20, "the past is being made")
    stack.ingest([trade(2, time.time())])
    minutes = "SELECT count(*) FROM candles WHERE grain = 60"
    wait_until(lambda: one(stack, minutes) == "2", 20, "a candle of the present")
    assert dirty(stack) > 0
    stack.aggregator.stop()


# ---- one at a time

def other_copy(stack, name="second"):
    return stack.daemon(name, ["quoin-aggregator"])


def test_a_second_copy_stands_by_and_takes_over(store):
    stack = store({"aggregator": {"period_s": 1}})
    stack.aggregator.start()
    wait_until(lambda: count(stack.aggregator, "active"), 15, "the first is active")
    second = other_copy(stack).start()
    wait_until(lambda: count(second, "standby"), 15, "the second stands by")
    stack.ingest([trade(1, "2026-03-02T00:00:01Z")])
    wait_until(lambda: dirty(stack) == 0, 15, "the first works")
    assert count(second, "active") == 0
    stack.aggregator.kill()
    wait_until(lambda: count(second, "active"), 15, "the second takes over")
    stack.ingest([trade(2, "2026-03-02T00:00:02Z")])
    wait_until(lambda: dirty(stack) == 0, 15, "the second works")
    assert one(stack, "SELECT trades FROM candles WHERE grain = 60") == "2"
    assert second.stop(5) == 0


def test_losing_the_connection_is_losing_the_lock(store):
    stack = store({"aggregator": {"period_s": 1}})
    stack.aggregator.start()
    wait_until(lambda: count(stack.aggregator, "active"), 15, "active")
    for n in range(1, 4):
        stack.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'quoin-aggregator'")
        wait_until(lambda: count(stack.aggregator, "active") == n + 1, 15, "active again, on a new connection")
    stack.ingest([trade(1, "2026-03-02T00:00:01Z")])
    wait_until(lambda: dirty(stack) == 0, 15, "it works")
    assert stack.aggregator.stop(5) == 0


def test_once_while_another_runs_waits_for_it(store):
    stack = store({"aggregator": {"period_s": 1}})
    stack.aggregator.start()
    wait_until(lambda: count(stack.aggregator, "active"), 15, "active")
    stack.ingest([trade(1, "2026-03-02T00:00:01Z")])
    done = stack.run("quoin-aggregator", "--once")
    assert dirty(stack) == 0 and one(stack, "SELECT count(*) FROM candles WHERE grain = 60") == "1"
    assert [e["event"] for e in events(done.stderr)] == [], "it did nothing itself"
    assert stack.aggregator.stop(5) == 0


def test_once_gives_up_after_its_timeout(store, session):
    stack = store()
    stack.ingest([trade(1, "2026-03-02T00:00:01Z")])
    holder = session(stack)
    assert holder.run("SELECT pg_try_advisory_lock(hashtext('quoin.aggregator'))") == ["t"]
    begun = time.monotonic()
    stack.run("quoin-aggregator", "--once", "--timeout", "1", status=70)
    assert 0.9 < time.monotonic() - begun < 5
    assert dirty(stack) == 1
    holder.close()
    blocker = session(stack)
    blocker.run("BEGIN")
    blocker.run("LOCK TABLE candles IN SHARE MODE")
    stack.run("quoin-aggregator", "--once", "--timeout", "1", status=70)
    blocker.run("ROLLBACK")
    stack.aggregate()
    assert dirty(stack) == 0


def test_once_with_the_store_gone_is_75(store):
    stack = store()
    stack.write_config({"postgres": {"dsn": f"host={stack.folder} user=postgres dbname=none"}})
    begun = time.monotonic()
    stack.run("quoin-aggregator", "--once", status=75)
    assert time.monotonic() - begun < 10


def test_options_that_are_wrong_are_64(store):
    stack = store()
    for argv in (["--timeout", "0"], ["--timeout", "1e3"], ["--timeout", "-1"], ["--nonsense"], ["word"]):
        stack.run("quoin-aggregator", *argv, status=64)
    assert "ok" in stack.run("quoin-aggregator", "--check").stdout


def test_told_to_end_it_ends_at_once(store, session):
    """Idle, in the middle of a statement that hangs, and standing by. A hang-up means nothing."""
    stack = store({"aggregator": {"period_s": 1}})
    stack.aggregator.start()
    wait_until(lambda: count(stack.aggregator, "active"), 15, "active")
    second = other_copy(stack).start()
    wait_until(lambda: count(second, "standby"), 15, "standby")
    for daemon in (stack.aggregator, second):
        daemon.signal(signal.SIGHUP)
    blocker = session(stack)
    blocker.run("BEGIN")
    blocker.run("LOCK TABLE candles IN SHARE MODE")
    stack.ingest([trade(1, "2026-03-02T00:00:01Z")])
    wait_until(lambda: one(stack, WAITING) == "1", 15, "a statement hangs")
    begun = time.monotonic()
    assert second.stop(3) == 0
    assert time.monotonic() - begun < 1
    assert stack.aggregator.stop(3) == 0
    blocker.run("ROLLBACK")
    assert dirty(stack) == 1 and stored(stack)[0] == {}
    stack.aggregator.start()
    wait_until(lambda: dirty(stack) == 0, 15, "the next one does it")
    stack.aggregator.signal(signal.SIGINT)
    assert stack.aggregator.wait(2) == 0


def test_postgres_down_is_waited_for(store, postgres):
    stack = store({"aggregator": {"period_s": 1}})
    stack.aggregator.start()
    wait_until(lambda: count(stack.aggregator, "active"), 15, "active")
    postgres.kill()
    try:
        wait_until(lambda: count(stack.aggregator, "postgres-trouble"), 15, "it says so")
        time.sleep(2)  # while it tries again and again
        lines = count(stack.aggregator, "postgres-trouble")
        assert lines <= 3, "a line a change of what is wrong, not one an attempt"
    finally:
        postgres.start()
    stack.ingest([trade(1, "2026-03-02T00:00:01Z")])
    wait_until(lambda: dirty(stack) == 0, 20, "it works again")
    assert count(stack.aggregator, "postgres-back") == 1
    assert stack.aggregator.stop(5) == 0


# ---- the horizon

class Timeline:
    """A stack whose aggregator runs once at chosen moments (or up to two seconds later); sources are rows as the
    indexer writes them."""

    def __init__(self, stack, start):
        self.stack, self.start = stack, start
        for name in ("one", "two"):
            stack.sql(f"INSERT INTO sources (name) VALUES ('{name}') ON CONFLICT DO NOTHING")

    def moment(self, s):
        return exact.iso(int((self.start + s) * 1000))

    def seen(self, source, watermark, when):
        self.stack.sql(
            f"INSERT INTO progress (source_id, watermark, seen_at) SELECT id, '{self.moment(watermark)}',"
            f" '{self.moment(when)}' FROM sources WHERE name = '{source}' ON CONFLICT (source_id) DO UPDATE SET"
            " watermark = excluded.watermark, seen_at = excluded.seen_at")

    def tick(self, s):
        self.stack.env["QUOIN_TEST_CLOCK_OFFSET"] = str(int(self.start + s - time.time()))
        return events(self.stack.aggregate().stderr)

    def horizon(self, pair):
        """Seconds since the start; None: none."""
        text = one(self.stack, "SELECT extract(epoch FROM horizon(p.id))::int8 FROM pairs p"
                   f" JOIN assets q ON q.id = p.quote WHERE q.canonical = '{pair}'")
        return int(text) - self.start if text else None

    def reduced(self, pair):
        return one(self.stack, "SELECT redundancy_reduced(p.id) FROM pairs p JOIN assets q ON q.id = p.quote"
                   f" WHERE q.canonical = '{pair}'") == "t"


@pytest.fixture
def timeline(store):
    """12:00:00 of a day; native/USD traded on both sources, native/EUR (stored: fiat:EUR/native) on `one` alone, and
    fiat:GBP/native only by a file."""
    start = SOME_DAY + 43200
    t = Timeline(store(clock_offset=0), start)
    pairs = {"A": "crypto:BTC", "B": "crypto:ETH", "C": "crypto:XRP"}
    t.stack.ingest([trade(1, start - 300, pair=(pairs["A"], "fiat:AUD"), source="one"),
                    trade(2, start - 300, pair=(pairs["A"], "fiat:AUD"), source="two"),
                    trade(3, start - 300, pair=(pairs["A"], "fiat:EUR"), source="one"),
                    trade(4, start - 300, pair=(pairs["A"], "fiat:USD"), source="file")])
    return t


BOTH, ALONE, FILE = "fiat:AUD", "fiat:EUR", "fiat:USD"


def test_the_horizon_stands_still_when_a_source_stops(timeline):
    t = timeline
    t.seen("one", 50, 60)
    t.seen("two", 55, 60)
    t.tick(61)
    assert [t.horizon(p) for p in (BOTH, ALONE, FILE)] == [0, 0, 0]
    t.seen("one", 115, 118)
    t.seen("two", 125, 128)
    t.tick(130)  # one has read 12:01:55
    assert [t.horizon(p) for p in (BOTH, ALONE, FILE)] == [60, 60, 120]
    # one stops. For a minute nothing that it trades closes; then what two trades as well goes on.
    t.seen("two", 174, 174)
    t.tick(175)
    assert [t.horizon(p) for p in (BOTH, ALONE, FILE)] == [60, 60, 120]
    assert not t.reduced(BOTH)
    t.seen("two", 185, 186)
    said = t.tick(187)
    assert [e["source"] for e in said if e["event"] == "source-silent"] == ["one"]
    assert [t.horizon(p) for p in (BOTH, ALONE, FILE)] == [180, 60, 180]
    assert t.reduced(BOTH) and t.reduced(ALONE) and not t.reduced(FILE)
    t.seen("two", 600, 601)
    t.tick(606)
    assert [t.horizon(p) for p in (BOTH, ALONE, FILE)] == [600, 60, 600]
    # two stops as well: now nothing moves but the pair of files, for as long as it takes
    t.tick(700)
    assert [t.horizon(p) for p in (BOTH, ALONE, FILE)] == [600, 60, 660]
    t.tick(100000)
    assert [t.horizon(p) for p in (BOTH, ALONE)] == [600, 60]
    # one is back, and reads what it missed
    t.seen("one", 50000, 100010)
    said = t.tick(100011)
    assert [e["source"] for e in said if e["event"] == "source-back"] == ["one"]
    assert t.horizon(ALONE) == 49980 and t.horizon(BOTH) == 49980
    t.seen("one", 100030, 100035)
    t.tick(100036)
    assert t.horizon(ALONE) == 100020
    assert one(t.stack, "SELECT count(*) FROM pairs WHERE held_until IS NOT NULL") == "0"
    assert not t.reduced(ALONE)


def test_both_dying_at_once_moves_nothing(timeline):
    t = timeline
    for s in ("one", "two"):
        t.seen(s, 130, 131)
    t.tick(140)
    assert [t.horizon(p) for p in (BOTH, ALONE)] == [120, 120]
    for s in (192, 260, 4000):
        t.tick(s)
        assert [t.horizon(p) for p in (BOTH, ALONE)] == [120, 120]
    assert t.horizon(FILE) == 3960


def test_a_source_new_to_a_pair_does_not_put_its_horizon_back(timeline):
    """`one` begins to trade the pair of files, a minute behind its horizon."""
    t = timeline
    t.seen("one", 50, 60)
    t.seen("two", 55, 60)
    t.tick(65)
    assert t.horizon(FILE) == 60
    t.stack.ingest([trade(9, t.start + 40, pair=("crypto:BTC", "fiat:USD"), source="one")])
    assert t.horizon(FILE) == 60
    t.seen("one", 70, 71)
    t.tick(72)
    assert t.horizon(FILE) == 60
    t.tick(126)
    assert t.horizon(FILE) == 60, "it is followed from now on, and has read as far as 12:01:10"
    t.seen("one", 190, 191)
    t.tick(192)
    assert t.horizon(FILE) == 180


def test_a_source_that_is_removed_is_no_longer_waited_for(timeline):
    t = timeline
    t.seen("one", 130, 131)
    t.seen("two", 130, 131)
    t.tick(140)
    t.tick(4000)
    assert [t.horizon(p) for p in (BOTH, ALONE)] == [120, 120]
    t.stack.sql("DELETE FROM progress WHERE source_id > 0")
    t.tick(4100)
    assert [t.horizon(p) for p in (BOTH, ALONE)] == [4080, 4080]


def test_a_pair_not_traded_for_a_day_does_not_wait_for_its_source(timeline):
    t = timeline
    day = 86400
    t.seen("one", 50, 60)
    t.tick(61)
    assert t.horizon(ALONE) == 0
    t.seen("one", day - 710, day - 400)
    t.tick(day - 400)
    assert t.horizon(ALONE) == day - 720
    t.seen("one", day - 305, day + 50)
    t.tick(day + 61)
    assert t.horizon(ALONE) == day, "the clock's"


def test_the_horizon_is_committed_with_the_candles(store, session):
    """A reader that sees the horizon sees the candles before it."""
    stack = store()
    now = time.time()
    stack.ingest([trade(1, now - 600)])
    blocker = session(stack)
    blocker.run("BEGIN")
    blocker.run("LOCK TABLE candles IN SHARE MODE")
    running = stack.daemon("once", ["quoin-aggregator", "--once"]).start()
    wait_until(lambda: one(stack, WAITING) == "1", 15, "the candles wait")
    assert one(stack, "SELECT closed_until FROM progress WHERE source_id = 0") == "-infinity"
    blocker.run("COMMIT")
    assert running.wait(30) == 0
    assert one(stack, "SELECT (SELECT closed_until FROM progress WHERE source_id = 0) > max(t) FROM candles"
               " WHERE grain = 60") == "t"


# ---- hot values

def keys(stack):
    return {k.decode() for k in stack.redis_call("KEYS", "*")}


def test_hot_values_are_written_with_their_ttls(store):
    stack = store()
    now = time.time()
    stack.ingest([trade(1, now - 200), trade(2, now - 100, pair=("crypto:BTC", "native")),
                  trade(3, now - 90000, pair=("crypto:ETH", "fiat:USD"))])
    stack.aggregate()
    windows = (60, 300, 900, 3600, 86400)
    market = {f"vwap:{m}:{w}" for m in ("fiat%3AUSD:native", "crypto%3ABTC:native") for w in windows}
    names = ("native", "crypto%3AXLM", "crypto%3ABTC")
    prices = {f"price:{n}" + ("" if w == 60 else f":{w}") for n in names for w in windows}
    found = keys(stack)
    assert market | prices <= found
    assert not [k for k in found if "ETH" in k], "nothing traded within the lookback"
    assert not [k for k in found if k.startswith("price:fiat%3AUSD")], "the reference has no price in itself"
    for k in found:
        window = int(k.rsplit(":", 1)[1]) if k.startswith("vwap:") else 60
        assert window - 20 <= stack.redis_call("TTL", k) <= window, k
    head = stack.redis_call("GET", "price:native").split(b"\n")[0].split()
    closed = int(one(stack, "SELECT extract(epoch FROM closed_until)::int8 FROM progress WHERE source_id = 0")) * 1000
    assert (head[0], int(head[1])) == (b"1", closed)


def test_redis_down_stops_no_candle_and_is_made_good(store):
    stack = store({"aggregator": {"period_s": 1}})
    now = time.time()
    stack.ingest([trade(1, now - 200)])
    stack.aggregator.start()
    wait_until(lambda: stack.redis_call("EXISTS", "price:native"), 20, "a hot value")
    stack.redis.kill()
    wait_until(lambda: count(stack.aggregator, "redis-lost"), 40, "it says so")
    stack.ingest([trade(2, now - 190)])
    wait_until(lambda: dirty(stack) == 0, 15, "ticks go on")
    assert stack.run("quoin-aggregator", "--once").returncode == 0
    passes = count(stack.aggregator, "hot")
    stack.redis.start()
    stack.redis_call("FLUSHALL")  # what its own file brought back
    wait_until(lambda: stack.redis_call("EXISTS", "price:native:86400"), 10, "everything is written again")
    wait_until(lambda: count(stack.aggregator, "hot") > passes, 10, "the pass is logged")
    assert count(stack.aggregator, "redis-lost") == 1 and count(stack.aggregator, "redis-back") == 1
    assert stack.aggregator.stop(5) == 0


def test_redis_flushed_is_warmed_again_at_once(store):
    stack = store({"aggregator": {"period_s": 1, "rewrite_s": 55}})
    stack.ingest([trade(1, time.time() - 200)])
    stack.aggregator.start()
    wait_until(lambda: stack.redis_call("EXISTS", "price:native:86400"), 20, "a hot value")
    stack.redis_call("FLUSHALL")
    wait_until(lambda: stack.redis_call("EXISTS", "price:native:86400"), 8, "it is written again, long before its time")
    assert stack.aggregator.stop(5) == 0


def test_start_with_redis_down_works_without_it(store):
    stack = store({"aggregator": {"period_s": 1}})
    stack.redis.stop()
    stack.ingest([trade(1, time.time() - 200)])
    stack.aggregate()
    assert dirty(stack) == 0 and len(stored(stack)[0]) == 9
    stack.aggregator.start()
    wait_until(lambda: count(stack.aggregator, "active"), 15, "active")
    stack.redis.start()
    wait_until(lambda: stack.redis_call("EXISTS", "price:native"), 10, "hot values come with Redis")
    assert stack.aggregator.stop(5) == 0


def test_a_clustered_redis_is_refused(store):
    stack = store()
    folder = f"{stack.folder}/clustered"
    os.makedirs(folder)
    server = Daemon("clustered", ["redis-server", "--port", "0", "--unixsocket", f"{folder}/s", "--dir", folder,
                                  "--cluster-enabled", "yes", "--save", ""], f"{folder}/log",
                    lambda: os.path.exists(f"{folder}/s"))
    stack.daemons.append(server)
    server.start()
    stack.write_config({"redis": {"socket": f"{folder}/s"}})
    done = stack.run("quoin-aggregator", "--once", status=78)
    assert [e["event"] for e in events(done.stderr)] == ["redis-unfit"]
    assert "cluster" in done.stderr, tail(server.log)


def test_end_of_an_import_wakes_the_aggregator(new_stack):
    """A period of 30 s is not waited for: what a file brought is there within a moment."""
    stack = new_stack({"aggregator": {"period_s": 30}, "prices": {"max_hot_lag_s": 100}})
    stack.redis.start()
    stack.migrate()
    stack.aggregator.start()
    wait_until(lambda: stack.sql("SELECT isfinite(closed_until) FROM progress WHERE source_id = 0")[0][0] == "t", 10,
               "the first tick")
    for n in range(3):
        stack.ingest([{"id": f"wake-{n}", "ts": "2026-01-01T00:00:01Z", "source": "sdex", "base": "native", "quote": "fiat:USD",
                       "base_amount": "1.0000000", "quote_amount": "0.5000000"}])
        wait_until(lambda: stack.sql("SELECT max(trades) FROM candles")[0][0] == str(n + 1), 5, "the candle of the import")


def test_a_clock_that_runs_ahead_closes_nothing_early(store):
    """This host's clock and the store's have to agree that a minute is over: a horizon in the future would stay there."""
    stack = store()
    stack.sql("CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
              " $$ SELECT pg_catalog.clock_timestamp() - interval '10 minutes' $$")
    stack.sql(f"ALTER DATABASE {stack.database} SET search_path = public, pg_catalog")
    now = time.time()
    stack.ingest([trade(1, now - 3600), trade(2, now - 30)])
    done = events(stack.aggregate().stderr)
    h = int(one(stack, "SELECT extract(epoch FROM closed_until)::int8 FROM progress WHERE source_id = 0"))
    assert now - 600 - 65 - 60 <= h <= now - 600 + 60
    assert [e["event"] for e in done].count("clock-ahead-of-store") == 1


def test_a_correction_reaches_every_price_that_it_touches(store):
    """A late trade of native's market in the reference's stand-in: native's other names, and prices that hop over it."""
    stack = store({"aggregator": {"rewrite_s": 55}})
    other = "AQUA-GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
    now = time.time()
    stack.ingest([trade(n, now - 7200 + 60 * n, pair=("native", tr.USDC)) for n in range(100)]
                 + [trade(f"a{n}", now - 7200 + 60 * n, "2.0000000", "3.0000000", pair=(other, "native")) for n in range(100)])
    stack.aggregate()
    stack.aggregator.start()
    keys = ["price:native:86400", "price:crypto%3AXLM:86400", f"price:{other}:86400"]
    wait_until(lambda: all(stack.redis_call("GET", key) for key in keys), 15, "hot prices")
    stack.ingest([trade("late", now - 3700, "1000.0000000", "9000.0000000", pair=("native", tr.USDC))])

    def prices():
        return [json.loads(stack.redis_call("GET", key).split(b"\n")[2])["price"] for key in keys]
    old = ["0.5", "0.5", "0.75"]
    wait_until(lambda: all(a != b for a, b in zip(prices(), old)), 8, "all three corrected")
    native, xlm, hop = prices()
    assert native == xlm
    assert abs(exact.Fraction(hop) - exact.Fraction(native) * 3 / 2) < exact.Fraction(1, 10 ** 15)  # both truncated


def test_the_documented_way_back_from_a_horizon_in_the_future(new_stack):
    stack = new_stack(clock_offset=0).start()
    now = int(time.time())
    stack.ingest(tr.walk(61, "native", tr.USDC, now - 7200, now, 30))
    subprocess.run(["quoin-aggregator", "--once"], env={**stack.env, "QUOIN_TEST_CLOCK_OFFSET": "604800"}, check=True,
                   capture_output=True, timeout=60)
    paths = [f"/v1/price?asset=native&quote={tr.USDC}",
             f"/v1/ohlc?base=native&quote={tr.USDC}&granularity=1m&from={now - 3600}&to={now + 60}"]
    for path in paths:
        answer = stack.get(path)
        assert answer.json["stale_flag"] is True and answer.headers["cache-control"] == "no-store"
    with open(f"{ROOT}/docs/operation.md") as f:
        (recipe,) = [line for line in f if line.startswith("UPDATE progress")]
    stack.sql(recipe)
    stack.redis_call("FLUSHDB")
    stack.aggregate()
    for path in paths:
        answer = stack.get(path)
        assert answer.json["stale_flag"] is False
        assert now - 70 <= exact.millis(answer.json["as_of"]) // 1000 <= time.time()
