from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from sdgar.serve.limits import LimitedApp, RateLimiter
from sdgar.serve.settings import RequestLimits

Messages = list[dict[str, Any]]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def never(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(60)


def ask(
    app: Any,
    limits: RequestLimits,
    messages: Messages,
    *,
    headers: list[tuple[bytes, bytes]] | None = None,
    path: str = "/v1/x",
    running: int = 0,
) -> Messages:
    sent: Messages = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "headers": headers or [], "method": "POST"}
    access = SimpleNamespace(client=lambda _: "me")
    limited = LimitedApp(app, SimpleNamespace(limits=limits, access=access, running=running))
    asyncio.run(limited(scope, receive, send))
    return sent


def status_and_code(sent: Messages) -> tuple[int, str]:
    return sent[0]["status"], json.loads(sent[1]["body"])["code"]


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_within_its_bounds_goes_through_in_one_piece():
    sent = ask(echo, RequestLimits(body_bytes=6), [part(b"abc", True), part(b"def")])
    assert (sent[0]["status"], sent[1]["body"]) == (200, b"abcdef")


@pytest.mark.parametrize("length", [b"7", b"-1", b"x", b"9" * 30])
def test_a_body_that_is_announced_as_too_large_is_not_read(length):
    messages = [part(b"")]
    sent = ask(echo, RequestLimits(body_bytes=6), messages, headers=[(b"content-length", length)])
    assert status_and_code(sent) == (413, "too_large")
    assert messages


def test_a_client_that_hangs_up_gets_nothing():
    assert ask(echo, RequestLimits(), [part(b"a", True)]) == []


def test_an_answer_that_takes_too_long_ends():
    sent = ask(never, RequestLimits(answer_seconds=0.05), [part(b"")])
    assert status_and_code(sent) == (504, "timeout")


def test_too_many_at_once_are_turned_away_but_not_health():
    sent = ask(echo, RequestLimits(at_once=3), [part(b"")], running=3)
    assert status_and_code(sent) == (503, "overloaded")
    assert (b"retry-after", b"1") in sent[0]["headers"]
    sent = ask(echo, RequestLimits(at_once=3), [part(b"")], running=3, path="/livez")
    assert sent[0]["status"] == 200


def test_a_bucket_fills_up_again():
    now = [0.0]
    rates = RateLimiter(60, clock=lambda: now[0])
    assert [rates.wait("a") for _ in range(60)] == [0.0] * 60
    assert rates.wait("a") == pytest.approx(1.0)
    assert rates.wait("b") == 0.0
    now[0] = 1.0
    assert rates.wait("a") == 0.0
    assert rates.wait("a") > 0
    now[0] = 1000.0
    assert [rates.wait("a") for _ in range(60)] == [0.0] * 60
    assert rates.wait("a") > 0
    no_rate = RateLimiter(0)
    assert not any(no_rate.wait("a") for _ in range(1000))
