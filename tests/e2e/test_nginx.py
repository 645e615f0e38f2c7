# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""What deploy/nginx adds: its own refusals are problem documents too, and quoin's answers pass unchanged."""
import socket

import pytest


def exchange(stack, data):
    """Raw bytes to nginx; status, lower-case headers and body of what comes back."""
    with socket.create_connection(("127.0.0.1", stack.port), 5) as s:
        s.sendall(data)
        with s.makefile("rb") as f:
            status = int(f.readline().split()[1])
            headers = {}
            while line := f.readline().decode().rstrip("\r\n"):
                name, _, value = line.partition(": ")
                headers[name.lower()] = value
            return status, headers, f.read(int(headers["content-length"]))


def is_problem(answer, status, slug):
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (answer.json["status"], answer.slug) == (status, slug)
    assert answer.json["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/v1/%00", "/v1/%zz", "/../../etc/passwd"])
def test_path_that_nginx_refuses(stack, path):
    is_problem(stack.get(path), 400, "invalid-encoding")


def test_request_that_is_not_http(stack):
    status, headers, body = exchange(stack, b"GARBAGE\r\n\r\n")
    assert status == 400 and headers["content-type"] == "application/problem+json" and body.startswith(b"{")


def test_limits_of_line_headers_and_body(stack):
    is_problem(stack.get("/v1/" + "a" * 9000), 414, "uri-too-long")
    is_problem(stack.get("/v1/price", headers={"X-Long": "a" * 9000}), 431, "headers-too-large")
    # said to be too large: refused before it is sent
    status, headers, body = exchange(stack, b"POST /v1/price HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n"
                                            b"Connection: close\r\n\r\n")
    assert status == 413 and headers["content-type"] == "application/problem+json" and b"/errors/body-too-large" in body


def test_a_method_that_nginx_refuses(stack):
    answer = stack.get("/v1/price", method="TRACE")
    is_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


def test_other_methods_reach_quoin(stack):
    answer = stack.get("/v1/price", method="DELETE")
    is_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    assert answer.json["detail"] != stack.get("/v1/price", method="TRACE").json["detail"]


def test_body_of_an_error_of_quoin_passes_also_after_post(stack):
    answer = stack.get("/v1/nowhere", method="POST", body=b'{"a":1}', headers={"Content-Type": "application/json"})
    is_problem(answer, 404, "not-found")
    assert answer.json["instance"] == "/v1/nowhere"


def test_path_of_the_refusals_is_not_one_of_the_api(stack):
    is_problem(stack.get("/quoin-refused"), 404, "not-found")


def test_path_is_decoded_once_and_slashes_are_not_merged(stack):
    assert stack.get("/v1/%68ealthz").status == 200
    assert stack.get("/v1/%2568ealthz").status == 404
    assert stack.get("//v1//healthz").status == 404
    assert stack.get("/v1/x/../healthz").status == 404


def test_one_request_id_for_all(stack):
    for method, status in (("GET", 200), ("TRACE", 405)):  # quoin's answer, and nginx's own
        answer = stack.get("/v1/healthz", method, headers={"X-Request-ID": "abc-1.2_Z"})
        assert (answer.status, answer.headers["x-request-id"]) == (status, "abc-1.2_Z")
        for bad in ("a" * 65, 'a"b', "a b"):
            answer = stack.get("/v1/healthz", method, headers={"X-Request-ID": bad})
            assert answer.status == status and len(answer.headers["x-request-id"]) == 32


def test_query_is_not_in_the_access_log(stack):
    assert stack.get("/v1/price?asset=native&api_key=SECRETSECRET").status == 400
    stack.nginx.stop()  # writes what is buffered
    with open(f"{stack.folder}/nginx/logs/nginx-access.log") as f:
        text = f.read()
    stack.nginx.start()
    assert "/v1/price" in text and "SECRETSECRET" not in text


def test_no_pool_is_503_with_retry_after_and_comes_back_by_itself(stack):
    stack.fcgi.stop()
    answer = stack.get("/v1/price?asset=native")
    is_problem(answer, 503, "overloaded")
    assert 1 <= int(answer.headers["retry-after"]) <= 10
    assert answer.json["instance"] == "/v1/price"
    stack.fcgi.start()
    stack.wait_healthy()


def test_workers_that_hang_are_503_and_not_html(stack):
    stack.fcgi.pause()
    try:
        is_problem(stack.get("/v1/healthz"), 503, "overloaded")
    finally:
        stack.fcgi.resume()
    stack.wait_healthy()
