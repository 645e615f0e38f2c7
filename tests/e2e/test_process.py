# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""quoin-fcgi as a process: master, workers, signals, sockets, and web servers that behave badly. /v1/healthz needs
neither Redis nor Postgres, so none of them runs here; that a worker starts without them is a rule of its own."""

import concurrent.futures
import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

import fakeweb
import pytest
from fakeweb import Connection, begin, pair, record, request, stream
from stack import BUILD, FINDING, children, connects, wait_until

FCGI = os.path.join(BUILD, "quoin-fcgi")
QUOIN = os.path.join(BUILD, "quoin")
SANITIZED = "ASAN_OPTIONS" in os.environ or b"__asan_init" in open(FCGI, "rb").read()
SLOW = 4 if SANITIZED else 1
RECEIVE = 0.3


class Pool:
    """One quoin-fcgi with a folder of its own."""

    def __init__(self, folder, **settings):
        self.folder = folder
        self.socket = os.path.join(folder, "p.sock")
        self.config = os.path.join(folder, "quoin.toml")
        self.log = os.path.join(folder, "log")
        self.process = None
        open(self.log, "wb").close()
        self.finding_expected = False
        pool = {"socket": self.socket, "workers": 2, "receive_ms": int(RECEIVE * 1000), "request_ms": 1000,
                "drain_ms": 5000}
        pool.update(settings)
        with open(self.config, "w", encoding="ascii") as f:
            f.write("[pool.prices]\n")
            f.writelines(f"{k} = {json.dumps(v)}\n" for k, v in pool.items() if v is not None)
            f.write(f'[redis]\nsocket = "{folder}/redis.sock"\n[postgres]\ndsn = "host={folder} dbname=x"\n')

    def spawn(self, *args, **more):
        """Starts without waiting; another one than the last is the caller's to end."""
        with open(self.log, "ab") as log:
            more.setdefault("stderr", log)
            return subprocess.Popen([FCGI, "--config", self.config, *args], **more)

    def start(self, *args, **more):
        self.process = self.spawn(*args, **more)
        wait_until(lambda: self.process.poll() is not None or self.workers_ready(), 10, "all workers are ready")
        assert self.process.poll() is None, self.text()
        return self

    def workers_ready(self):
        try:
            s = self.status()
        except (AssertionError, OSError):
            return False
        return s["workers"]["idle"] == s["workers"]["configured"]

    def status(self):
        done = subprocess.run([QUOIN, "status", "--json", "--config", self.config], capture_output=True, timeout=5)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def workers(self):
        return [s["pid"] for s in self.status()["slots"] if "pid" in s]

    def get(self, path="/v1/healthz", **more):
        return fakeweb.get(self.socket, path, **more)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def close(self):
        if self.process and self.process.poll() is None:
            below = children(self.process.pid)
            self.process.kill()
            self.process.wait(5)
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def new_pool():
    made = []
    with tempfile.TemporaryDirectory(prefix="quoin-process.", dir="/tmp") as folder:
        def make(**settings):
            sub = os.path.join(folder, str(len(made)))
            os.mkdir(sub)
            made.append(Pool(sub, **settings))
            return made[-1]
        yield make
        for p in made:
            p.close()
            assert p.finding_expected or not FINDING.search(p.text().encode()), p.text()


@pytest.fixture
def pool(new_pool):
    return new_pool().start()


