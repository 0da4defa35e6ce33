"""The server as a process: it starts, drains, ends, and loses nothing that it acknowledged."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

import sdgar
from sdgar.errors import SdgarError
from sdgar.serve.store import Database


class Process:
    """``sdgar serve`` as a user starts it."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sdgar", "serve", *words, "--port", "0", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, said = self._process.communicate(timeout=20)
            raise AssertionError(said)
        self.url: str = json.loads(line)["address"]

    def send(self, sig: int) -> None:
        self._process.send_signal(sig)

    def end(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        return self._process.returncode

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def started() -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def start(*words: str) -> Process:
        made.append(Process(*words))
        return made[-1]

    yield start
    for one in made:
        one.kill()


def test_sigterm_drains(started, model_folder):
    server = started(str(model_folder), "--drain", "3")
    user = sdgar.load(model_folder).users.values.tolist()[0]

    def ask() -> httpx.Response:
        return httpx.post(f"{server.url}/v1/recommend", json={"users": [user]}, timeout=10)

    assert ask().json()["lists"][0]["basis"] == "model"
    assert httpx.get(f"{server.url}/").status_code == 200
    assert httpx.get(f"{server.url}/readyz").status_code == 200
    server.send(signal.SIGTERM)
    until = time.monotonic() + 5
    while httpx.get(f"{server.url}/readyz").status_code == 200:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert ask().status_code == 200
    assert httpx.get(f"{server.url}/livez").status_code == 200
    assert server.end() in (0, -signal.SIGTERM, 128 + signal.SIGTERM)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["none"], "no_such_model"),
        (["first", "--host", "0.0.0.0"], "no_keys"),
        (["first", "--variant", "x"], "bad_variant"),
        (["first", "--variant", "a=b:0.6", "--variant", "c=d:0.5"], "bad_variant"),
        (["first", "--store", "mongodb://x"], "unknown_store"),
        (["first", "--keys", "always"], "no_store"),
        (["first", "--rules", "none.toml"], "no_rules_file"),
        (["first", "--watch"], "no_such_model"),
    ],
)
def test_a_wrong_start_says_what_to_do(model_folder, monkeypatch, words, code):
    from sdgar.cli.app import app

    monkeypatch.chdir(model_folder.parent)
    with pytest.raises(SdgarError) as refused:
        app(["serve", *words, "--json"], standalone_mode=False)
    assert refused.value.code == code


def kill_at(server: Process, seconds: float, url: str, turn: int) -> list[str]:
    """Send events until the server is killed; return the keys of the acknowledged ones."""
    acknowledged: list[str] = []
    over = threading.Event()

    def send() -> None:
        number = 0
        with httpx.Client(timeout=10) as client:
            while not over.is_set():
                keys = [f"{turn}-{number}-{part}" for part in range(3)]
                number += 1
                events = [{"user": f"u{turn}", "item": key, "key": key} for key in keys]
                try:
                    answer = client.post(f"{url}/v1/feedback", json={"events": events})
                except httpx.HTTPError:
                    return
                assert answer.status_code == 202, answer.text
                acknowledged.extend(keys)

    thread = threading.Thread(target=send)
    thread.start()
    until = time.monotonic() + 20
    while not acknowledged and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(seconds)
    server.send(signal.SIGKILL)
    server.end()
    over.set()
    thread.join(20)
    return acknowledged


@pytest.mark.parametrize("times", [1, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_what_is_acknowledged_survives_kill_9(started, model_folder, tmp_path, times):
    store = f"sqlite:///{tmp_path / 'store.db'}"
    chance = random.Random(7)
    acknowledged: list[str] = []
    for turn in range(times):
        server = started(str(model_folder), "--store", store, "--no-page")
        acknowledged += kill_at(server, chance.uniform(0.0, 0.3), server.url, turn)
    with Database.open(store, read_only=True) as database:
        stored = [event.item for event in database.events_after(0, 10**6)[0]]
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    assert len(acknowledged) >= times
