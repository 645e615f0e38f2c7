# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""quoin-indexer against a real Postgres: nothing twice, nothing lost, whatever happens meanwhile."""
import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from fractions import Fraction

import pytest

from stack import BUILD, ROOT, wait_until

SHARED = os.environ.get("QUOIN_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
ISSUER = "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
CONTENT = ("SELECT s.name, t.trade_id, t.ts, b.canonical, q.canonical, t.base_amount, t.quote_amount, t.price_n, "
           "t.price_d, t.flags FROM trades t JOIN sources s ON s.id = t.source_id JOIN pairs p ON p.id = t.pair_id "
           "JOIN assets b ON b.id = p.base JOIN assets q ON q.id = p.quote ORDER BY 1, 2")


def trade(n, **other):
    return {"id": f"{1000 + n // 7}-{n % 7}", "source": "sdex", "base": "native", "quote": f"USDC-{ISSUER}",
            "ts": f"2025-{1 + n % 3:02d}-{1 + n % 28:02d}T{n % 24:02d}:{n % 60:02d}:{n * 7 % 60:02d}.{n % 1000:03d}Z",
            "base_amount": f"{n % 900 + 1}.{n % 10000000:07d}", "quote_amount": f"{n % 90 + 1}.{n * 3 % 10000000:07d}",
            **other}


def text(trades):
    return "".join(json.dumps(t) + "\n" for t in trades)


@pytest.fixture()
def empty(new_stack):
    """A stack with a schema and without servers: the indexer needs only Postgres. Small batches, several lanes."""
    one = new_stack({"indexer": {"connections": 3, "batch": 100}, "sources.sdex": {"scale": 7}})
    one.migrate()
    return one


def report(done):
    return json.loads(done.stdout.splitlines()[-1])


def ingest(stack, data, status=0):
    done = stack.ingest(data, status=status, args=("--json",))
    return report(done), done.stderr


def count(stack):
    return int(stack.sql("SELECT count(*) FROM trades")[0][0])


def check_consistent(stack):
    """What the indexer derives from the trades, computed once more by Postgres."""
    trades, identities = (f"SELECT source_id, trade_id, ts FROM {table}" for table in ("trades", "trade_ids"))
    assert stack.sql(f"{trades} EXCEPT {identities}") == [] and stack.sql(f"{identities} EXCEPT {trades}") == []
    assert stack.sql("SELECT count(*) - count(DISTINCT (source_id, trade_id)) FROM trades") == [["0"]]
    columns = "last_ts, last_ord, last_id, last_base_amount, last_quote_amount, last_n, last_d"
    stored = f"SELECT pair_id, source_id, first_ts, {columns} FROM pair_sources"
    again = ("SELECT DISTINCT ON (pair_id, source_id) pair_id, source_id, "
             "min(ts) OVER (PARTITION BY pair_id, source_id), ts, ord, trade_id, base_amount, quote_amount, price_n, price_d FROM trades "
             "ORDER BY pair_id, source_id, ts DESC, ord DESC, trade_id DESC")
    assert stack.sql(f"({stored}) EXCEPT ({again})") == [] and stack.sql(f"({again}) EXCEPT ({stored})") == []
    minutes = "SELECT pair_id, date_trunc('minute', ts, 'UTC') FROM trades WHERE price_n IS NOT NULL"
    dirty = "SELECT pair_id, minute FROM dirty"
    assert stack.sql(f"({minutes}) EXCEPT ({dirty})") == [] and stack.sql(f"({dirty}) EXCEPT ({minutes})") == []


def test_again_changes_nothing(empty):
    data = text(trade(n) for n in range(1000))
    first, _ = ingest(empty, data)
    assert (first["stored"], first["duplicates"], first["complete"]) == (1000, 0, True)
    before, dirty = empty.sql(CONTENT), empty.sql("SELECT count(*) FROM dirty")
    again, _ = ingest(empty, data)
    assert (again["stored"], again["duplicates"], again["refused"]) == (0, 1000, 0)
    assert empty.sql(CONTENT) == before and empty.sql("SELECT count(*) FROM dirty") == dirty
    more, _ = ingest(empty, text(trade(n) for n in range(500, 1500)))  # batches of both kinds of lines
    assert (more["stored"], more["duplicates"]) == (500, 500)
    check_consistent(empty)
    assert empty.sql("SELECT source_id, watermark FROM progress") == [["0", ""]]  # a file is never followed


def test_trades_are_stored_as_received(empty):
    ingest(empty, [trade(1, base=f"USDC:{ISSUER}", quote="XLM", base_amount="2.50", quote_amount="10.000",
                         price_n="4", price_d="1", ts="2025-03-01T01:00:00.0009+01:00")])
    assert empty.sql(CONTENT) == [["sdex", "1000-1", "2025-03-01 00:00:00+00", f"USDC-{ISSUER}", "native", "2.50",
                                   "10.000", "4", "1", "0"]]


def test_file_twice_in_one(empty):
    data = text(trade(n) for n in range(777))
    done, _ = ingest(empty, data + data)
    assert (done["stored"], done["duplicates"]) == (777, 777)
    check_consistent(empty)


def test_half_bad(empty):
    lines = []
    for n in range(300):
        lines.append(json.dumps(trade(n)) if n % 2 else '{"id":"x"}')
    done, err = ingest(empty, "\n".join(lines) + "\n", status=65)
    assert (done["stored"], done["bad"], done["lines"]) == (150, 150, 300)
    told = [line for line in err.splitlines() if re.match(r"-:\d+: no ts$", line)]
    assert told == [f"-:{n + 1}: no ts" for n in range(0, 200, 2)]  # the first hundred; the rest are counted
    assert count(empty) == 150


def test_torn_last_line(empty):
    data = text(trade(n) for n in range(10))
    done, err = ingest(empty, data[:-40], status=65)
    assert (done["stored"], done["bad"]) == (9, 1) and "-:10:" in err
    done, _ = ingest(empty, data[:-1])  # only the newline is missing
    assert (done["stored"], done["duplicates"]) == (1, 9)


def test_odd_but_good_files(empty):
    lines = [json.dumps(trade(n)) for n in range(3)]
    data = "\ufeff" + lines[0] + "\r\n\r\n   \n" + lines[1] + "\r\n" + lines[2]
    done, _ = ingest(empty, data)
    assert (done["stored"], done["bad"], done["lines"]) == (3, 0, 3)
    assert ingest(empty, "")[0]["lines"] == 0


def test_long_line_is_bad_and_the_next_is_read(empty):
    done, err = ingest(empty, text([trade(1)]) + "x" * 5_000_000 + "\n" + text([trade(2)]), status=65)
    assert (done["stored"], done["bad"]) == (2, 1) and "-:2: longer than 65536 bytes" in err


def test_other_content_is_refused(empty):
    ingest(empty, [trade(1), trade(2)])
    before = empty.sql(CONTENT)
    changed = [trade(1, base_amount="5"), trade(2, ts="2025-05-01T00:00:00Z"), trade(1),
               trade(1, quote="fiat:USD"), trade(1, price_n=1, price_d=1000000), trade(3)]
    done, err = ingest(empty, changed, status=65)
    # an n/d that contradicts the amounts changes no price: the trade says the same as before
    assert (done["stored"], done["refused"], done["duplicates"]) == (1, 3, 2)
    assert sorted(re.findall(r"^-:(\d+): refused", err, re.M)) == ["1", "2", "4"]
    assert [row for row in empty.sql(CONTENT) if row[1] != "1000-3"] == before
    check_consistent(empty)


def test_other_content_in_one_file_is_refused(empty):
    done, err = ingest(empty, [trade(1), trade(1, base_amount="5"), trade(1), trade(1, base_amount="5")], status=65)
    assert (done["stored"], done["refused"], done["duplicates"]) == (1, 2, 1)
    assert sorted(re.findall(r"^-:(\d+): refused", err, re.M)) == ["2", "4"]


def test_same_id_of_two_sources_is_two_trades(empty):
    done, _ = ingest(empty, [trade(1), trade(1, source="other")])
    assert done["stored"] == 2


def test_unpriced_and_contradicting_are_good(empty):
    done, _ = ingest(empty, [trade(1, base_amount="0.0000000", quote_amount="0.0000001"),
                             trade(2, base_amount="-1", quote_amount="1"),
                             trade(3, base_amount="1.0000000", quote_amount="1.0000000", price_n=3, price_d=1)])
    assert (done["stored"], done["unpriced"], done["price_mismatches"]) == (3, 2, 1)
    assert empty.sql("SELECT count(*) FROM dirty") == [["1"]]


def test_a_pipe_on_standard_input(empty):
    """Written slowly, cut anywhere: what matters is the bytes."""
    data = text(trade(n) for n in range(250)).encode()
    process = subprocess.Popen(["quoin-indexer", "--source", "ndjson", "--json", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=empty.env)
    rnd = random.Random(1)
    while data:
        n = rnd.randrange(1, 4000)
        process.stdin.write(data[:n])
        process.stdin.flush()
        data = data[n:]
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["stored"] == 250


def start(stack, path, *args):
    return subprocess.Popen(["quoin-indexer", "--source", "ndjson", "--json", path, *args], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=stack.env)


def write(stack, name, data):
    path = os.path.join(stack.folder, name)
    with open(path, "w") as f:
        f.write(data)
    return path


def test_two_at_once(empty):
    path = write(empty, "two.ndjson", text(trade(n) for n in range(4000)))
    both = [start(empty, path), start(empty, path)]
    reports = []
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        reports.append(json.loads(out))
    assert sum(r["stored"] for r in reports) == 4000 and sum(r["duplicates"] for r in reports) == 4000
    check_consistent(empty)


def test_killed_at_any_moment(new_stack):
    trades = [trade(n) for n in range(1500)]
    clean = new_stack({"indexer": {"connections": 2, "batch": 50}})
    clean.migrate()
    path = write(clean, "kill.ndjson", text(trades))
    t0 = time.monotonic()
    clean.ingest(path)
    took, want = time.monotonic() - t0, clean.sql(CONTENT)
    rnd, cut = random.Random(2), 0
    stack = new_stack({"indexer": {"connections": 2, "batch": 50}})
    stack.migrate()
    for _ in range(20):
        stack.sql("TRUNCATE trades, trade_ids, dirty, pair_sources")
        process = start(stack, path)
        try:
            process.wait(rnd.uniform(0, took))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate(timeout=60)
        cut += process.returncode == -signal.SIGKILL and count(stack) not in (0, 1500)
        done = report(stack.ingest(path, args=("--json",)))
        assert done["stored"] + done["duplicates"] == 1500
        assert stack.sql(CONTENT) == want
        check_consistent(stack)
    assert cut > 0  # some were killed in the middle


def test_signals_end_it_with_75(empty):
    for number in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(["quoin-indexer", "--source", "ndjson", "--json", "-"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=empty.env)
        process.stdin.write(text(trade(n) for n in range(1050)).encode())
        process.stdin.flush()
        wait_until(lambda: count(empty) >= 700, 30, "some batches are stored")
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 75, err
        assert json.loads(out)["complete"] is False
        assert count(empty) % 100 == 0  # whole batches only
        check_consistent(empty)
        empty.sql("TRUNCATE trades, trade_ids, dirty, pair_sources")


def test_store_goes_away(empty, postgres):
    process = subprocess.Popen(["quoin-indexer", "--source", "ndjson", "--json", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=empty.env)
    data = text(trade(n) for n in range(1000))
    process.stdin.write(data.encode())
    process.stdin.flush()
    wait_until(lambda: count(empty) >= 600, 30, "some batches are stored")
    postgres.kill()
    try:
        out, err = process.communicate(data.encode(), timeout=60)
        assert process.returncode == 75 and re.search(rb"-: \d+ trades of it are stored by now; run again", err)
        t0 = time.monotonic()
        done = empty.ingest(data, status=75)  # not there at all: it waits for ten seconds
        assert 5 < time.monotonic() - t0 < 20 and "can't connect" in done.stderr
    finally:
        postgres.start()
    done, _ = ingest(empty, data)
    assert done["stored"] + done["duplicates"] == 1000 and count(empty) == 1000
    check_consistent(empty)


def test_a_refusing_store_is_told_apart(empty):
    empty.sql("ALTER TABLE trades ADD CONSTRAINT never CHECK (base_amount < 0)")
    done = empty.ingest([trade(1)], status=70)
    assert "never" in done.stderr and count(empty) == 0


def peak_rss(stack, path):
    """KiB; sampled, because rusage also counts what the child was before it became the indexer."""
    process, peak = start(stack, path), 0
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as f:
            found = re.search(r"Name:\tquoin-indexer\n(?s:.*)VmHWM:\s+(\d+) kB", f.read())
        peak = max(peak, int(found[1])) if found else peak
        time.sleep(0.005)
    _, err = process.communicate()
    assert process.returncode == 0 and peak, err
    return peak


def test_memory_is_flat(new_stack):
    libraries = subprocess.run(["ldd", f"{BUILD}/quoin-indexer"], capture_output=True, text=True, timeout=10).stdout
    stack = new_stack({"indexer": {"connections": 2, "batch": 2000}})
    stack.migrate()
    generator = [sys.executable, f"{ROOT}/tests/bench/gen-trades.py"]
    peaks = []
    for n in (20_000, 200_000):
        path = os.path.join(stack.folder, f"{n}.ndjson")
        with open(path, "wb") as f:
            subprocess.run([*generator, "--trades", str(n), "--source", f"s{n}"], stdout=f, check=True, timeout=60)
        peaks.append(peak_rss(stack, path))
        os.unlink(path)
    assert count(stack) == 220_000
    if "libasan" not in libraries:  # whose memory says nothing of ours
        assert peaks[1] < peaks[0] + 2048 and peaks[1] < 40_000, peaks  # KiB


def test_terminated_while_it_numbers_a_market_is_75(empty):
    """The connection that makes ids goes away like any other: run it again."""
    gate = subprocess.Popen(["psql", "-X", "-q", "-h", empty.postgres.socket, "-U", "postgres", "-d", empty.database],
                            stdin=subprocess.PIPE, text=True)
    process = subprocess.Popen(["quoin-indexer", "--source", "ndjson", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=empty.env)
    try:
        gate.stdin.write("BEGIN; LOCK TABLE assets;\n")
        gate.stdin.flush()
        waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        wait_until(lambda: empty.sql("SELECT 1 FROM pg_locks WHERE relation = 'assets'::regclass AND granted"
                                     " AND mode = 'AccessExclusiveLock'"), 10, "the table is locked")
        process.stdin.write(text([trade(1)]))
        process.stdin.close()
        pid = wait_until(lambda: empty.sql(waiting), 10, "the indexer waits")[0][0]
        empty.sql(f"SELECT pg_terminate_backend({pid})")
        assert process.wait(20) == 75
        assert "run again" in process.stderr.read()
    finally:
        process.stderr.close()
        if process.poll() is None:
            process.kill()
        gate.stdin.close()
        gate.wait(10)
    assert count(empty) == 0


def test_no_standard_input_is_66(empty):
    done = subprocess.run(["bash", "-c", "exec quoin-indexer --source ndjson - <&-"], env=empty.env, capture_output=True,
                          timeout=20)
    assert done.returncode == 66, done.stderr


# ---- followed sources

class Follower:
    def __init__(self, stack, path="-"):
        self.stack = stack
        self.process = subprocess.Popen(["quoin-indexer", "--source", "ndjson", "--json", "--follow", path],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=open(f"{stack.folder}/follower.log", "ab"), env=stack.env)

    def say(self, *objects):
        self.process.stdin.write(text(objects).encode())
        self.process.stdin.flush()

    def end(self, status=0):
        out, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == status
        return json.loads(out)


def progress(stack, name="sdex"):
    rows = stack.sql("SELECT p.watermark, p.seen_at > now() - interval '10 seconds' FROM progress p "
                     f"JOIN sources s ON s.id = p.source_id WHERE s.name = '{name}'")
    return rows[0] if rows else None


def test_follow_commits_its_watermark_with_the_trades(empty):
    follower = Follower(empty)
    follower.say(trade(1, ts="2025-06-01T00:00:05Z"), trade(2, ts="2025-06-01T00:00:01Z"))
    wait_until(lambda: progress(empty) == ["2025-06-01 00:00:05+00", "t"], 10, "the newest trade is the watermark")
    assert count(empty) == 2
    follower.say({"watermark": "2025-06-01T00:01:00Z"})
    wait_until(lambda: progress(empty)[0] == "2025-06-01 00:01:00+00", 10, "a watermark of all")
    follower.say({"watermark": "2025-06-01T00:00:30Z"}, trade(3, source="other", ts="2025-06-01T00:00:02Z"))
    wait_until(lambda: progress(empty, "other"), 10, "a second source")
    assert progress(empty)[0] == "2025-06-01 00:01:00+00"  # never goes back
    assert progress(empty, "other")[0] == "2025-06-01 00:01:00+00"  # a watermark of all was of it too
    follower.say({"watermark": "2025-06-01T00:02:00Z", "source": "other"})
    wait_until(lambda: progress(empty, "other")[0] == "2025-06-01 00:02:00+00", 10, "a watermark of one")
    assert progress(empty)[0] == "2025-06-01 00:01:00+00"
    done = follower.end()
    assert (done["stored"], done["lines"]) == (3, 6)
    check_consistent(empty)


def test_follow_keeps_seen_at_going_only_with_input(empty):
    follower = Follower(empty)
    follower.say(trade(1))
    wait_until(lambda: progress(empty), 10, "progress")
    seen = "SELECT seen_at FROM progress WHERE source_id <> 0"
    first = empty.sql(seen)
    time.sleep(2)  # silence is what is tested
    assert empty.sql(seen) == first
    follower.say(trade(1))  # known already, but a line
    wait_until(lambda: empty.sql(seen) != first, 10, "seen again")
    follower.end()


def test_followers_take_turns(empty):
    first = Follower(empty)
    first.say(trade(1))
    wait_until(lambda: count(empty) == 1, 10, "the first stores")
    second = Follower(empty)
    second.say(trade(2))
    with open(f"{empty.folder}/follower.log") as log:
        wait_until(lambda: "another process follows sdex: standing by" in log.read(), 10, "the second stands by")
    first.say(trade(3))
    wait_until(lambda: count(empty) == 2, 10, "the first goes on")
    plain, _ = ingest(empty, [trade(4)])  # an import takes no lock
    assert plain["stored"] == 1
    first.process.kill()
    first.process.communicate(timeout=10)
    wait_until(lambda: count(empty) == 4, 20, "the second takes over")
    second.end()


def test_follow_a_growing_file(empty):
    path = write(empty, "growing.ndjson", text([trade(1)]))
    follower = Follower(empty, path)
    wait_until(lambda: count(empty) == 1, 10, "what is there")
    line = text([trade(2)])
    with open(path, "a") as f:
        f.write(line[:30])
    time.sleep(0.5)  # half a line is no line
    assert count(empty) == 1
    with open(path, "a") as f:
        f.write(line[30:])
    wait_until(lambda: count(empty) == 2, 10, "what was added")
    write(empty, "growing.ndjson", text([trade(3)]))  # truncated and written anew
    wait_until(lambda: count(empty) == 3, 10, "the new file")
    follower.process.send_signal(signal.SIGTERM)
    assert follower.end(75)["bad"] == 0


def test_follow_writes_health_to_redis(new_stack):
    stack = new_stack({"indexer": {"batch": 100}})
    stack.migrate()
    stack.redis.start()
    follower = Follower(stack)
    follower.say(trade(1, ts="2025-06-01T00:00:05Z"))
    raw = wait_until(lambda: stack.redis_call("GET", "health:sdex"), 10, "health:sdex")
    health = json.loads(raw)
    assert health["source"] == "sdex" and health["watermark"] == "2025-06-01T00:00:05.000Z"
    assert set(health) == {"source", "status", "last_event_at", "last_poll_at", "watermark", "lag_seconds", "cursor"}
    assert health["lag_seconds"] > 0 and 0 < stack.redis_call("TTL", "health:sdex") <= 60
    stack.redis.kill()  # best effort: trades are stored without it
    follower.say(trade(2))
    wait_until(lambda: count(stack) == 2, 10, "stored")
    follower.end()


# ---- real trades

def expect_module():
    path = os.path.join(SHARED, "check", "expect.py")
    if not os.path.exists(path):
        pytest.skip("no shared data here")
    spec = importlib.util.spec_from_file_location("expect", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["sdex-mixed", "sdex-ustry-usdc-2026-02-01", "kraken-btc-usdt-2025-11-10",
                                  "binance-xrp-eth-2019-10-11"])
def test_real_trades(empty, name):
    """Price, dust and order of every trade, against an independent reading of the same file."""
    expect = expect_module()
    path = os.path.join(SHARED, "data", "trades", name + ".ndjson")
    empty.ingest(path)
    want = []
    for ms, source, (_, identity), t in expect.load(path):
        price = expect.price(t)
        want.append((ms, source, identity, price, bool(price and expect.dust(t, price)), Fraction(t["base_amount"])))
    rows = empty.sql("SELECT (extract(epoch FROM ts) * 1000)::int8, s.name, trade_id, price_n, price_d, flags, "
                     "base_amount FROM trades JOIN sources s ON s.id = source_id ORDER BY ts, s.name, ord, trade_id")
    got = [(int(ms), source, identity, Fraction(int(n), int(d)) if n else None, bool(int(flags) & 2), Fraction(base))
           for ms, source, identity, n, d, flags, base in rows]
    assert got == want
    check_consistent(empty)


# ---- the command itself

def test_usage(empty):
    listed = empty.run("quoin-indexer", "--help").stdout
    for option in ("--source", "--follow", "--config", "--check", "--quiet", "--json", "--help", "--version"):
        assert option in listed
    assert re.fullmatch(r"quoin-indexer \d+\.\d+\.\d+\n", empty.run("quoin-indexer", "--version").stdout)
    empty.run("quoin-indexer", status=64)
    empty.run("quoin-indexer", "--source", "ndjson", status=64)
    empty.run("quoin-indexer", "--source", "nothing", "-", status=64)
    empty.run("quoin-indexer", "--source", "ndjson", "/nonexistent", status=66)
    empty.run("quoin-indexer", "--source", "ndjson", "/tmp", status=66)
    empty.run("quoin-indexer", "--source", "ndjson", "--config", "/nonexistent", "-", status=78)
    assert empty.run("quoin-indexer", "--source", "ndjson", "--quiet", "/dev/null").stdout == ""