def gone(pid):
    """Whether a process has ended (one that nobody has reaped yet has)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def blocks(pid, sig):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        mask = next(line for line in f if line.startswith("SigBlk:")).split()[1]
    return bool(int(mask, 16) >> (sig - 1) & 1)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(action):
    start = time.monotonic()
    result = action()
    return time.monotonic() - start, result


@contextlib.contextmanager
def listener(path, nonblocking=False):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen(511)
        s.setblocking(not nonblocking)
        yield s


# ---- one connection, one request

def test_a_request_is_answered_without_redis_and_postgres(pool):
    r = pool.get()
    assert (r.status, r.body) == (200, b'{"status":"ok"}')
    s = pool.status()
    assert s["total"]["requests"] == 1 and s["total"]["bytes"] > len(r.body) and s["total"]["errors_5xx"] == 0
    assert [x["request"] for x in s["slots"] if x["counters"]["requests"]] == ["GET /v1/healthz"]


def test_ceph_20579_the_connection_is_closed_although_keep_conn_was_asked(pool):
    with Connection(pool.socket) as c:
        c.send(request(keep=True))
        assert c.read_response().status == 200
        took, ended = timed(c.at_end)
    assert ended and took < 0.2 * SLOW  # and libfcgi's 2 s of linger are not spent


def test_records_may_be_split_padded_and_sent_in_any_pieces(pool):
    whole = request(size=7, padding=5, rid=65535, HTTP_X_REQUEST_ID="split")
    for step in (1, 3, 64, len(whole)):
        with Connection(pool.socket) as c:
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            for i in range(0, len(whole), step):
                c.send(whole[i:i + step])
            r = c.read_response(65535)
            assert (r.status, r.headers["x-request-id"]) == (200, "split")


def test_fcgi2_13_60_kib_of_parameters_over_many_records_arrive_whole(pool):
    many = {f"HTTP_X_{i:03}": f"{i}" * 300 for i in range(100)}
    many["HTTP_X_LONG"] = "y" * 30000
    r = pool.get(size=1000, HTTP_X_REQUEST_ID="after-60-KiB", **many)
    assert (r.status, r.headers["x-request-id"]) == (200, "after-60-KiB")


def test_a_body_over_the_limit_is_413_and_read_to_its_end(new_pool):
    pool = new_pool(max_body=10000).start()
    for n, status in ((10000, 200), (10001, 413), (35000, 413)):
        assert pool.get(method="GET", body=b"x" * n, size=999).status == status
    assert pool.status()["total"]["errors_4xx"] == 2


def test_the_path_in_the_status_has_no_query_string(pool):
    pool.get("/v1/nothing", query="api_key=sk_live_TEST123")
    raw = json.dumps(pool.status()) + pool.text()
    assert "GET /v1/nothing" in raw and "sk_live_TEST123" not in raw


# ---- peers that behave badly

def test_haproxy_2936_idle_connections_do_not_delay_others(new_pool):
    pool = new_pool(workers=2, receive_ms=5000).start()
    with contextlib.ExitStack() as idle:
        for _ in range(20):
            idle.enter_context(Connection(pool.socket))
        pool.get()  # each has been looked at
        took, r = timed(pool.get)
    assert r.status == 200 and took < 0.1 * SLOW


def test_a_silent_connection_is_closed_after_receive_ms(pool):
    with Connection(pool.socket) as c:
        took, closed = timed(c.closed_without_answer)
    assert closed and RECEIVE * 0.9 < took < RECEIVE + 0.3 * SLOW
    assert pool.status()["total"]["cut"] == 1


@pytest.mark.parametrize("part", [b"\x01", request()[:11], request()[:-9]], ids=["byte", "begin", "no-end"])
def test_silence_within_a_request_costs_receive_ms_and_no_more(new_pool, part):
    pool = new_pool(workers=1).start()
    with Connection(pool.socket) as c:
        c.send(part)
        took, closed = timed(c.closed_without_answer)
        assert closed and took < RECEIVE + 0.3 * SLOW
    took, r = timed(pool.get)
    assert r.status == 200 and took < 0.2 * SLOW
    t = pool.status()["total"]
    assert (t["cut"], t["malformed"], t["requests"]) == (1, 0, 1)


def test_a_dripping_peer_is_cut_at_the_budget(new_pool):
    pool = new_pool(workers=1, request_ms=500, terminate_ms=20000).start()
    worker = pool.workers()
    with Connection(pool.socket) as c:
        start = time.monotonic()
        with pytest.raises(OSError):
            c.drip(request(HTTP_X_FILLER="z" * 3000), 0.05)
        took = time.monotonic() - start
    assert 0.5 < took < 0.5 + RECEIVE + 0.5 * SLOW
    assert pool.get().status == 200
    assert pool.workers() == worker and pool.status()["total"]["cut"] == 1


def test_cherokee_1240_nonsense_record_types_do_no_harm(pool):
    def whole_or_nothing(data):
        with Connection(pool.socket) as c:
            c.send(data + request())
            try:
                assert c.read_response().status == 200
                return "answered"
            except fakeweb.ProtocolError:
                return "closed"
    for kind in (0, 10, 11, 255):
        assert whole_or_nothing(record(kind, b"", 0)) == "answered"  # after an UNKNOWN_TYPE
        for rid in (0, 1):
            whole_or_nothing(record(kind, b"nonsense", rid, padding=3))
    s = pool.status()
    assert s["crashes"] == 0 and pool.get().status == 200


def test_a_client_that_leaves_in_the_middle_of_the_body_is_counted_as_gone(pool):
    for ending in (b"", record(fakeweb.ABORT)):
        with Connection(pool.socket) as c:
            head = begin() + stream(fakeweb.PARAMS, pair("REQUEST_METHOD", "POST"))
            c.send(head + record(fakeweb.STDIN, b"x") + ending)
    wait_until(lambda: sum(pool.status()["total"][k] for k in ("aborted", "malformed")) == 2, 3, "both are counted")
    assert pool.status()["total"]["requests"] == 0
    assert pool.get().status == 200


def test_a_client_that_leaves_before_its_answer_does_no_harm(pool):
    for _ in range(20):
        with Connection(pool.socket) as c:
            c.send(request())
    wait_until(lambda: pool.status()["workers"]["idle"] == 2, 3, "idle again")
    s = pool.status()
    assert s["crashes"] == 0 and pool.get().status == 200


def test_a_second_begin_on_a_busy_connection_is_answered_cant_mpx_conn(pool):
    with Connection(pool.socket) as c:
        c.send(begin(1) + stream(fakeweb.PARAMS, pair("REQUEST_METHOD", "GET") + pair("REQUEST_URI", "/v1/healthz"), 1))
        c.send(begin(2))
        kind, rid, content = c.read_record()
        assert (kind, rid) == (fakeweb.END, 2) and content[4] == fakeweb.CANT_MPX_CONN
        c.send(record(fakeweb.STDIN, b"", 1))
        assert c.read_response(1).status == 200


@pytest.mark.parametrize("role", [0, fakeweb.AUTHORIZER, fakeweb.FILTER, 99])
def test_another_role_is_closed_without_end_request(pool, role):
    with Connection(pool.socket) as c:
        c.send(begin(role=role) + stream(fakeweb.PARAMS, b"") + stream(fakeweb.STDIN, b""))
        assert c.closed_without_answer()
    assert pool.status()["total"]["malformed"] == 1 and pool.get().status == 200


def malformed():
    """Bytes that break the protocol in all its places; the lengths are those of CVE-2025-23016 and around them."""
    def params(content):
        return begin() + record(fakeweb.PARAMS, content) + record(fakeweb.PARAMS) + record(fakeweb.STDIN)
    for a in (0x7ffffffe, 0x7fffffff, 0x7ffffff0, 0x40000000, 0x10000):
        for b in (0x7ffffffe, 0x7fffffff, 0x7ffffff0, 0x40000000, 1):
            yield params(struct.pack("!II", a | 0x80000000, b | 0x80000000) + b"x" * 64)
    yield params(b"\xff")
    yield params(b"\x80\x00")
    yield params(b"\x05\x05ab")
    yield params(b"\x00" * 1000)
    yield params(pair("", "x") * 500)
    yield params(b"".join(pair("A=B", "C") for _ in range(100)))
    yield b"\0" * 64
    yield b"\xff" * 64
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield record(fakeweb.BEGIN, b"", 1)
    yield record(fakeweb.BEGIN, b"\0" * 7, 1)
    yield record(fakeweb.BEGIN, b"\0" * 9, 1)
    yield begin(rid=0)
    yield begin()[:12]
    yield begin() + b"\x02" + request()[17:]
    yield begin() + record(fakeweb.STDIN, b"before params")
    yield begin() + record(fakeweb.DATA, b"data") + stream(fakeweb.PARAMS, b"")
    yield (begin() + record(fakeweb.PARAMS, pair("A", "b"), rid=7) + stream(fakeweb.PARAMS, b"") +
           stream(fakeweb.STDIN, b""))
    yield record(fakeweb.GET_VALUES, pair("FCGI_MAX_CONNS", "") + pair("FCGI_MAX_REQS", "") + pair("X", "y"), 0)
    yield record(fakeweb.GET_VALUES, pair("FCGI_MPXS_CONNS", "")[:-3], 0)
    yield record(fakeweb.GET_VALUES, pair("FCGI_MAX_CONNS", "") * 3, 0) + request()
    for kind in (0, 10, 11, 255):
        yield record(kind, b"\0" * 100, 0, 200)
        yield begin() + record(kind, b"", 1)


def test_cve_2025_23016_malformed_records_may_cost_a_worker_but_not_the_service(new_pool):
    pool = new_pool(workers=2)
    pool.finding_expected = True  # the library's own: asserts and reads out of bounds are what this is about
    pool.start()
    for data in malformed():
        with contextlib.suppress(OSError, fakeweb.ProtocolError), Connection(pool.socket) as c:
            c.send(data)
            c.closed_without_answer()
    for _ in range(100):
        assert pool.get().status == 200
    s = pool.status()
    assert s["state"] == "running" and s["total"]["requests"] >= 100


def test_300_parallel_connects_are_all_served(pool):
    """ruven/iipsrv#55, puma/puma#1449: a short queue refuses at a burst."""
    with contextlib.ExitStack() as open_ones:
        all_of_them = [open_ones.enter_context(Connection(pool.socket, timeout=20)) for _ in range(300)]
        for c in all_of_them:
            c.send(request())
        for c in all_of_them:
            assert c.read_response().status == 200
    assert pool.status()["total"]["requests"] == 300


