from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason='the server needs the extra: pip install "sdgar[serve]"')

import httpx

import sdgar
from sdgar.data.synthetic import Shape, generate
from sdgar.serve.app import build
from sdgar.serve.routes.common import ServerState
from sdgar.serve.server import server_of, state_from
from sdgar.serve.settings import RequestLimits, ServerSettings

SHAPE = Shape(users=60, items=40, interactions=900, concentration=0.11)


class Client:
    """Sends requests to an application without a network, one after the other."""

    def __init__(self, settings: ServerSettings) -> None:
        self.state: ServerState = state_from(settings)
        self.app = build(self.state, settings)
        self._loop = asyncio.new_event_loop()
        self.headers: dict[str, str] = {}

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.all([(method, path, body, more)])[0]

    def all(self, requests: list[tuple[str, str, Any, dict[str, Any]]]) -> list[httpx.Response]:
        """Send several requests at once."""

        async def run() -> list[httpx.Response]:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await asyncio.gather(
                    *(
                        client.request(
                            method, path, headers=self.headers | more.pop("headers", {}),
                            **({} if body is None else {"json": body}), **more,
                        )
                        for method, path, body, more in requests
                    )
                )  # fmt: skip

        return self._loop.run_until_complete(run())

    def post(self, path: str, **body: Any) -> Any:
        answer = self("POST", path, body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def get(self, path: str, **params: Any) -> Any:
        answer = self("GET", path, params=params)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def close(self) -> None:
        self.state.service.batches.close()
        if self.state.database is not None:
            self.state.database.close()
        self._loop.close()


class Live:
    """A server on loopback, in a thread of this process."""

    def __init__(self, settings: ServerSettings) -> None:
        self.state = state_from(settings)
        self.server = server_of(settings, self.state)
        self.server.config.app = self.wrapped(self.server.config.app)
        self._thread = threading.Thread(target=self.server.run)
        self._thread.start()
        until = time.monotonic() + 20
        while not self.server.started and time.monotonic() < until:
            time.sleep(0.01)
        assert self.server.started
        self.port: int = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def wrapped(self, app: Any) -> Any:
        """Return the application that the server runs."""
        return app

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join(20)
        if self.state.database is not None:
            self.state.database.close()


@pytest.fixture(scope="session")
def live(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    store = tmp_path_factory.mktemp("live") / "store.db"
    settings = ServerSettings(
        models={"main": (str(model_folder), 1.0)}, store=f"sqlite:///{store}", port=0, page=False,
        limits=RequestLimits(body_seconds=0.5),
    )  # fmt: skip
    server = Live(settings)
    yield server
    server.close()


@pytest.fixture(scope="session")
def data() -> sdgar.Interactions:
    return generate(SHAPE, seed=1)


@pytest.fixture(scope="session")
def model_folder(data: sdgar.Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that has vectors and a memory, and folds in."""
    folder = tmp_path_factory.mktemp("models") / "first"
    sdgar.Quick(dim=8, seed=0).fit(data).save(folder)
    return folder


@pytest.fixture(scope="session")
def model(model_folder: Path) -> sdgar.Recommender:
    """The model of that folder, as the library loads it."""
    return sdgar.load(model_folder)


@pytest.fixture(scope="session")
def other_folder(data: sdgar.Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with another model of the same users and items."""
    folder = tmp_path_factory.mktemp("models") / "second"
    sdgar.Quick(dim=6, seed=3, item_memory=8.0).fit(data).save(folder)
    return folder


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Start applications; they end with the test."""
    made: list[Client] = []

    def start(folder: Path, *, store: bool | str = False, **settings: Any) -> Client:
        url = f"sqlite:///{tmp_path / 'store.db'}" if store is True else store or None
        models = settings.pop("models", {"main": (str(folder), 1.0)})
        made.append(Client(ServerSettings(models=models, store=url, page=False, **settings)))
        return made[-1]

    yield start
    for client in made:
        client.close()


@pytest.fixture
def client(serving: Callable[..., Client], model_folder: Path) -> Client:
    return serving(model_folder)


@pytest.fixture
def stored(serving: Callable[..., Client], model_folder: Path) -> Client:
    """An application with a store."""
    return serving(model_folder, store=True)
