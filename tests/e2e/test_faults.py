# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""What clients see when a part breaks (design: "when things break"): real servers, killed, stopped or full."""
import os
import signal
import threading
import time

import pytest

import trades as tr
from stack import children, wait_until

PRICE = {"asset": "native", "quote": tr.USDC}


@pytest.fixture(scope="module")
def running(new_stack):
    """A stack with fresh prices and the aggregator running."""
    stack = new_stack().start()
    now = int(time.time())
    stack.ingest(tr.walk(7, "native", tr.USDC, now - 26 * 3600, now, 60, level=0.12))
    stack.aggregate()
    stack.aggregator.start()
    fresh(stack)
    yield stack
    stack.aggregator.close()


def fresh(stack, seconds=15):
    """Waits until every worker answers from Redis: twenty good answers in a row, none of them stale."""
    def is_fresh():
        answers = [stack.get("/v1/price", **PRICE) for _ in range(20)]
        return all(a.status == 200 and a.json["stale_flag"] is False for a in answers)
    return wait_until(is_fresh, seconds, "prices that aren't stale")


def settled(stack, path):
    """Waits until every worker's breaker is closed again: twenty good answers in a row."""
    wait_until(lambda: all(stack.get(path).status == 200 for _ in range(20)), 15, f"every worker answers {path}")


class Load:
    """Clients that ask without a pause; every answer is kept with the time when it was asked for."""

    def __init__(self, stack, clients=8, **ask):
        self.stack, self.ask, self.answers, self.ended = stack, ask or PRICE, [], threading.Event()
        self.threads = [threading.Thread(target=self._client) for _ in range(clients)]

    def _client(self):
        while not self.ended.is_set():
            asked = time.monotonic()
            try:
                answer = self.stack.get("/v1/price", **self.ask)
                stale = answer.json.get("stale_flag") if answer.status == 200 else None
                self.answers.append((asked, answer.status, stale, time.monotonic() - asked))
            except OSError as e:
                self.answers.append((asked, repr(e), None, time.monotonic() - asked))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.more(100)
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def more(self, n):
        """Waits for n more answers."""
        goal = len(self.answers) + n
        wait_until(lambda: len(self.answers) >= goal, 30, f"{n} more answers")

    def since(self, moment):
        return [a for a in self.answers if a[0] >= moment]


def test_redis_killed_under_load_fails_nobody_and_is_back_within_2_s(running):
    with Load(running) as load:
        running.redis.kill()
        killed = time.monotonic()
        load.more(200)
        assert {stale for _, _, stale, _ in load.since(killed)} == {True}, "stale at once"
        running.redis.start()
        back = time.monotonic()
        wait_until(lambda: load.answers[-1][2] is False, 2, "fresh again within 2 s, without a restart")
        load.more(200)
    assert {status for _, status, _, _ in load.answers} == {200}
    settled = [a for a in load.answers if a[0] > back + 2]
    assert all(stale is False for _, _, stale, _ in settled)


def test_redis_stalled_costs_the_first_requests_only(running):
    """A hung server, not a closed one: each call answers inside its deadline, later ones at once."""
    fresh(running)
    running.redis.pause()
    try:
        first = time.monotonic()
        for _ in range(12):  # every worker meets it once
            assert running.get("/v1/price", **PRICE).json["stale_flag"] is True
        assert time.monotonic() - first < 5
        started = time.monotonic()
        for _ in range(20):
            assert running.get("/v1/price", **PRICE).status == 200
        assert time.monotonic() - started < 3, "an open breaker costs nothing but its probes"
    finally:
        running.redis.resume()
    fresh(running)


def test_redis_wiped_is_served_and_warmed_again(running):
    fresh(running)
    running.redis_call("FLUSHALL")
    answer = running.get("/v1/price", **PRICE)
    assert answer.status == 200 and answer.json["stale_flag"] is False, "a plain miss is not stale"
    wait_until(lambda: running.redis_call("DBSIZE") > 5, 40, "the aggregator warms an empty Redis")