# ---- stopping

@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_mapserver_7504_an_idle_pool_stops_at_once(pool, sig):
    workers = pool.workers()
    pool.process.send_signal(sig)
    took, code = timed(lambda: pool.process.wait(5))
    assert code == 0 and took < 0.2 * SLOW
    assert all(gone(p) for p in workers)
    assert sorted(os.listdir(pool.folder)) == ["log", "quoin.toml"]  # both sockets' files are removed


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_mapserver_7504_an_idle_worker_stops_at_once(new_pool, sig):
    pool = new_pool()
    with listener(pool.socket) as s:
        p = pool.process = pool.spawn("--worker", stdin=s)
        assert pool.get().status == 200
        p.send_signal(sig)
        took, code = timed(lambda: p.wait(5))
    assert code == 0 and took < 0.2 * SLOW


def test_lagoon_444_term_lets_a_request_under_way_finish(new_pool):
    pool = new_pool(workers=1, receive_ms=3000, request_ms=4000).start()
    with Connection(pool.socket) as c:
        c.send(request()[:-8])
        wait_until(lambda: pool.status()["workers"]["active"] == 1, 3, "the worker reads")
        pool.process.terminate()
        wait_until(lambda: not os.path.exists(pool.socket), 3, "the socket is gone: no new ones")
        time.sleep(0.5)
        assert pool.process.poll() is None
        assert pool.status()["state"] == "draining"
        c.send(request()[-8:])
        assert c.read_response().status == 200
    assert pool.process.wait(3) == 0


