# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""Real servers for the end-to-end tests: Redis, Postgres, the prices pool, nginx, the aggregator, each of them private.

    def test_price(stack):                          # fixture of conftest.py: all but the aggregator runs, empty store
        stack.ingest([{"id": "1", "ts": "2026-01-01T00:00:01Z", "source": "sdex", "base": "native",
                       "quote": "fiat:USD", "base_amount": "1.0000000", "quote_amount": "0.5000000"}])
        stack.aggregate()                           # quoin-aggregator --once
        answer = stack.get("/v1/price", asset="native")
        assert (answer.status, answer.data["price"]) == (200, "0.5")
        stack.redis.stop()                          # or .kill() .pause() .resume() .start(), also of postgres, fcgi,
        assert stack.get("/v1/price", asset="native").json["stale_flag"]    # nginx, aggregator

    def test_two_workers(new_stack):                # a stack of one's own, with configuration: {table: {key: value}}
        stack = new_stack({"pool.prices": {"workers": 2}}, clock_offset=-3600)
        stack.start()                               # or one by one: stack.redis.start(); stack.migrate(); …

Further: stack.run("quoin", "status"), stack.sql("SELECT …"), stack.redis_call("GET", "price:native"),
stack.url, stack.pool_socket (FastCGI), stack.config_path, stack.write_config({...}), stack.daemon(name, argv).

The programs come from $QUOIN_BUILD (default: build/). Everything lives in one folder under /tmp and is stopped and
removed at the end, also after a failure; a sanitizer's finding in any log or output fails whatever closes the stack.
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("QUOIN_BUILD", os.path.join(ROOT, "build")))
PG_BIN = "/usr/lib/postgresql/15/bin"
AS_ROOT = os.geteuid() == 0
FINDING = re.compile(rb"ERROR: (Address|Leak)Sanitizer|SUMMARY: \w+Sanitizer|runtime error:")


class Failure(AssertionError):
    pass


def wait_until(condition, seconds, what):
    """Returns the first true value of condition(); fails after the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def connects(path):
    """Whether something listens on a unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(1)
        try:
            s.connect(path)
            return True
        except OSError:
            return False


