# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""Fixtures of the end-to-end tests; stack.py says how to use them."""
import os
import shutil
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import stack as stacks  # noqa: E402

live = []  # stacks that are not closed yet: their logs belong to a failure's report


def pytest_sessionstart(session):
    # Being told to end must run the fixtures' ends too.
    signal.signal(signal.SIGTERM, lambda number, frame: pytest.exit("terminated", 143))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for one in live:
            report.sections.append((f"logs of {one.folder}", one.logs()))


@pytest.fixture(scope="session")
def postgres():
    """One cluster for the whole run; a stack has a database of its own in it."""
    folder = tempfile.mkdtemp(prefix="quoin-e2e-pg.", dir="/tmp")
    server = None
    try:
        server = stacks.Postgres(folder).create()
        server.start()
        yield server
    finally:
        if server:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def new_stack(postgres):
    """Makes a stack that is not started: new_stack({table: {key: value}}, clock_offset=None)."""
    made = []

    def make(config=None, clock_offset=None):
        one = stacks.Stack(postgres, config, clock_offset)
        made.append(one)
        live.append(one)
        return one

    yield make
    wrong = []
    if not postgres.alive:
        postgres.start()
    postgres.resume()
    for one in made:
        live.remove(one)
        try:
            one.close()
        except stacks.Failure as e:
            wrong.append(str(e))
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.fixture(scope="module")
def stack(new_stack):
    """A running stack with an empty store: all but the aggregator. One a module."""
    return new_stack().start()
