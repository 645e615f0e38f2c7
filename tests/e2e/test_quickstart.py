# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""./quickstart as a user runs it: a stack of its own in a folder of its own."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from stack import BUILD, ROOT, children, free_port, process_state, send, wait_until

SERVICES = ("redis", "postgres", "fcgi", "nginx", "aggregator", "indexer")


class Quickstart:
    def __init__(self, folder):
        self.run_folder = folder
        self.env = {**os.environ, "QUOIN_RUN": folder, "QUOIN_BUILD": BUILD}

    def call(self, *words, status=0, seconds=240):
        done = subprocess.run([f"{ROOT}/quickstart", *words], env=self.env, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
        assert status is None or done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def record(self, name):
        try:
            with open(f"{self.run_folder}/state/{name}.pid") as f:
                return f.read().split()
        except FileNotFoundError:
            return None

    def pid(self, name):
        return int(self.record(name)[0])

    def pids(self):
        """Every process of the stack."""
        own = [self.pid(name) for name in SERVICES if self.record(name)]
        return own + [pid for parent in own for pid in children(parent)]


def running(pid):
    return process_state(pid) not in "ZX"


@pytest.fixture
def new_run():
    made = []

    def make():
        folder = tempfile.mkdtemp(prefix="quoin-e2e-run.", dir="/tmp")
        os.chmod(folder, 0o755)
        made.append(Quickstart(folder))
        return made[-1]

    yield make
    for one in made:
        one.call("down", "--wipe", status=None)
        shutil.rmtree(one.run_folder, ignore_errors=True)


def test_first_start_serves_a_fresh_sample_and_a_second_one_takes_seconds(new_run):
    run = new_run()
    port = free_port()
    first = run.call("up", "--port", str(port))
    assert "generated" in first.stdout
    answers = [json.loads(line) for line in first.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == 3 and all("data" in answer for answer in answers), first.stdout
    assert answers[0]["stale_flag"] is False and answers[0]["data"]["price_type"] == "vwap"
    assert run.call("url").stdout == f"http://127.0.0.1:{port}\n"

    report = run.call("status").stdout
    assert all(name in report for name in SERVICES) and "not" not in report, report

    # everything runs already
    before = run.pids()
    began = time.monotonic()
    run.call()
    assert time.monotonic() - began < 5
    assert run.pids()[0] == before[0] and sorted(run.pids()) == sorted(before)

    # two dead, by crash: repaired on the same port, the others stay
    others = {name: run.pid(name) for name in SERVICES if name not in ("fcgi", "nginx")}
    for name in ("fcgi", "nginx"):
        for pid in [run.pid(name), *children(run.pid(name))]:
            send(pid, signal.SIGKILL)
    assert run.call("status", status=3).stdout.count("not running") == 2
    run.call()
    assert {name: run.pid(name) for name in others} == others
    run.call("status")
    assert run.call("url").stdout == f"http://127.0.0.1:{port}\n"

    # stopped, then started with the data it has
    stopped = run.pids()
    run.call("down")
    assert not [pid for pid in stopped if running(pid)]
    run.call("url", status=69)
    began = time.monotonic()
    again = run.call("up", "--port", str(port))
    assert time.monotonic() - began < 5
    answer = json.loads([line for line in again.stdout.splitlines() if line.startswith("{")][0])
    assert answer["stale_flag"] is False and answer["data"]["trades_24h"] >= answers[0]["data"]["trades_24h"] // 2


def test_two_runs_side_by_side_and_down_stops_only_its_own(new_run):
    one, two = new_run(), new_run()
    one.call("up", "--no-sample", "--port", str(free_port()))
    two.call("up", "--no-sample", "--port", str(free_port()))
    assert one.call("url").stdout != two.call("url").stdout
    assert not set(one.pids()) & set(two.pids())

    # exec: each its own store
    one.call("exec", "psql", "-qc", "CREATE TABLE only_here (a int)")
    assert "only_here" not in two.call("exec", "psql", "-Atc", "SELECT relname FROM pg_class").stdout
    done = one.call("exec", "sh", "-c", "echo $QUOIN_CONFIG; exit 7", status=7)
    assert done.stdout == f"{one.run_folder}/quoin.toml\n"

    # a stranger with a familiar name, and a record whose pid has come to belong to somebody else
    stranger = subprocess.Popen(["bash", "-c", "exec -a redis-server sleep 600"])
    try:
        theirs = two.pids()
        with open(f"{one.run_folder}/state/aggregator.pid") as f:
            _, start, boot = f.read().split()
        aggregator = one.pid("aggregator")
        with open(f"{one.run_folder}/state/aggregator.pid", "w") as f:
            f.write(f"{stranger.pid} {start} {boot}\n")
        one.call("down")
        assert running(stranger.pid) and stranger.poll() is None
        assert all(running(pid) for pid in theirs)
        two.call("status")
        assert running(aggregator)  # nothing says any more that it is ours
    finally:
        stranger.kill()
        stranger.wait()
        send(aggregator, signal.SIGTERM)
    wait_until(lambda: not running(aggregator), 20, "the aggregator left over is gone")
    two.call("down")
    assert not [pid for pid in theirs if running(pid)]


def test_stale_records_of_a_crashed_machine_are_no_obstacle(new_run):
    run = new_run()
    port = str(free_port())
    run.call("up", "--no-sample", "--port", port)
    pids = run.pids()
    for pid in pids:
        send(pid, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in pids if running(pid)], 20, "all killed")
    # as after a new boot: the pids exist again, and are other processes
    for name in SERVICES:
        record = run.record(name)
        if record:
            with open(f"{run.run_folder}/state/{name}.pid", "w") as f:
                f.write(f"{os.getpid()} {record[1]} 00000000-0000-0000-0000-000000000000\n")
    shutil.rmtree(open(f"{run.run_folder}/state/sockets").read().strip())
    run.call("up", "--no-sample", "--port", port)
    run.call("status")
    assert os.getpid() not in run.pids()


def test_taken_port_is_a_clear_message_and_nothing_is_started(new_run):
    run = new_run()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        refused = run.call("up", "--no-sample", "--port", str(port), status=69)
    assert f"port {port} is taken" in refused.stderr
    assert not run.pids()


@pytest.mark.parametrize("words", [("up", "--port", "0"), ("up", "--port", "65536"), ("up", "--port", "80x"),
                                   ("up", "--frob"), ("frob",), ("exec",), ("down", "now")])
def test_what_is_not_understood_is_refused(new_run, words):
    run = new_run()
    assert run.call(*words, status=64).stderr
    assert not run.pids()


def test_exec_and_url_without_a_stack_say_so(new_run):
    run = new_run()
    assert "quickstart up" in run.call("exec", "true", status=69).stderr
    assert "quickstart up" in run.call("url", status=69).stderr
    assert run.call("status", status=3).stdout.count("not running") == 5


def test_workers_that_outlive_nginx_are_ours_to_end(new_run):
    """A killed master leaves them on the port: `up` repairs, and `down` leaves nobody behind."""
    run, port = new_run(), free_port()
    run.call("up", "--no-sample", "--port", str(port))
    for command in (("up", "--no-sample", "--port", str(port)), ("down",)):
        master = run.pid("nginx")
        workers = children(master)
        assert workers
        send(master, signal.SIGKILL)
        wait_until(lambda: not running(master), 10, "the master is gone")
        run.call(*command)
        wait_until(lambda: not [pid for pid in workers if running(pid)], 10, "its workers are gone")
        if command[0] == "up":
            run.call("status")
