# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""quoin migrate against a real Postgres."""
import os
import re
import subprocess

import pytest

from stack import ROOT

FILES = sorted(name for name in os.listdir(f"{ROOT}/sql") if re.fullmatch(r"\d{4}_\w+\.sql", name))
NEWEST = int(FILES[-1][:4])


@pytest.fixture()
def bare(new_stack):
    return new_stack()


def test_every_file_once(bare):
    assert bare.run("quoin", "migrate", "--check", status=1).stdout.startswith("schema version 0,")
    out = bare.run("quoin", "migrate").stdout
    assert re.findall(r"^(\S+): applied$", out, re.M) == [name.removesuffix(".sql") for name in FILES]
    rows = bare.sql("SELECT version, name FROM schema_version ORDER BY version")
    assert [f"{int(version):04d}_{name}.sql" for version, name in rows] == FILES
    applied = bare.sql("SELECT * FROM schema_version ORDER BY version")
    assert "applied" not in bare.run("quoin", "migrate").stdout
    assert bare.sql("SELECT * FROM schema_version ORDER BY version") == applied
    assert "up to date" in bare.run("quoin", "migrate", "--check").stdout


def test_two_at_once(bare):
    both = [subprocess.Popen(["quoin", "migrate"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=bare.env) for _ in range(2)]
    outs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    assert sum(out.count(": applied") for out in outs) == len(FILES)


def test_newer_schema_is_refused(bare):
    bare.migrate()
    bare.sql(f"INSERT INTO schema_version VALUES ({NEWEST + 1}, 'later', now())")
    done = bare.run("quoin", "migrate", status=65)
    assert len(done.stderr.splitlines()) == 1 and f"version {NEWEST + 1}" in done.stderr
    bare.run("quoin", "migrate", "--check", status=1)


def test_a_failed_file_leaves_nothing(bare):
    bare.sql("CREATE TABLE candles (x int)")  # in the way of the first file, which makes other tables before
    done = bare.run("quoin", "migrate", status=70)
    assert "candles" in done.stderr and "42P07" in done.stderr
    assert bare.sql("SELECT count(*) FROM schema_version") == [["0"]]
    assert bare.sql("SELECT to_regclass('assets') IS NULL") == [["t"]]
    bare.sql("DROP TABLE candles")
    bare.run("quoin", "migrate")


def test_no_store(bare):
    bare.write_config({"postgres": {"dsn": "host=/nonexistent user=postgres"}})
    bare.run("quoin", "migrate", status=75)


def test_usage(bare):
    assert "migrate" in bare.run("quoin", "--help").stdout
    listed = bare.run("quoin", "migrate", "--help").stdout
    for option in ("--config", "--check", "--help", "--version"):
        assert option in listed
    for argv in ((), ("nonsense",), ("migrate", "x"), ("migrate", "--nonsense")):
        bare.run("quoin", *argv, status=64)
    assert re.fullmatch(r"quoin \d+\.\d+\.\d+\n", bare.run("quoin", "--version").stdout)
