# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""HTTP as clients see it through the shipped nginx configuration: every error is a problem document, whoever makes it."""
import json
import socket
import time

import pytest

import trades as tr

PROBLEM = {"type", "title", "status", "detail", "instance", "request_id"}


@pytest.fixture(scope="module")
def served(stack):
    now = int(time.time())
    stack.ingest(tr.walk(21, "native", tr.USDC, now - 3 * 86400, now, 600, level=0.12))
    stack.aggregate()
    return stack


def raw(stack, request):
    """What comes back for bytes that no HTTP library would send."""
    with socket.create_connection(("127.0.0.1", stack.port), 10) as s:
        received = b""
        try:
            s.sendall(request)
            while chunk := s.recv(65536):
                received += chunk
        except ConnectionError:
            pass  # nginx closed while bytes of ours were unread: what it answered before is here
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
    return int(lines[0].split()[1]), headers, body


def assert_problem(status, headers, body):
    doc = json.loads(body)
    assert headers["content-type"] == "application/problem+json", headers
    assert headers["cache-control"] == "no-store"
    assert headers["access-control-allow-origin"] == "*"
    assert PROBLEM <= set(doc) and doc["status"] == status
    assert len(headers["x-request-id"]) >= 1
    return doc


@pytest.mark.parametrize("path, status, slug, param", [
    ("/v1/price", 400, "missing-parameter", "asset"),
    ("/v1/price?asset=garbage", 400, "invalid-asset", "asset"),
    (f"/v1/price?asset={tr.USDC[:-1]}A", 400, "invalid-asset", "asset"),
    (f"/v1/price?asset={tr.USDC.lower()}", 400, "invalid-asset", "asset"),
    ("/v1/price?asset=native%0a", 400, "invalid-asset", "asset"),
    ("/v1/price?asset=native&quote=crypto:XLM", 400, "identity-pair", "quote"),
    ("/v1/price?asset=native&window=77", 400, "invalid-window", "window"),
    ("/v1/price?asset=native&asset=native", 400, "duplicate-parameter", "asset"),
    ("/v1/price?asset=native&api_key=sk_live_TEST123", 400, "unknown-parameter", "api_key"),
    ("/v1/price?asset=%zz", 400, "invalid-encoding", "asset"),
    ("/v1/price?asset=%ff%fe", 400, "invalid-encoding", "asset"),
    ("/v1/price?asset=%00", 400, "invalid-encoding", "asset"),
    ("/v1/ohlc?base=native&quote=fiat:EUR&granularity=7m", 400, "invalid-granularity", "granularity"),
    ("/v1/ohlc?base=native&quote=fiat:EUR&from=yesterday", 400, "invalid-time", "from"),
    ("/v1/history?base=native&quote=fiat:EUR&cursor=bm9uc2Vuc2U", 400, "invalid-cursor", "cursor"),
    ("/v1/price?asset=crypto:BTC&quote=fiat:SEK", 404, "price-not-found", None),
    ("/v1/nowhere", 404, "not-found", None),
    ("/", 404, "not-found", None),
    ("/index.html", 404, "not-found", None),
    ("/v1/a%2Fb", 404, "not-found", None),
])
def test_errors_name_the_parameter(served, path, status, slug, param):
    answer = served.get(path)
    doc = assert_problem(answer.status, answer.headers, answer.body)
    assert (answer.status, answer.slug, doc.get("param")) == (status, slug, param)
    assert doc["request_id"] == answer.headers["x-request-id"]
    assert b"sk_live_TEST123" not in answer.body


