"""Bad bytes get their code, and the server lives on."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import httpx
import pytest

from .conftest import Live

GOOD = {"users": ["a"], "k": 3}


def ask(live: Live, content: Any, **headers: str) -> httpx.Response:
    return httpx.post(
        f"{live.url}/v1/recommend", content=content,
        headers={"Content-Type": "application/json", **headers}, timeout=20,
    )  # fmt: skip


def alive(live: Live) -> None:
    answer = httpx.post(f"{live.url}/v1/recommend", json=GOOD, timeout=20)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, "invalid"),
        (b"{", 400, "bad_json"),
        (b"[1, 2", 400, "bad_json"),
        (b'{"users": ["a"], "k": NaN}', 400, "bad_json"),
        (b'{"users": ["a"], "diversity": Infinity}', 400, "bad_json"),
        (b'{"users": ["\xff\xfe"]}', 400, "bad_json"),
        ('{"users": ["ä"]}'.encode("utf-16"), 400, "bad_json"),
        (b'\xef\xbb\xbf{"users": ["a"]}', 400, "bad_json"),
        (b'{"users": ["\\ud800"]}', 400, "bad_json"),
        (b'{"users": ["a"]} x', 400, "bad_json"),
        (b"[" * 100_000, 400, "bad_json"),
        (b'{"users":' * 10_000 + b"1" + b"}" * 10_000, 400, "bad_json"),
        (b'{"users": [' + b"9" * 5000 + b"]}", 400, "bad_json"),
        (b"null", 422, "invalid"),
        (b"[]", 422, "invalid"),
        (b"17", 422, "invalid"),
        (b'"users"', 422, "invalid"),
        (b'{"users": []}', 422, "invalid"),
        (b'{"users": "ann"}', 422, "invalid"),
        (b'{"users": [null]}', 422, "invalid"),
        (b'{"users": [true]}', 422, "invalid"),
        (b'{"users": [1.5]}', 422, "invalid"),
        (b'{"users": [""]}', 422, "invalid"),
        (b'{"users": ["a\\u0000b"]}', 422, "invalid"),
        (b'{"users": ["' + b"a" * 257 + b'"]}', 422, "invalid"),
        (b'{"users": ["a"], "unknown": 1}', 422, "invalid"),
        (b'{"users": ["a"], "histories": [{"items": [1]}]}', 422, "invalid"),
        (b'{"histories": [{"items": []}]}', 422, "invalid"),
        (b'{"users": ["a"], "exclude_seen": 1}', 422, "invalid"),
        (b'{"users": ["a"], "diversity": "0.5"}', 422, "invalid"),
        (b'{"users": ["a"], "diversity": 1.1}', 422, "invalid"),
    ],
)
def test_a_bad_body_gets_its_code(live, body, status, code):
    start = time.perf_counter()
    answer = ask(live, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 2000
    assert time.perf_counter() - start < 5
    alive(live)


@pytest.mark.parametrize(
    ("k", "status"),
    [(1, 200), (10.0, 200), (1000, 200), (0, 422), (-1, 422), (1001, 422), (1.5, 422),
     ("10", 422), (True, 422), (2**31, 422), (2**63, 422), (2**70, 422), (None, 422)],
)  # fmt: skip
def test_k_and_lists_have_bounds(live, k, status):
    assert ask(live, json.dumps({"users": ["a"], "k": k}).encode()).status_code == status
    for n, found in ((256, status), (257, 422)):
        body = {"users": [f"u{at}" for at in range(n)], "k": k}
        assert ask(live, json.dumps(body).encode()).status_code == found


def test_a_huge_body_is_refused(live):
    over = b'{"users": ["' + b"a" * (1 << 20) + b'"]}'
    answer = ask(live, over)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")

    def pieces() -> Any:
        for _ in range(1100):
            yield b" " * 1024

    assert ask(live, pieces()).status_code == 413
    alive(live)


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data"},
     {"Content-Encoding": "gzip"}],
)  # fmt: skip
def test_only_plain_json_is_taken(live, headers):
    answer = ask(live, json.dumps(GOOD).encode(), **headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "not_json")


def test_other_methods_are_named(live):
    answer = httpx.get(f"{live.url}/v1/recommend")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["code"] == "method_not_allowed"


def raw(live: Live, *pieces: bytes, wait: float = 0.0, patience: float = 20.0) -> bytes:
    """Send bytes as they are, and return what comes back until the connection ends."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=patience) as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except OSError:
                break
            time.sleep(wait)
        found = b""
        try:
            while data := connection.recv(65536):
                found += data
        except OSError:
            pass
        return found


HEAD = b"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def test_a_slow_body_is_hung_up_on(live):
    found = raw(live, HEAD + b"Connection: close\r\nContent-Length: 50\r\n\r\n{", patience=10)
    assert b" 408 " in found.split(b"\r\n")[0]
    alive(live)


def test_a_body_that_is_cut_off_harms_nobody(live):
    with socket.create_connection(("127.0.0.1", live.port)) as connection:
        connection.sendall(HEAD + b"Content-Length: 50\r\n\r\n{")
    alive(live)


@pytest.mark.parametrize(
    "bytes_",
    [
        b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01" + b"x" * 300,
    ],
)  # fmt: skip
def test_what_is_no_http_is_refused(live, bytes_):
    found = raw(live, bytes_, patience=10)
    assert found == b"" or b" 400 " in found.split(b"\r\n")[0]
    alive(live)


def test_endless_headers_are_refused(live):
    line = b"x-a: " + b"b" * 1000 + b"\r\n"
    found = raw(live, HEAD, *[line] * 60, patience=10)
    assert b" 431 " in found.split(b"\r\n")[0]
    alive(live)


def test_slow_headers_are_hung_up_on(live, monkeypatch):
    from sdgar.serve import limits

    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.3)
    start = time.perf_counter()
    assert raw(live, HEAD, patience=10) == b""
    assert time.perf_counter() - start < 5
    alive(live)


def test_two_lengths_are_refused(live):
    body = json.dumps(GOOD).encode()
    both = HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    found = raw(live, both, patience=10)
    assert b" 200 " not in found.split(b"\r\n")[0]
    alive(live)


def test_no_name_reaches_a_file(live):
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/..%2f..%2fetc/passwd", "/v1/../x"):
        found = raw(live, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert b" 404 " in found.split(b"\r\n")[0], (path, found[:100])