def test_who_waits_in_the_queue_at_term_is_still_answered(new_pool):
    """A stop loses nobody who had connected: 60 requests wait behind a stopped worker when TERM comes."""
    pool = new_pool(workers=1).start()
    worker = children(pool.process.pid)[0]
    os.kill(worker, signal.SIGSTOP)
    waiting = []
    try:
        for _ in range(60):
            c = Connection(pool.socket, timeout=10)
            c.send(request())
            waiting.append(c)
        pool.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not os.path.exists(pool.socket), 5, "the socket's file is gone")
    finally:
        os.kill(worker, signal.SIGCONT)
    assert [c.read_response().status for c in waiting] == [200] * 60
    for c in waiting:
        c.close()
    assert pool.process.wait(10) == 0


def test_a_connection_accepted_before_term_is_still_answered(new_pool):
    pool = new_pool(workers=1, receive_ms=3000, request_ms=4000).start()
    with Connection(pool.socket) as c:
        pool.get()  # the first connection is parked now
        pool.process.terminate()
        wait_until(lambda: not os.path.exists(pool.socket), 3, "no new ones")
        c.send(request())
        assert c.read_response().status == 200
    assert pool.process.wait(3) == 0


def test_php_4460_a_stopped_worker_does_not_stop_the_stop(new_pool):
    pool = new_pool(drain_ms=500).start()
    workers = pool.workers()
    os.kill(workers[0], signal.SIGSTOP)
    pool.process.terminate()
    took, code = timed(lambda: pool.process.wait(10))
    assert code == 0 and 0.4 < took < 0.5 + 3
    assert all(gone(p) for p in workers)