def process_state(pid):
    """One letter as in ps; X when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def children(pid):
    """The processes below pid, as /proc knows them."""
    below = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as f:
                below.setdefault(int(f.read().rpartition(")")[2].split()[1]), []).append(int(name))
        except OSError:
            pass  # ended meanwhile
    found, todo = [], [pid]
    while todo:
        todo.extend(new := below.get(todo.pop(), []))
        found.extend(new)
    return found


def tail(path, lines=25):
    try:
        with open(path, "rb") as f:
            return b"\n".join(f.read().splitlines()[-lines:]).decode("utf8", "replace")
    except OSError as e:
        return str(e)


class Daemon:
    """A process in the foreground, its output in a log. It dies with the tests, whatever ends them."""

    def __init__(self, name, argv, log, ready=None, env=None, user=None, stop_signal=signal.SIGTERM):
        self.name, self.argv, self.log, self.ready = name, argv, log, ready
        self.env, self.user, self.stop_signal = env, user, stop_signal
        self.process = None

    @property
    def pid(self):
        return self.process.pid

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def start(self, seconds=20):
        if self.alive:
            raise Failure(f"{self.name} runs already")
        argv = ["setpriv", "--pdeathsig", "KILL"]
        if self.user:
            argv += ["--reuid", self.user, "--regid", self.user, "--init-groups"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(argv + self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.env, start_new_session=True)
        if self.ready:
            wait_until(self._up, seconds, f"{self.name} ready")
        return self

    def _up(self):
        if not self.alive:
            raise Failure(f"{self.name} ended with {self.process.returncode}:\n{tail(self.log)}")
        return self.ready()

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds):
        """The exit status (negative: the signal that ended it)."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} (pid {self.pid}) did not end within {seconds} s:\n{tail(self.log)}") from None

    def stop(self, seconds=15):
        """Asks it to end, and returns its exit status."""
        self.resume()
        self.signal(self.stop_signal)
        return self.wait(seconds)

    def kill(self):
        """SIGKILL to it and all below it; all are gone afterwards."""
        below = self.pause()
        for pid in [*below, self.pid]:
            send(pid, signal.SIGKILL)
        wait_until(lambda: all(process_state(pid) in "ZX" for pid in below), 10, f"{self.name}'s children are gone")
        return self.wait(10)

    def pause(self):
        """It hangs: SIGSTOP to it and all below it. It comes first, so that it can't fork meanwhile."""
        send(self.pid, signal.SIGSTOP)
        wait_until(lambda: process_state(self.pid) in "TtZX", 10, f"{self.name} stands still")
        below = children(self.pid)
        for pid in below:
            send(pid, signal.SIGSTOP)
        return below

    def resume(self):
        for pid in [*children(self.pid), self.pid]:
            send(pid, signal.SIGCONT)

    def close(self):
        """Whatever state it is in: gone afterwards."""
        if self.alive:
            try:
                self.stop()
            except Failure:
                self.kill()
                raise


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Postgres(Daemon):
    """A cluster of its own. Databases of stacks are made in it."""

    def __init__(self, folder):
        self.folder, self.data, self.socket = folder, f"{folder}/data", f"{folder}/sock"
        os.makedirs(self.socket)
        self.owner = "postgres" if AS_ROOT else None
        if AS_ROOT:
            for path in (folder, self.socket):
                shutil.chown(path, "postgres", "postgres")
        os.chmod(self.socket, 0o700)
        super().__init__("postgres", [f"{PG_BIN}/postgres", "-D", self.data, "-c", "listen_addresses=", "-c",
                                      f"unix_socket_directories={self.socket}", "-c", "fsync=off", "-c",
                                      "max_connections=200", "-c", "shared_buffers=64MB"],
                         f"{folder}/postgres.log", self._accepts, user=self.owner, stop_signal=signal.SIGINT)
        self.databases = 0

    def create(self):
        argv = [f"{PG_BIN}/initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
                "--no-sync", "--no-instructions"]
        if self.owner:
            argv = ["setpriv", "--reuid", self.owner, "--regid", self.owner, "--init-groups"] + argv
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                              timeout=120)
        if done.returncode:
            raise Failure(done.stdout.decode())
        return self

    def _accepts(self):
        ask = [f"{PG_BIN}/pg_isready", "-q", "-h", self.socket, "-U", "postgres", "-t", "2"]
        return subprocess.run(ask, timeout=10).returncode == 0

    def new_database(self):
        self.databases += 1
        name = f"e2e_{self.databases}"
        self.query("postgres", f"CREATE DATABASE {name}")
        return name

    def query(self, database, statement, seconds=30):
        """Rows of text; NULL is the empty text."""
        argv = ["psql", "-X", "-q", "-A", "-t", "-F", "\x1f", "-R", "\x1e", "-v", "ON_ERROR_STOP=1", "-h", self.socket,
                "-U", "postgres", "-d", database, "-c", statement]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
        if done.returncode:
            raise Failure(f"{statement}: {done.stderr.decode()}")
        text = done.stdout.decode().removesuffix("\n")
        return [row.split("\x1f") for row in text.split("\x1e")] if text else []


