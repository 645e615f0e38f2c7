# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""Redis over TCP, with a password from a file and a database of its own."""
import os
import subprocess
import time

import trades as tr
from stack import free_port, wait_until


def cli(port, *words):
    done = subprocess.run(["redis-cli", "-p", str(port), "-n", "3", *words], capture_output=True, text=True, timeout=10,
                          env={**os.environ, "REDISCLI_AUTH": "a secret"})
    return done.stdout.strip()


def test_hot_prices_over_tcp_with_password_and_database(new_stack):
    stack, port = new_stack(), free_port()
    secret = f"{stack.folder}/redis-password"
    with open(secret, "w") as f:
        f.write("a secret\n")
    os.chmod(secret, 0o600)
    server = stack.daemon("redis-tcp", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                                        "--requirepass", "a secret", "--dir", stack.folder], lambda: cli(port, "PING") == "PONG")
    del stack.base_config["redis"]["socket"]
    stack.write_config({"redis": {"host": "127.0.0.1", "port": port, "db": 3, "password_file": secret}})
    server.start()
    stack.migrate()
    stack.fcgi.start()
    stack.nginx.start()
    stack.wait_healthy()
    now = int(time.time())
    stack.ingest(tr.walk(41, "native", tr.USDC, now - 3600, now, 30, level=0.12))
    stack.aggregate()
    assert int(cli(port, "DBSIZE")) > 5
    ask = {"asset": "native", "quote": tr.USDC}
    hot = stack.get("/v1/price", **ask)
    assert hot.status == 200 and hot.json["stale_flag"] is False
    server.kill()
    assert stack.get("/v1/price", **ask).json["stale_flag"] is True
    server.start()
    wait_until(lambda: all(not stack.get("/v1/price", **ask).json["stale_flag"] for _ in range(20)), 10, "Redis is met again")
    # A password that is refused is an outage like any other, and says nothing of itself.
    cli(port, "CONFIG", "SET", "requirepass", "another")
    cli_new = {**os.environ, "REDISCLI_AUTH": "another"}
    subprocess.run(["redis-cli", "-p", str(port), "CLIENT", "KILL", "TYPE", "normal"], env=cli_new, check=True,
                   capture_output=True, timeout=10)
    refused = stack.get("/v1/price", **ask)
    assert refused.status == 200 and refused.json["stale_flag"] is True
    for name in os.listdir(stack.folder):
        if name.endswith(".log"):
            with open(f"{stack.folder}/{name}", "rb") as f:
                assert b"a secret" not in f.read(), name