def test_a_second_int_and_quit_stop_within_two_seconds(new_pool):
    for signals in ([signal.SIGINT, signal.SIGINT], [signal.SIGQUIT], [signal.SIGTERM, signal.SIGQUIT]):
        pool = new_pool(workers=1, drain_ms=30000, receive_ms=20000, request_ms=30000, terminate_ms=40000).start()
        with Connection(pool.socket) as c:
            c.send(request()[:-8])
            wait_until(lambda: pool.status()["workers"]["active"] == 1, 3, "the worker reads")
            for sig in signals:
                pool.process.send_signal(sig)
                time.sleep(0.1)
            took, code = timed(lambda: pool.process.wait(10))
        assert code == 0 and took < 2 * SLOW


def test_hup_and_the_other_signals_are_ignored(pool):
    before = pool.workers()
    for sig in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
        pool.process.send_signal(sig)
    for sig in (signal.SIGHUP, signal.SIGUSR2, signal.SIGPIPE):
        os.kill(before[0], sig)
    for _ in range(10):
        assert pool.get().status == 200
    assert pool.workers() == before


def test_workers_end_when_their_master_is_killed(pool):
    workers = pool.workers()
    pool.process.kill()
    pool.process.wait(5)
    wait_until(lambda: all(gone(p) for p in workers), 3, "the workers are gone")


# ---- respawning

def test_a_killed_worker_is_replaced_and_its_counts_stay(new_pool):
    pool = new_pool(workers=1).start()
    for _ in range(5):
        pool.get()
    pool.get("/v1/nothing")
    before = pool.status()
    os.kill(before["slots"][0]["pid"], signal.SIGKILL)
    assert pool.get().status == 200
    wait_until(lambda: pool.status()["slots"][0].get("pid") not in (None, before["slots"][0]["pid"]), 3, "a new one")
    after = pool.status()
    assert after["crashes"] == 1 and after["starts"] == 2
    assert after["retired"] == before["total"]
    assert after["total"]["requests"] == 7 and after["total"]["errors_4xx"] == 1
    assert after["slots"][0]["counters"]["requests"] == 1


def test_a_client_that_crashes_workers_cannot_stop_the_service(new_pool):
    """Ten at once, then one a second: always some."""
    pool = new_pool(workers=2).start()
    killed = 0
    end = time.monotonic() + 4
    while time.monotonic() < end:
        with contextlib.suppress(AssertionError):
            for pid in pool.workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
    assert 10 <= killed <= 20
    took, r = timed(lambda: pool.get(timeout=5))
    assert r.status == 200 and took < 2
    assert pool.status()["crashes"] >= 10


def test_php_pm_95_no_zombies_after_recycling(new_pool):
    pool = new_pool(max_requests=1).start()
    for _ in range(200):
        assert pool.get().status == 200
    wait_until(lambda: not any(gone(pid) for pid in children(pool.process.pid)), 1, "all are reaped")
    wait_until(lambda: pool.status()["planned_ends"] == 200, 3, "all ends were planned")
    s = pool.status()
    assert s["crashes"] == 0 and s["retired"]["requests"] == 200 and s["total"]["requests"] == 200


def test_max_requests_has_jitter(new_pool):
    pool = new_pool(workers=1, max_requests=30).start()
    for _ in range(340):
        assert pool.get().status == 200
    events = [json.loads(line) for line in pool.text().splitlines()]
    counts = [e["requests"] for e in events if e["event"] == "worker-ended"]
    assert len(counts) >= 10 and all(27 <= n <= 33 for n in counts) and len(set(counts)) > 1


def test_a_stuck_worker_is_terminated_also_while_it_reads(new_pool):
    pool = new_pool(workers=1, request_ms=300, receive_ms=200, terminate_ms=400).start()
    worker = pool.workers()[0]
    with Connection(pool.socket) as c:
        c.send(request()[:-8])
        wait_until(lambda: pool.status()["slots"][0]["stage"] == "reading", 3, "it reads")
        os.kill(worker, signal.SIGSTOP)
        took, _ = timed(lambda: wait_until(lambda: gone(worker), 10, "it is killed"))
    assert 2 < took < 5
    assert pool.get().status == 200
    s = pool.status()
    assert s["terminated"] == 1 and "worker-stuck" in pool.text()


def test_an_idle_worker_is_not_stuck(new_pool):
    pool = new_pool(request_ms=50, receive_ms=50, terminate_ms=100).start()
    before = pool.workers()
    time.sleep(1)
    assert pool.workers() == before and pool.status()["terminated"] == 0