class Redis(Daemon):
    def __init__(self, folder):
        self.socket = f"{folder}/redis.sock"
        os.makedirs(f"{folder}/redis", exist_ok=True)
        super().__init__("redis", ["redis-server", f"{ROOT}/deploy/redis/redis.conf", "--dir", f"{folder}/redis",
                                   "--unixsocket", self.socket, "--unixsocketperm", "700", "--maxmemory", "128mb"],
                         f"{folder}/redis.log", self._answers)

    def _answers(self):
        try:
            return self.call("PING") == b"PONG"
        except (OSError, Failure):  # LOADING
            return False

    def call(self, *words):
        """One command. Status and bulk replies are bytes, nil is None, an error is raised."""
        out = b"*%d\r\n" % len(words)
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            out += b"$%d\r\n%s\r\n" % (len(word), word)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(5)
            s.connect(self.socket)
            s.sendall(out)
            with s.makefile("rb") as f:
                return self._reply(f)

    def _reply(self, f):
        line = f.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Failure("Redis: " + rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        n = int(rest)
        if n < 0:
            return None
        if kind == b"$":
            return f.read(n + 2)[:-2]
        return [self._reply(f) for _ in range(n)]


class Answer:
    """Header names are in lower case; one that came twice holds both values, with a comma."""

    def __init__(self, status, headers, body):
        self.status, self.body, self.headers = status, body, {}
        for name, value in headers:
            name = name.lower()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def data(self):
        return self.json["data"]

    @property
    def slug(self):
        """The problem's, of a problem document."""
        return self.json["type"].rsplit("/", 1)[-1]

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:500]!r}>"


def toml(tables):
    lines = []
    for table, values in tables.items():
        lines.append(f"[{table}]")
        for key, value in values.items():
            key = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