@pytest.mark.parametrize("request_bytes, status", [
    (b"GET /%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
    (b"GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
    (b"GET /v1/price?asset=" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 414),
    (b"GET /v1/price HTTP/1.1\r\nHost: x\r\nX-Big: " + b"a" * 9000 + b"\r\nConnection: close\r\n\r\n", 431),
    (b"GET /v1/price HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
    (b"nonsense\r\n\r\n", 400),
    (b"POST /v1/price HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n", 413),
    (b"DELETE /v1/price?asset=native HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
    (b"TRACE /v1/price HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
    (b"GET /v1/price HTTP/3.0\r\nHost: x\r\nConnection: close\r\n\r\n", 505),
    (b"GET /v1/price HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: foo\r\nConnection: close\r\n\r\n", 501),
], ids=["nul", "escape", "uri", "header", "no-host", "nonsense", "body", "delete", "trace", "version", "transfer"])
def test_what_nginx_refuses_is_a_problem_document_too(served, request_bytes, status):
    got, headers, body = raw(served, request_bytes)
    assert got == status
    assert_problem(got, headers, body)
    if status == 405:
        assert "GET" in headers["allow"]


def test_dead_pool_is_503_or_502_as_a_problem_document(served):
    served.fcgi.stop()
    try:
        answer = served.get("/v1/price", asset="native")
        assert answer.status in (502, 503)
        assert_problem(answer.status, answer.headers, answer.body)
        assert int(answer.headers["retry-after"]) >= 1
    finally:
        served.fcgi.start()
        served.wait_healthy()


def test_conditional_get_and_head(served):
    path = f"/v1/ohlc?base=native&quote={tr.USDC}&granularity=1h&to={int(time.time()) // 86400 * 86400 - 86400}"
    full = served.get(path)
    etag = full.headers["etag"]
    assert full.status == 200 and etag[0] == etag[-1] == '"'
    for value, status in ((etag, 304), (f"W/{etag}", 304), (f'"x", {etag}', 304), ("*", 304), ('"ab"', 200), (etag[1:-1], 200)):
        answer = served.get(path, headers={"If-None-Match": value})
        assert answer.status == status, value
        if status == 304:
            assert answer.body == b"" and answer.headers["etag"] == etag
            assert answer.headers["cache-control"] == full.headers["cache-control"]
            assert answer.headers["access-control-allow-origin"] == "*" and "vary" in answer.headers
    head = served.get(path, method="HEAD")
    assert head.status == 200 and head.body == b"" and head.headers["etag"] == etag
    assert head.headers["content-length"] == full.headers["content-length"]
    assert served.get(path).body == full.body


def test_every_answer_carries_cors_nosniff_and_a_request_id(served):
    for path in ("/v1/price?asset=native", "/v1/price", "/v1/nowhere", "/v1/healthz", "/v1/readyz", "/v1/version"):
        answer = served.get(path, headers={"X-Request-ID": "abc-123.X_9"})
        assert answer.headers["x-request-id"] == "abc-123.X_9"
        assert answer.headers["x-content-type-options"] == "nosniff"
        exposed = {name.strip().lower() for name in answer.headers["access-control-expose-headers"].split(",")}
        assert {"etag", "retry-after", "x-request-id", "cache-status", "link"} <= exposed
    for bad in ("a" * 65, "with blank", "<script>"):
        answer = served.get("/v1/healthz", headers={"X-Request-ID": bad})
        assert len(answer.headers["x-request-id"]) == 32


def test_preflight_with_and_without_the_request_method(served):
    for headers in ({"Origin": "https://example.org", "Access-Control-Request-Method": "GET"}, {},
                    {"Origin": "https://example.org", "Access-Control-Request-Method": ""}):
        answer = served.get("/v1/price", method="OPTIONS", headers=headers)
        assert answer.status == 204 and answer.headers["access-control-max-age"] == "86400"
        assert "GET" in answer.headers["access-control-allow-methods"] and "GET" in answer.headers["allow"]
        assert "authorization" in answer.headers["access-control-allow-headers"].lower()


def test_spellings_of_an_asset_are_one_value(served):
    """%3A and : differ in nothing; -1 and stellar: are aliases; %25 is decoded once."""
    code, issuer = tr.USDC.split("-")
    want = served.get("/v1/price", asset="native", quote=tr.USDC)
    assert want.status == 200
    for spelling in (f"{code}:{issuer}", f"{code}%3A{issuer}", f"{code}%2D{issuer}", f"{code}-{issuer}-1", f"stellar:{code}:{issuer}"):
        answer = served.get(f"/v1/price?asset=XLM&quote={spelling}")
        assert (answer.status, answer.body, answer.headers["etag"]) == (200, want.body, want.headers["etag"]), spelling
    twice = served.get(f"/v1/price?asset=native&quote={code}%252D{issuer}")
    assert (twice.status, twice.slug) == (400, "invalid-quote")


def test_clients_bytes_never_become_a_format_or_a_command(served):
    for text in ("%25s%25n%25b", "a%20b%20c", "x%0d%0aSET%20a%20b", "100%25", "%27%3B%20DROP%20TABLE%20trades%3B--"):
        answer = served.get(f"/v1/price?asset={text}")
        assert (answer.status, answer.slug) == (400, "invalid-asset")
    assert served.redis_call("EXISTS", "a") == 0
    assert int(served.sql("SELECT count(*) FROM trades")[0][0]) > 0


def test_price_answer_is_cacheable_and_complete(served):
    answer = served.get("/v1/price", asset="native", quote=tr.USDC)
    assert answer.headers["cache-control"] == "public, max-age=5, s-maxage=15, stale-while-revalidate=30"
    assert set(answer.json) == {"data", "as_of", "stale_flag", "sources", "flags"}
    assert set(answer.data) == {"asset", "quote", "price", "price_type", "window_seconds", "observed_at", "age_seconds",
                                "base_volume", "quote_volume", "trades", "quote_volume_24h", "trades_24h", "change_24h_pct"}
    keyed = served.get("/v1/price", asset="native", quote=tr.USDC, headers={"X-API-Key": "qn_x"})
    assert keyed.headers["cache-control"] == "private, max-age=5"


def test_300_clients_at_once_are_all_answered(served):
    """A short listen queue shows as 502: iipsrv#55, puma#1449."""
    sockets = [socket.create_connection(("127.0.0.1", served.port), 10) for _ in range(300)]
    for s in sockets:
        s.sendall(b"GET /v1/price?asset=native HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    statuses = []
    for s in sockets:
        received = b""
        while chunk := s.recv(65536):
            received += chunk
        statuses.append(received.split(b" ", 2)[1])
        s.close()
    assert statuses == [b"200"] * 300
