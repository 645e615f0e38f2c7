# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""Behind a PgBouncer that pools transactions and knows no prepared statements: [postgres] prepare = false."""
import shutil
import subprocess
import time

import pytest

import trades as tr
from stack import AS_ROOT, wait_until


@pytest.fixture(scope="module")
def pooled(new_stack, postgres):
    """A stack whose workers reach Postgres through PgBouncer; the daemons that hold locks connect directly."""
    stack = new_stack()
    folder = f"{stack.folder}/bouncer"
    direct = f"host={postgres.socket} user=postgres dbname={stack.database}"
    subprocess.run(["mkdir", folder], check=True)
    with open(f"{folder}/pgbouncer.ini", "w") as f:
        f.write(f"[databases]\n{stack.database} = host={postgres.socket} user=postgres\n"
                f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\nauth_type = any\npool_mode = transaction\n"
                "default_pool_size = 2\nlogfile =\nserver_reset_query_always = 1\nserver_reset_query = DISCARD ALL\n")
    user = postgres.owner
    if AS_ROOT:
        for path in (folder, f"{folder}/pgbouncer.ini"):
            shutil.chown(path, user, user)
    stack.write_config({"postgres": {"dsn": f"host={folder} port=6432 user=postgres dbname={stack.database}",
                                     "direct_dsn": direct, "prepare": False},
                        "pool.prices": {"workers": 2}})
    bouncer = stack.daemon("pgbouncer", ["pgbouncer", f"{folder}/pgbouncer.ini"],
                           lambda: subprocess.run(["psql", "-h", folder, "-p", "6432", "-U", "postgres", "-d", stack.database,
                                                   "-c", "SELECT 1"], capture_output=True, timeout=10).returncode == 0)
    bouncer.user = user
    stack.redis.start()
    stack.migrate()
    bouncer.start()
    stack.fcgi.start()
    stack.nginx.start()
    stack.wait_healthy()
    now = int(time.time())
    stack.ingest(tr.walk(31, "native", tr.USDC, now - 26 * 3600, now, 60, level=0.12))
    stack.aggregate()
    stack.bouncer = bouncer
    return stack


PATHS = (f"/v1/price?asset=native&quote={tr.USDC}", f"/v1/price?asset={tr.USDC}&quote=native&window=3600",
         f"/v1/ohlc?base=native&quote={tr.USDC}&granularity=1h", f"/v1/history?base=native&quote={tr.USDC}&limit=50")


def test_cold_answers_through_transaction_pooling_are_the_hot_ones(pooled):
    hot = [pooled.get(path) for path in PATHS]
    assert [a.status for a in hot] == [200] * len(PATHS)
    for _ in range(5):
        pooled.redis_call("FLUSHALL")
        cold = [pooled.get(path) for path in PATHS]
        assert [a.body for a in cold] == [a.body for a in hot]


def test_readyz_is_ok(pooled):
    wait_until(lambda: pooled.get("/v1/readyz").json["status"] == "ok", 5, "readyz ok")


def test_pooler_restarted_is_met_again(pooled):
    pooled.bouncer.kill()
    ohlc = PATHS[2]
    wait_until(lambda: pooled.get(ohlc).status == 503, 5, "503 while it is gone")
    pooled.bouncer.start()
    wait_until(lambda: all(pooled.get(ohlc).status == 200 for _ in range(10)), 10, "candles again")