class Stack:
    def __init__(self, postgres, config=None, clock_offset=None):
        self.postgres = postgres
        self.database = postgres.new_database()
        self.folder = tempfile.mkdtemp(prefix="quoin-e2e.", dir="/tmp")
        os.chmod(self.folder, 0o755)  # nginx's workers are another user when the tests run as root
        self.config_path = f"{self.folder}/quoin.toml"
        self.pool_socket = f"{self.folder}/prices.sock"
        self.env = {**os.environ, "QUOIN_CONFIG": self.config_path, "PATH": f"{BUILD}:{os.environ['PATH']}"}
        self.env.setdefault("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1")
        self.env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
        self.env.pop("QUOIN_TEST_CLOCK_OFFSET", None)
        if clock_offset is not None:
            self.env["QUOIN_TEST_CLOCK_OFFSET"] = str(clock_offset)
        self.daemons = []
        self.redis = Redis(self.folder)
        self.daemons.append(self.redis)
        self.base_config = {
            "redis": {"socket": self.redis.socket},
            "postgres": {"dsn": f"host={postgres.socket} user=postgres dbname={self.database}"},
            "pool.prices": {"socket": self.pool_socket, "workers": 4, "drain_ms": 5000,
                            **({"socket_group": "www-data"} if AS_ROOT else {})},
            **({"test": {"allow_clock_offset": True}} if clock_offset is not None else {}),
        }
        self.write_config(config or {})
        self.fcgi = self.daemon("quoin-fcgi", ["quoin-fcgi", "--pool", "prices"], lambda: connects(self.pool_socket))
        self.aggregator = self.daemon("quoin-aggregator", ["quoin-aggregator"])
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.nginx = self.daemon("nginx", self._nginx_argv(), self._nginx_listens)

    # ---- making it

    def write_config(self, changes):
        """quoin.toml with these tables' keys over what a stack needs; for a daemon started afterwards."""
        tables = {name: dict(values) for name, values in self.base_config.items()}
        for name, values in changes.items():
            tables.setdefault(name, {}).update(values)
        with open(self.config_path, "w") as f:
            f.write(toml(tables))

    def daemon(self, name, argv, ready=None):
        """Another process that belongs to the stack; not started yet."""
        made = Daemon(name, argv, f"{self.folder}/{name}.log", ready, self.env)
        self.daemons.append(made)
        return made

    def _nginx_argv(self):
        prefix = f"{self.folder}/nginx"
        for part in ("logs", "tmp"):
            os.makedirs(f"{prefix}/{part}")
        shutil.copy(f"{ROOT}/deploy/nginx/nginx.conf", prefix)
        with open(f"{ROOT}/deploy/nginx/quoin.conf") as f:
            text = f.read()
        for shipped, ours in (("    listen 80 default_server;", f"    listen 127.0.0.1:{self.port} default_server;"),
                              (" /var/log/nginx/quoin-access.log ", " logs/nginx-access.log "),
                              ("unix:/run/quoin/prices.sock", f"unix:{self.pool_socket}")):
            if text.count(shipped) != 1:
                raise Failure(f"deploy/nginx/quoin.conf: {shipped!r} is there {text.count(shipped)} times")
            text = text.replace(shipped, ours)
        with open(f"{prefix}/quoin.conf", "w") as f:
            f.write(text)
        return ["nginx", "-p", prefix, "-c", f"{prefix}/nginx.conf", "-e", f"{prefix}/logs/nginx-error.log", "-g",
                "daemon off;"]

    def _nginx_listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def start(self):
        """All but the aggregator; the pool answers afterwards."""
        self.redis.start()
        self.migrate()
        self.fcgi.start()
        self.nginx.start()
        self.wait_healthy()
        return self

    def wait_healthy(self, seconds=20):
        return wait_until(lambda: self.get("/v1/healthz").status == 200, seconds, "/v1/healthz is 200")

    # ---- using it

    def run(self, *argv, status=0, stdin=None, seconds=120):
        """Runs one of our programs; its output as text. status=None: any exit status is fine."""
        done = subprocess.run(argv, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, timeout=seconds)
        if FINDING.search(done.stderr.encode()):
            raise Failure(f"{argv}: {done.stderr}")
        if status is not None and done.returncode != status:
            raise Failure(f"{argv}: exit status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
        return done

    def migrate(self):
        self.run("quoin", "migrate")

    def ingest(self, trades, status=0, args=()):
        """trades: the path of an NDJSON file, its text, or a list of dictionaries."""
        if isinstance(trades, list):
            trades = "".join(json.dumps(t) + "\n" for t in trades)
        if "\n" in trades or not trades:
            return self.run("quoin-indexer", "--source", "ndjson", "-", *args, status=status, stdin=trades)
        return self.run("quoin-indexer", "--source", "ndjson", trades, *args, status=status)

    def aggregate(self):
        """All that is dirty becomes candles and hot values."""
        return self.run("quoin-aggregator", "--once")

    def get(self, path, method="GET", headers=None, body=None, **params):
        """path goes out as it is; params are encoded and appended. `from_` stands for `from`."""
        if params:
            path += "?" + urllib.parse.urlencode({name.rstrip("_"): value for name, value in params.items()})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def sql(self, statement, seconds=30):
        return self.postgres.query(self.database, statement, seconds)

    def redis_call(self, *words):
        return self.redis.call(*words)

    # ---- ending it

    def logs(self):
        """The logs' ends, for whoever has to find out what went wrong."""
        parts = []
        for folder in (self.folder, f"{self.folder}/nginx/logs", self.postgres.folder):
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
                path = f"{folder}/{name}"
                if name.endswith(".log") and os.path.getsize(path):
                    parts.append(f"--- {name}\n{tail(path)}")
        return "\n".join(parts)

    def close(self):
        """Stops what runs, last started first; removes the folder; fails on a sanitizer's finding."""
        wrong = []
        try:
            for daemon in reversed(self.daemons):
                try:
                    daemon.close()
                except Failure as e:
                    wrong.append(str(e))
            for daemon in self.daemons:
                if os.path.exists(daemon.log):
                    with open(daemon.log, "rb") as f:
                        text = f.read()
                    found = FINDING.search(text)
                    if found:
                        part = text[max(found.start() - 500, 0):found.start() + 8000]
                        wrong.append(f"{daemon.name}: {part.decode('utf8', 'replace')}")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        if wrong:
            raise Failure("\n".join(wrong))
