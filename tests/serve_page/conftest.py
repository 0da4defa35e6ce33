"""A browser for the tests of the page, and the servers that it looks at."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

import sdgar
from sdgar.data.synthetic import Shape, generate
from sdgar.runs.job import Job
from sdgar.runs.run import RunData
from sdgar.systems.sdsoftmax import SDSoftmax

pytest.importorskip("fastapi", reason='the server needs the extra: pip install "sdgar[serve]"')

from sdgar.serve.demo_entries import fill
from sdgar.serve.settings import ServerSettings
from sdgar.serve.store import Database

from ..serve.conftest import Live
from .trouble import TroubledServer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
    "phone-dark": {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
}
REFUSED = "Failed to load resource"
"""What Chromium itself writes of an answer that is no success."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium. It is closed with each file, so that its loop is in nobody's way."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian's package chromium)")
    with driver.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the page: SDGAR_PAGE_URL, or else one on a synthetic model."""
    if given := os.environ.get("SDGAR_PAGE_URL"):
        yield given.rstrip("/") + "/"
        return
    folder = tmp_path_factory.mktemp("page")
    shape = Shape(users=200, items=150, interactions=4_000, concentration=0.2)
    data = generate(shape, seed=1)
    train, test = sdgar.split(data, seed=1)
    system = SDSoftmax(dim=8, epochs=4, item_memory=4.0, seed=0)
    rows = RunData(train=train, test=test, everything=data)
    Job.of(system, overwrite=True, keep="all").run(system, rows, folder / "run")
    store = f"sqlite:///{folder / 'store.db'}"
    with Database.open(store) as database:
        fill(database, sdgar.load(folder / "run"))
    live = Live(ServerSettings(models={"main": (str(folder / "run"), 1.0)}, store=store, port=0))
    yield live.url + "/"
    live.close()


HOSTILE = 'a/b "c" <img src=x onerror=alert(1)> ü&?#%'
"""An id with all that could be mistaken for something else."""
GREAT = 2**63 + 11
"""An integer id that is no exact number of JavaScript."""
IDS: dict[str, list[Any]] = {
    "integers": [GREAT, *range(1, 60)], "texts": [HOSTILE, "..", *map(str, range(1, 59))],
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of integer ids and of texts; users and items have the same ids."""
    data = generate(Shape(users=60, items=60, interactions=900, concentration=0.11), seed=1)
    made = {}
    for kind, ids in IDS.items():
        users, items = ([ids[n] for n in side.tolist()] for side in (data.users_E, data.items_E))
        model = sdgar.Quick(dim=8, seed=0).fit(sdgar.Interactions.from_arrays(users, items))
        made[kind] = tmp_path_factory.mktemp("models") / kind
        model.save(made[kind])
    return made


@pytest.fixture
def server(folders: dict[str, Path], tmp_path: Path) -> Iterator[Callable[..., TroubledServer]]:
    """Start a server on a model of integer ids, or of texts."""
    started: list[TroubledServer] = []

    def start(ids: str = "integers", *, store: bool = True, **how: Any) -> TroubledServer:
        address = f"sqlite:///{tmp_path / 'store.db'}" if store else None
        started.append(TroubledServer(folders[ids], address, **how))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """Keys that a store has before a server is started on it, by their roles."""
    with Database.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        return {role: store.add_key(role, role) for role in ("read", "write")}


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page. In the end no other server had a request, and the console has no error."""
    contexts: list[Any] = []
    outside: list[str] = []
    errors: list[str] = []

    def open_page(url: str, look: str = "light", **how: Any) -> Any:
        refusals = how.pop("refusals", False)
        context = browser.new_context(**{**LOOKS[look], **how})
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        origin = "/".join(url.split("/")[:3])

        def on_request(request: Any) -> None:
            if not request.url.startswith((origin + "/", "data:", "blob:")):
                outside.append(request.url)

        def on_console(message: Any) -> None:
            if message.type in ("error", "warning") and not (refusals and REFUSED in message.text):
                errors.append(message.text)

        page.on("request", on_request)
        page.on("console", on_console)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert outside == []
    assert errors == []


@pytest.fixture
def shot() -> Callable[[Any, str], None]:
    """Leave a picture of a page in the folder SDGAR_SCREENSHOTS, if there is one."""
    folder = os.environ.get("SDGAR_SCREENSHOTS")

    def take(page: Any, name: str) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    return take


class Facts:
    """Some users and items of a server, for the tests."""

    def __init__(self, url: str) -> None:
        self._url = url + "v1/"
        self.popular = self.get("popular?k=12")["items"]
        users = self.get("users?query=&limit=20")["found"]
        self.user = next(u for u in users if self.history(u["id"])["items"])
        self.item = self.popular[0]

    def get(self, path: str) -> Any:
        with urlopen(self._url + path) as answer:
            return json.load(answer)

    def history(self, user: str | int) -> Any:
        return self.get(f"history?user={quote(str(user), safe='')}")


@pytest.fixture(scope="module")
def facts(page_url: str) -> Facts:
    return Facts(page_url)
