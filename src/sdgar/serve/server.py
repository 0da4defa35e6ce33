"""A server from its settings: what ``sdgar serve`` starts, in one process or several."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn

from sdgar.errors import UsageError
from sdgar.recommend.rules import Rules
from sdgar.serve.access import Access
from sdgar.serve.agreement import Agreement
from sdgar.serve.app import build
from sdgar.serve.batches import Batches
from sdgar.serve.catalogue import Catalogue
from sdgar.serve.followed import Followed
from sdgar.serve.house import House
from sdgar.serve.impressions import Impressions
from sdgar.serve.limits import Limits
from sdgar.serve.measured import Measured
from sdgar.serve.patience import Patience
from sdgar.serve.polling import Chore, Chores
from sdgar.serve.service import Service, answered
from sdgar.serve.state import State
from sdgar.serve.swap import Models, Source, is_model
from sdgar.serve.variants import MAIN

log = logging.getLogger("sdgar.serve")

_SETTINGS = "SDGAR_SERVE_SETTINGS"
"""The environment variable by which the processes of one server know their settings."""
_SWITCH = 2e-4
"""The seconds after which a thread that computes gets its turn from one that answers."""
_FOLLOWED_AT_ONCE = 10_000


@dataclass(frozen=True)
class Settings:
    """How a server was started."""

    models: Mapping[str, tuple[str, float]]
    """For each variant its folder and its share of users."""
    watch: bool = False
    """Whether folders that are no model hold models, of which the newest answers."""
    store: str | None = None
    """The address of the store."""
    rules: str | None = None
    """The file of rules."""
    host: str = "127.0.0.1"
    """The address that is listened on."""
    port: int = 8000
    """The port that is listened on; 0 means any that is free."""
    workers: int = 1
    """The number of processes that answer."""
    group: str | None = None
    """The name of the processes that change models together; None for a single one."""
    keys: str = "auto"
    """Whether keys are needed: always, never, or as soon as the store has one (auto)."""
    origins: tuple[str, ...] = ()
    """The addresses of pages elsewhere that may ask."""
    hosts: tuple[str, ...] = ()
    """The names by which the server may be called; any, if there are none."""
    page: bool = True
    """Whether there is a page at ``/``."""
    impressions: bool = True
    """Whether the lists that are shown are logged."""
    canary: bool = True
    """Whether a new model is compared with the old one first."""
    drain: float = 5.0
    """How long a server that is told to end still takes requests, in seconds."""
    follow: float = 0.25
    """How often the store is asked for new events, in seconds."""
    log_requests: bool = False
    """Whether each request is logged, without ids and keys."""
    limits: Limits = field(default_factory=Limits)
    """The bounds of requests."""

    def to_json(self) -> str:
        """Return the settings as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Make the settings again."""
        told = json.loads(text)
        told["limits"] = Limits(**told["limits"])
        told["models"] = {name: (path, share) for name, (path, share) in told["models"].items()}
        for name in ("origins", "hosts"):
            told[name] = tuple(told[name])
        return cls(**told)


def state_from(settings: Settings) -> State:
    """Load the models, open the store, and put the parts of a server together."""
    database = None
    if settings.store is not None:
        from sdgar.serve.store import Database

        database = Database.open(settings.store)
    keys = [] if database is None else database.keys()
    needed = settings.keys == "always" or (settings.keys == "auto" and bool(keys))
    if not needed and not is_loopback(settings.host) and settings.keys != "never":
        raise UsageError(
            f"a server on {settings.host} can be reached from elsewhere, and there is no API key. "
            "Make one with `sdgar keys add NAME --role admin --store …`, or say --keys never.",
            code="no_keys",
        )
    if settings.group is not None and database is None:
        raise UsageError(
            "several processes agree on models by way of the store: give --store too.",
            code="no_store",
        )
    if needed and database is None:
        raise UsageError("keys live in the store: give --store too.", code="no_store")
    sources = {
        name: Source(name, Path(folder), _watched(settings, name, Path(folder)), share)
        for name, (folder, share) in settings.models.items()
    }
    models = Models(sources, canary=settings.canary)
    catalogue, measured = Catalogue(database), Measured()
    followed = Followed(lambda user: [] if database is None else database.events_of(user, 1000))
    impressions = Impressions(database, on=settings.impressions)
    rules = Rules.none() if settings.rules is None else Rules.read(Path(settings.rules))
    if rules:
        for said in rules.complaints(catalogue.facts_of(models.current.first.snapshot)):
            log.warning("%s", said)
    batches = Batches(answered, on_batch=measured.batched)
    house = House(rules, catalogue)
    service = Service(models, catalogue, followed, batches, impressions, house)
    access = Access(needed=needed)
    access.take(keys)
    state = State(service, access, measured, settings.limits, models.reload, database)
    change: Callable[[str], object] = models.reload
    chores = []
    if settings.group is not None and database is not None:
        agreement = Agreement(models, database, settings.group)
        state.reload, change = agreement.request_model, agreement.propose
        chores.append(Chore("agreement", 0.2, agreement.look))
    state.chores = Chores(chores + _chores(state, settings, change))
    return state


def _watched(settings: Settings, name: str, folder: Path) -> bool:
    """Tell whether a folder holds models; that of a variant beside the first may be one itself."""
    return settings.watch and (name == MAIN or not is_model(folder))


def _chores(state: State, settings: Settings, change: Callable[[str], object]) -> list[Chore]:
    service, database = state.service, state.database
    chores = [Chore("impressions", 1.0, service.impressions.flush)]
    if database is not None:
        number = 0

        def follow() -> None:
            nonlocal number
            while True:
                events, number = database.events_after(number, _FOLLOWED_AT_ONCE)
                service.followed.take(events)
                if len(events) < _FOLLOWED_AT_ONCE:
                    return

        def learn_keys() -> None:
            keys = database.keys()
            state.access.take(keys)
            if keys and settings.keys == "auto":
                state.access.needed = True

        follow()
        service.catalogue.refresh()
        chores += [
            Chore("store", settings.follow, follow),
            Chore("catalogue", 1.0, service.catalogue.refresh),
            Chore("keys", 2.0, learn_keys),
        ]
    if settings.watch:

        def look() -> None:
            for variant in service.models.wanted():
                try:
                    change(variant)
                except UsageError as error:
                    if error.code not in ("refused_model", "reloading"):
                        raise

        chores.append(Chore("models", 1.0, look))
    return chores


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def application() -> Any:
    """Return the application of one process, whose settings are in the environment."""
    settings = Settings.from_json(os.environ[_SETTINGS])
    _settle(settings)
    return application_of(settings, state_from(settings))


def application_of(settings: Settings, state: State) -> Any:
    """Return the application on these parts."""
    return build(state, origins=settings.origins, hosts=settings.hosts, page=settings.page)


def _settle(settings: Settings) -> None:
    """Set what concerns the whole process: its log, and how its threads take turns."""
    sys.setswitchinterval(_SWITCH)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    level = logging.INFO if settings.log_requests else logging.WARNING
    logging.getLogger("sdgar.access").setLevel(level)


def server_of(settings: Settings, state: State) -> Draining:
    """Return a server of one process that is ready to run."""
    config = uvicorn.Config(application_of(settings, state), **_options(settings))
    return Draining(config, state, settings.drain)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "host": settings.host, "port": settings.port, "http": Patience, "log_config": None,
        "timeout_keep_alive": 5, "timeout_graceful_shutdown": 10, "server_header": False,
        "access_log": False, "backlog": 1024, "ws": "none", "proxy_headers": False,
        "limit_concurrency": 4 * settings.limits.at_once,
    }  # fmt: skip


def serve(settings: Settings, *, ready: Any = None) -> None:
    """Answer requests until told to end; ``ready`` is called with the port once it listens."""
    _settle(settings)
    if settings.workers > 1:
        together = replace(settings, group=secrets.token_hex(4))
        os.environ[_SETTINGS] = together.to_json()
        if ready is not None:
            ready(settings.port)
        uvicorn.run(
            "sdgar.serve.server:application",
            factory=True,
            workers=settings.workers,
            **_options(settings),
        )
        return
    server = server_of(settings, state_from(settings))
    server.on_ready = ready
    server.run()


class Draining(uvicorn.Server):
    """A server that says it is about to end, and for a while still takes requests."""

    def __init__(self, config: uvicorn.Config, state: State, seconds: float) -> None:
        super().__init__(config)
        self._state, self._seconds = state, seconds
        self.on_ready: Any = None

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets=sockets)
        gc.collect()
        gc.freeze()  # what lives as long as the server is not looked at again and again
        if self.started and self.on_ready is not None:
            self.on_ready(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Say that the server will end, and end a little later; at once if told twice."""
        if self._state.draining or self._seconds <= 0 or not self.started:
            super().handle_exit(sig, frame)
            return
        self._state.draining = True
        log.info("told to end: requests are taken for %g s more", self._seconds)
        loop = asyncio.get_running_loop()
        loop.call_later(self._seconds, lambda: super(Draining, self).handle_exit(sig, frame))


__all__ = ["MAIN", "Settings", "application", "application_of", "serve", "state_from"]
