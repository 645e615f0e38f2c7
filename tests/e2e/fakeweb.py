# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) the quoin authors
"""A web server as a FastCGI application sees it, well- and ill-behaved: builds records byte by byte, sends them in any
pieces, and verifies every record and padding byte that comes back."""

import socket
import struct
import time

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR, DATA, GET_VALUES, GET_VALUES_RESULT, UNKNOWN = range(1, 12)
RESPONDER, AUTHORIZER, FILTER = 1, 2, 3
COMPLETE, CANT_MPX_CONN, OVERLOADED, UNKNOWN_ROLE = range(4)
KEEP_CONN = 1
MAX_CONTENT = 65535


class ProtocolError(Exception):
    """What came back is not FastCGI."""


def record(kind, content=b"", rid=1, padding=0, version=1):
    return struct.pack("!BBHHBB", version, kind, rid, len(content), padding, 0) + content + b"\xaa" * padding


def begin(rid=1, role=RESPONDER, keep=False):
    return record(BEGIN, struct.pack("!HB5x", role, KEEP_CONN if keep else 0), rid)


def length(n):
    return struct.pack("!B", n) if n < 128 else struct.pack("!I", n | 0x80000000)


def pair(name, value):
    name, value = name.encode(), value if isinstance(value, bytes) else value.encode()
    return length(len(name)) + length(len(value)) + name + value


def stream(kind, content, rid=1, size=MAX_CONTENT, padding=0):
    """A stream in records of at most `size` bytes, and its end."""
    out = b"".join(record(kind, content[i:i + size], rid, padding) for i in range(0, len(content), size))
    return out + record(kind, b"", rid)


def variables(path="/v1/healthz", query="", method="GET", **more):
    v = {"GATEWAY_INTERFACE": "CGI/1.1", "SERVER_PROTOCOL": "HTTP/1.1", "REQUEST_METHOD": method, "SCRIPT_NAME": path,
         "DOCUMENT_URI": path, "REQUEST_URI": path + ("?" + query if query else ""), "QUERY_STRING": query,
         "REMOTE_ADDR": "192.0.2.1", "SERVER_NAME": "test"}
    v.update(more)
    return v


def request(path="/v1/healthz", query="", method="GET", body=b"", rid=1, keep=False, size=MAX_CONTENT, padding=0,
            **more):
    """The bytes of one whole request."""
    if body:
        more.setdefault("CONTENT_LENGTH", str(len(body)))
    params = b"".join(pair(k, v) for k, v in variables(path, query, method, **more).items())
    return begin(rid, keep=keep) + stream(PARAMS, params, rid, size, padding) + stream(STDIN, body, rid, size, padding)


class Response:
    """A CGI response, parsed."""

    def __init__(self, raw):
        head, sep, self.body = raw.partition(b"\r\n\r\n")
        if not sep:
            raise ProtocolError(f"no end of headers in {raw[:200]!r}")
        self.headers = {}
        for line in head.decode("latin-1").split("\r\n"):
            name, sep, value = line.partition(": ")
            if not sep:
                raise ProtocolError(f"not a header: {line!r}")
            self.headers[name.lower()] = value
        self.status = int(self.headers.get("status", "200").split()[0])


class Connection:
    """One connection to an application: unix path, or (host, port)."""

    def __init__(self, address, timeout=5.0):
        self.sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.sock.settimeout(timeout)
        self.sock.connect(address)
        self.unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def drip(self, data, pause):
        for i in range(len(data)):
            self.sock.sendall(data[i:i + 1])
            time.sleep(pause)

    def _read(self, n):
        while len(self.unread) < n:
            try:
                got = self.sock.recv(65536)
            except ConnectionResetError:
                got = b""
            if not got:
                return None
            self.unread += got
        data, self.unread = self.unread[:n], self.unread[n:]
        return data

    def read_record(self):
        """(type, request id, content), or None at the end of the connection."""
        head = self._read(8)
        if head is None:
            if self.unread:
                raise ProtocolError(f"{len(self.unread)} bytes of a header, then the end")
            return None
        version, kind, rid, n, padding, reserved = struct.unpack("!BBHHBB", head)
        if version != 1 or reserved != 0:
            raise ProtocolError(f"header {head.hex()}")
        content = self._read(n + padding)
        if content is None:
            raise ProtocolError("the end within a record")
        if content[n:] != b"\0" * padding:
            raise ProtocolError(f"padding {content[n:]!r}")
        return kind, rid, content[:n]

    def read_response(self, rid=1):
        """The response up to END_REQUEST; ProtocolError when it isn't whole."""
        out, ended = b"", False
        while True:
            got = self.read_record()
            if got is None:
                raise ProtocolError(f"the end before END_REQUEST, after {out[:100]!r}")
            kind, got_rid, content = got
            if kind == UNKNOWN and got_rid == 0:
                continue
            if got_rid != rid:
                raise ProtocolError(f"a record of request {got_rid}")
            if kind == STDOUT:
                if ended:
                    raise ProtocolError("STDOUT after its end")
                out, ended = out + content, not content
            elif kind == END:
                app_status, protocol_status = struct.unpack("!IB3x", content)
                if not ended or protocol_status != COMPLETE or app_status != 0:
                    raise ProtocolError(f"END_REQUEST {app_status} {protocol_status}, STDOUT ended: {ended}")
                return Response(out)
            else:
                raise ProtocolError(f"a record of type {kind}")

    def at_end(self):
        """True when the application has closed; waits for it up to the timeout."""
        return self.read_record() is None

    def closed_without_answer(self):
        """True when the connection ends without any STDOUT; management answers don't count."""
        while True:
            got = self.read_record()
            if got is None:
                return True
            if got[0] in (STDOUT, END):
                return False


def get(address, path="/v1/healthz", timeout=5.0, **more):
    """One good request on a connection of its own."""
    with Connection(address, timeout) as c:
        c.send(request(path, **more))
        return c.read_response()