def test_usr1_to_a_worker_is_a_planned_end(pool):
    worker = pool.workers()[0]
    os.kill(worker, signal.SIGUSR1)
    wait_until(lambda: gone(worker) and pool.workers_ready(), 3, "it is replaced")
    s = pool.status()
    assert (s["planned_ends"], s["crashes"]) == (1, 0)


# ---- sockets

def test_fcgiwrap_52_26_a_dead_servers_socket_is_replaced(new_pool):
    pool = new_pool().start()
    workers = pool.workers()
    pool.process.kill()
    pool.process.wait(5)
    wait_until(lambda: all(gone(p) for p in workers), 3, "the workers are gone")
    assert os.path.exists(pool.socket) and not connects(pool.socket)
    pool.start()
    assert pool.get().status == 200


def test_fcgiwrap_52_26_a_second_start_refuses_and_harms_nothing(pool):
    second = pool.spawn(stderr=subprocess.PIPE)
    _, err = second.communicate(timeout=5)
    assert second.returncode == 75
    assert err.count(b"\n") == 1 and b"in use" in err and pool.socket.encode() in err
    assert pool.get().status == 200 and pool.status()["state"] == "running"


def test_a_file_that_is_no_socket_is_not_removed(new_pool):
    pool = new_pool()
    with open(pool.socket, "w", encoding="ascii") as f:
        f.write("precious")
    assert pool.spawn().wait(5) == 78
    with open(pool.socket, encoding="ascii") as f:
        assert f.read() == "precious"


def test_two_starts_at_once_over_a_dead_socket_leave_one_server(new_pool):
    pool = new_pool(control_socket=None)
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(pool.socket)
        both = [pool.spawn(), pool.spawn()]
        try:
            wait_until(lambda: any(p.poll() is not None for p in both), 5, "one of them refuses")
            wait_until(lambda: connects(pool.socket), 5, "the other one listens")
            assert [p.poll() for p in both].count(75) == 1
            assert pool.get().status == 200
        finally:
            for p in both:
                p.terminate()
                p.wait(5)


def test_a_successors_socket_is_not_removed(new_pool):
    pool = new_pool().start()
    os.unlink(pool.socket)
    with listener(pool.socket):
        pool.process.terminate()
        assert pool.process.wait(5) == 0
        assert connects(pool.socket)


def test_fcgiwrap_38_sockets_have_the_configured_modes(new_pool):
    old = os.umask(0)
    try:
        pool = new_pool().start()
        other = new_pool(socket_mode="0600").start()
    finally:
        os.umask(old)
    def mode(path):
        return stat.S_IMODE(os.stat(path).st_mode)
    assert mode(pool.socket) == 0o660 and mode(pool.socket + ".ctl") == 0o600
    assert mode(other.socket) == 0o600