def test_redis_full_serves_reads_and_skips_writes(running):
    fresh(running)
    running.redis_call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    running.redis_call("CONFIG", "SET", "maxmemory", "1mb")
    try:
        for window in (60, 300, 900, 3600):
            answer = running.get("/v1/price", window=window, **PRICE)
            assert answer.status == 200 and answer.json["stale_flag"] is False
        running.redis_call("FLUSHALL")
        assert running.get("/v1/price", **PRICE).status == 200
    finally:
        running.redis_call("CONFIG", "SET", "maxmemory", "128mb")
        running.redis_call("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    fresh(running)


@pytest.mark.parametrize("make", [("SET", "nonsense"), ("HSET", "a", "b"), ("LPUSH", "x"), ("SET", "1 9 9 0 0000000000000000\n\n{}\n[]")],
                         ids=["garbage", "hash", "list", "forged"])
def test_corrupt_value_is_a_miss_and_healed(running, make):
    key = running.redis_call("KEYS", "vwap:*:60")
    assert key
    truth = running.get("/v1/price", **PRICE)
    running.redis_call("DEL", key[0])
    running.redis_call(make[0], key[0], *make[1:])
    answer = running.get("/v1/price", **PRICE)
    assert answer.status == 200 and answer.data["asset"] == truth.data["asset"]
    if answer.json["as_of"] == truth.json["as_of"]:
        assert answer.body == truth.body
    assert answer.data["price_type"] == "vwap"
    wait_until(lambda: running.redis_call("TYPE", key[0]) == b"string" and running.redis_call("GET", key[0]).startswith(b"1 17"),
               5, "the key is a hot value again")


def test_huge_value_under_a_key_holds_nobody_up(running):
    """Redis would send it whole: 64 MB take longer than a command may, and the breaker would open for everything."""
    fresh(running)
    running.redis_call("CONFIG", "SET", "maxmemory", "0")
    try:
        running.redis_call("SETRANGE", "div:native", 64 << 20, "x")
        for _ in range(40):
            answer = running.get("/v1/price", **PRICE)
            assert answer.status == 200 and answer.json["stale_flag"] is False
            assert answer.json["flags"]["divergence_checked"] is False
    finally:
        running.redis_call("DEL", "div:native")
        running.redis_call("CONFIG", "SET", "maxmemory", "128mb")


def test_worker_killed_is_respawned_and_service_goes_on(running):
    with Load(running) as load:
        for _ in range(3):
            workers = children(running.fcgi.pid)
            os.kill(workers[0], signal.SIGKILL)
            wait_until(lambda: len(children(running.fcgi.pid)) == len(workers) and workers[0] not in children(running.fcgi.pid),
                       10, "a worker in the place of the killed one")
            load.more(100)
    failed = [status for _, status, _, _ in load.answers if status != 200]
    assert len(failed) <= 6, failed  # the requests that the killed workers held
    assert running.get("/v1/healthz").status == 200


def test_postgres_killed_leaves_hot_reads_alone_and_a_miss_is_503(running, postgres):
    fresh(running)
    postgres.kill()
    try:
        hot = running.get("/v1/price", **PRICE)
        assert hot.status == 200 and hot.json["stale_flag"] is False
        for path in (f"/v1/ohlc?base=native&quote={tr.USDC}", f"/v1/history?base=native&quote={tr.USDC}",
                     "/v1/price?asset=crypto:BTC&quote=fiat:EUR"):
            started = time.monotonic()
            miss = running.get(path)
            assert miss.status == 503 and time.monotonic() - started < 2
            assert miss.slug in ("store-unavailable", "price-unavailable")
            assert miss.headers["content-type"] == "application/problem+json" and miss.headers["cache-control"] == "no-store"
            assert 4 <= int(miss.headers["retry-after"]) <= 6
        def degraded():
            ready = running.get("/v1/readyz")
            return ready.status == 200 and ready.json["status"] == "degraded" and ready.json["checks"]["postgres"]["status"] == "out"
        wait_until(degraded, 5, "readyz is degraded")
    finally:
        postgres.start()
    wait_until(lambda: running.get(f"/v1/ohlc?base=native&quote={tr.USDC}").status == 200, 10, "candles are back")
    wait_until(lambda: running.get("/v1/readyz").json["status"] == "ok", 5, "readyz is ok")


def test_postgres_stalled_is_503_within_its_deadline(running, postgres):
    wait_until(lambda: running.get(f"/v1/ohlc?base=native&quote={tr.USDC}").status == 200, 10, "candles")
    postgres.pause()
    try:
        for _ in range(6):
            started = time.monotonic()
            assert running.get(f"/v1/ohlc?base=native&quote={tr.USDC}").status == 503
            assert time.monotonic() - started < 2.5
    finally:
        postgres.resume()
    wait_until(lambda: running.get(f"/v1/ohlc?base=native&quote={tr.USDC}").status == 200, 10, "candles are back")


def test_both_gone_is_503_and_unready(running, postgres):
    postgres.kill()
    running.redis.kill()
    try:
        answer = running.get("/v1/price", **PRICE)
        assert answer.status == 503 and answer.slug == "price-unavailable"
        assert running.get("/v1/healthz").status == 200
        def unready():
            ready = running.get("/v1/readyz")
            return ready if ready.status == 503 else None
        answer = wait_until(unready, 5, "readyz says unready")
        assert answer.headers["retry-after"] == "1" and answer.headers["cache-control"] == "no-store"
        ready = answer.json
        assert ready["status"] == "unready" and set(ready["checks"]) == {"redis", "postgres"}
    finally:
        postgres.start()
        running.redis.start()
    fresh(running, 30)


def test_schema_changed_under_prepared_statements(running):
    """pgbouncer#1038: "cached plan must not change result type" is met by preparing again, once, unseen by clients."""
    ohlc = f"/v1/ohlc?base=native&quote={tr.USDC}&granularity=1m&limit=5"
    settled(running, ohlc)
    running.sql("ALTER TABLE candles ALTER COLUMN trades TYPE numeric")
    try:
        for _ in range(8):
            assert running.get(ohlc).status == 200
    finally:
        running.sql("ALTER TABLE candles ALTER COLUMN trades TYPE int8")
    for _ in range(8):
        assert running.get(ohlc).status == 200


def test_backends_terminated_are_reopened_unseen(running):
    ohlc = f"/v1/ohlc?base=native&quote={tr.USDC}&granularity=1m&limit=5"
    settled(running, ohlc)
    running.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
    for _ in range(8):
        assert running.get(ohlc).status == 200


def test_aggregation_stopped_is_stale_within_120_s(new_stack):
    """The horizon stands still; the clock runs ahead by 121 s."""
    stack = new_stack(clock_offset=0).start()
    now = int(time.time())
    stack.ingest(tr.walk(8, "native", tr.USDC, now - 3600, now, 30, level=0.12))
    stack.aggregate()
    assert stack.get("/v1/price", **PRICE).json["stale_flag"] is False
    stack.fcgi.stop()
    stack.fcgi.env["QUOIN_TEST_CLOCK_OFFSET"] = "185"
    stack.fcgi.start()
    for path in (f"/v1/price?asset=native&quote={tr.USDC}", f"/v1/ohlc?base=native&quote={tr.USDC}"):
        answer = stack.get(path)
        assert answer.json["stale_flag"] is True and answer.headers["cache-control"] == "no-store"