def test_fcgiwrap_49_worker_without_a_socket_exits_64_with_one_line(new_pool):
    p = new_pool().spawn("--worker", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, err = p.communicate(timeout=5)
    assert p.returncode == 64 and err.count(b"\n") == 1 and b"not a listening socket" in err


@pytest.mark.parametrize("nonblocking", [True, False])
def test_pgagroal_742_either_blocking_mode_of_fd_0_is_served_without_spinning(new_pool, nonblocking):
    pool = new_pool()
    with listener(pool.socket, nonblocking) as s:
        p = pool.process = pool.spawn("--worker", stdin=s)
        assert pool.get().status == 200
        before = cpu_seconds(p.pid)
        time.sleep(1)
        assert cpu_seconds(p.pid) - before < 0.05
        for _ in range(20):
            assert pool.get().status == 200


def test_several_workers_on_one_socket_as_under_multiwatch(new_pool):
    pool = new_pool()
    with listener(pool.socket) as s:
        both = [pool.spawn("--worker", stdin=s) for _ in range(2)]
        try:
            with concurrent.futures.ThreadPoolExecutor(8) as threads:
                assert all(r.status == 200 for r in threads.map(lambda _: pool.get(), range(100)))
            wait_until(lambda: blocks(both[0].pid, signal.SIGUSR1), 5, "the first has come to main")
            both[0].send_signal(signal.SIGUSR1)
            assert both[0].wait(5) == 0
            assert pool.get().status == 200
        finally:
            for p in both:
                p.kill()
                p.wait(5)


def test_quoin_workers_and_max_requests_from_the_environment(new_pool):
    pool = new_pool()
    with listener(pool.socket) as s:
        env = {**os.environ, "QUOIN_WORKERS": "3", "QUOIN_MAX_REQUESTS": "5"}
        p = pool.process = pool.spawn("--worker", stdin=s, env=env)
        wait_until(lambda: len(children(p.pid)) == 3, 5, "three workers")
        first = set(children(p.pid))
        for _ in range(20):
            assert pool.get().status == 200
        wait_until(lambda: len(children(p.pid)) == 3 and first - set(children(p.pid)), 5, "some are replaced")
        p.terminate()
        assert p.wait(5) == 0
        env["QUOIN_WORKERS"] = "0"
        assert pool.spawn("--worker", stdin=s, env=env).wait(5) == 64


def test_listen_fds_is_taken_and_its_file_stays(new_pool):
    pool = new_pool()
    with listener(pool.socket) as s:
        def as_fd_3():
            os.dup2(s.fileno(), 3)
            os.environ["LISTEN_PID"] = str(os.getpid())
            os.environ["LISTEN_FDS"] = "1"
            os.environ["QUOIN_CONFIG"] = pool.config
            os.execv(FCGI, [FCGI])
        with open(pool.log, "ab") as log:
            p = pool.process = subprocess.Popen(["unused"], executable="/bin/true", preexec_fn=as_fd_3, pass_fds=(3,),
                                                stderr=log)
        wait_until(pool.workers_ready, 5, "the workers are ready")
        assert pool.get().status == 200
        for pid in pool.workers():
            with open(f"/proc/{pid}/environ", "rb") as f:
                assert f.read().count(b"LISTEN_FDS") == 1  # as exec left it; unset in the process
        p.terminate()
        assert p.wait(5) == 0
        assert os.path.exists(pool.socket)
        with Connection(pool.socket) as c:  # waits in the queue for the next one
            c.send(request())
            w = pool.process = pool.spawn("--worker", stdin=s)
            assert c.read_response().status == 200
            w.terminate()
            assert w.wait(5) == 0


def tcp_pool(new_pool, **settings):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    pool = new_pool(socket=None, listen=f"127.0.0.1:{port}", **settings)
    return pool, ("127.0.0.1", port)


def test_tcp_needs_allow_peers_and_checks_each_connection(new_pool):
    pool, _ = tcp_pool(new_pool)
    assert pool.spawn().wait(5) == 78
    pool, address = tcp_pool(new_pool, allow_peers=["192.0.2.7"], control_socket="@CTL@")
    ctl = os.path.join(pool.folder, "ctl")
    with open(pool.config, encoding="ascii") as f:
        text = f.read().replace("@CTL@", ctl)
    with open(pool.config, "w", encoding="ascii") as f:
        f.write(text)
    pool.start()
    with Connection(address) as c:
        with contextlib.suppress(OSError):
            c.send(request())
        assert c.closed_without_answer()
    assert pool.status()["total"]["refused"] == 1
    pool.process.terminate()
    assert pool.process.wait(5) == 0
    with open(pool.config, "w", encoding="ascii") as f:
        f.write(text.replace("192.0.2.7", "::ffff:127.0.0.1"))
    pool.start()
    assert fakeweb.get(address).status == 200


def test_an_inherited_tcp_socket_needs_allow_peers_too(new_pool):
    pool = new_pool()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        assert pool.spawn("--worker", stdin=s).wait(5) == 78


# ---- starting

@pytest.mark.parametrize("args, code", [
    (["--pool", "nonsense"], 64), (["--workers", "0"], 64), (["--workers", "x"], 64), (["--nonsense"], 64),
    (["argument"], 64), (["--worker", "--workers", "2"], 64), (["--check"], 0), (["--help"], 0), (["--version"], 0)])
def test_exit_codes_of_the_command_line(new_pool, args, code):
    pool = new_pool()
    assert pool.spawn(*args, stdout=subprocess.DEVNULL).wait(5) == code
    assert not os.path.exists(pool.socket)


def test_a_bad_configuration_exits_78_within_100_ms(new_pool):
    """spawn-fcgi waits so long before it says that all is well."""
    pool = new_pool(nonsense=1)
    took, code = timed(lambda: pool.spawn().wait(5))
    assert code == 78 and took < 0.1 * SLOW
    missing = subprocess.run([FCGI, "--config", "/nonexistent.toml"], capture_output=True)
    assert missing.returncode == 78 and missing.stderr.count(b"\n") == 1


def test_closed_standard_descriptors_are_opened(new_pool):
    pool = new_pool(workers=1)
    pool.process = subprocess.Popen(["/bin/sh", "-c", f"exec {FCGI} --config {pool.config} <&- >&- 2>&-"])
    wait_until(pool.workers_ready, 5, "the worker is ready")
    for pid in [pool.process.pid, *pool.workers()]:
        for fd in "012":
            assert os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/null"
    assert pool.get().status == 200


def test_the_service_manager_is_told(new_pool):
    pool = new_pool()
    path = os.path.join(pool.folder, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(5)
        pool.start(env={**os.environ, "NOTIFY_SOCKET": path})
        assert s.recv(100) == b"READY=1"
        assert pool.get().status == 200
        pool.process.terminate()
        assert s.recv(100) == b"STOPPING=1"
        assert pool.process.wait(5) == 0
        s.setblocking(False)
        with pytest.raises(BlockingIOError):
            s.recv(100)


# ---- want of resources

def test_want_of_descriptors_is_survived_without_spinning(new_pool):
    pool = new_pool(workers=1).start()
    worker = pool.workers()[0]
    used = len(os.listdir(f"/proc/{worker}/fd"))
    resource.prlimit(worker, resource.RLIMIT_NOFILE, (used, 1024))
    for _ in range(5):
        assert pool.get().status == 200  # the reserve serves one at a time
    with contextlib.ExitStack() as idle:
        for _ in range(10):
            idle.enter_context(Connection(pool.socket))
        before = cpu_seconds(worker), cpu_seconds(pool.process.pid)
        time.sleep(0.25)
        assert cpu_seconds(worker) - before[0] < 0.1 and cpu_seconds(pool.process.pid) - before[1] < 0.1
    wait_until(lambda: pool.get().status == 200, 5, "served again")
    assert pool.status()["total"]["no_fd"] >= 1 and pool.workers() == [worker]


def test_php_11447_a_log_that_nobody_reads_blocks_nothing(new_pool):
    pool = new_pool(max_requests=1)
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    try:
        pool.start(stderr=write_end)
        for _ in range(100):
            assert pool.get().status == 200
        pool.process.terminate()
        assert pool.process.wait(5) == 0
    finally:
        os.close(read_end)
        os.close(write_end)


def test_php_13437_status_of_many_workers_under_load(new_pool):
    # this program's own threads may take longer than 0.3 s from connect to write
    pool = new_pool(workers=48, receive_ms=5000).start()
    stop = threading.Event()
    wrong = []

    def load():
        while not stop.is_set():
            try:
                assert pool.get().status == 200
            except (OSError, AssertionError, fakeweb.ProtocolError) as e:
                wrong.append(e)
    loaders = [threading.Thread(target=load) for _ in range(2)]
    for t in loaders:
        t.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(10) as threads:
            seen = list(threads.map(lambda _: pool.status(), range(50)))
    finally:
        stop.set()
        for t in loaders:
            t.join()
    assert not wrong, (wrong, pool.status()["total"])
    assert all(len(s["slots"]) == 48 and s["workers"]["busy"] == 0 for s in seen)


def test_silent_control_clients_do_not_keep_others_out(pool):
    with contextlib.ExitStack() as silent:
        for _ in range(20):
            s = silent.enter_context(socket.socket(socket.AF_UNIX))
            s.connect(pool.socket + ".ctl")
        assert pool.get().status == 200
        took, code = timed(lambda: subprocess.run(
            [QUOIN, "status", "--config", pool.config], capture_output=True).returncode)
        # eight are heard at a time, each for a second: the caller gives up after two, and says so
        assert took < 2.5 and code in (0, 75)
    assert pool.status()["state"] == "running"
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(3)
        s.connect(pool.socket + ".ctl")
        s.sendall(b"x" * 200)
        assert s.recv(100) in (b"error: unknown command\n", b"")


def test_status_without_a_master_exits_75(new_pool):
    done = subprocess.run([QUOIN, "status", "--config", new_pool().config], capture_output=True)
    assert done.returncode == 75 and done.stderr.count(b"\n") == 1 and not done.stdout


def test_status_as_text(pool):
    pool.get()
    done = subprocess.run([QUOIN, "status", "--config", pool.config], capture_output=True, text=True)
    assert done.returncode == 0 and "workers: 2 configured, 0 starting, 2 idle" in done.stdout
    assert "GET /v1/healthz" in done.stdout
