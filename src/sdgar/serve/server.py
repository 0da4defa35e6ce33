"""A server from its settings: what ``sdgar serve`` starts, in one process or several."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import sys
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import TypeAdapter

from sdgar.errors import UsageError
from sdgar.recommend.rules import Rules
from sdgar.serve.access import Access
from sdgar.serve.activity import ImpressionLog, RecentEvents
from sdgar.serve.app import build
from sdgar.serve.background import BackgroundTasks, PeriodicTask
from sdgar.serve.batches import Batches
from sdgar.serve.catalogue import EntryCache
from sdgar.serve.coordinator import SwapCoordinator
from sdgar.serve.limits import BoundedHttpProtocol
from sdgar.serve.metrics import ServiceMetrics
from sdgar.serve.routes.common import ServerState
from sdgar.serve.service import Service, answer_batch
from sdgar.serve.settings import ServerSettings
from sdgar.serve.snapshot import Snapshot
from sdgar.serve.store import Database
from sdgar.serve.swap import MAIN, ModelSource, ServedModels, is_model

log = logging.getLogger("sdgar.serve")

_SETTINGS = "SDGAR_SERVE_SETTINGS"
"""The environment variable that passes the settings to the processes of one server."""
_SWITCH_SECONDS = 2e-4
"""The time after which Python switches between the computing and the answering thread."""
_EVENTS_AT_ONCE = 10_000


def state_from(settings: ServerSettings) -> ServerState:
    """Load the models, open the store, and return the parts of a server."""
    database = None
    if settings.store is not None:
        database = Database.open(settings.store)
    keys = [] if database is None else database.keys()
    needed = settings.keys == "always" or (settings.keys == "auto" and bool(keys))
    if not needed and not is_loopback(settings.host) and settings.keys != "never":
        raise UsageError(
            f"a server on {settings.host} can be reached from other machines, and there is no API "
            "key. Add one with `sdgar keys add NAME --role admin --store …`, or use --keys never.",
            code="no_keys",
        )
    if database is None and (needed or settings.group is not None):
        raise UsageError("keys and several processes need a store: add --store.", code="no_store")
    sources = {
        name: ModelSource(name, Path(folder), _watched(settings, name, Path(folder)), share)
        for name, (folder, share) in settings.models.items()
    }
    models = ServedModels(sources, canary=settings.canary)
    metrics = ServiceMetrics()
    recent = RecentEvents(lambda user: [] if database is None else database.events_of(user, 1000))
    impressions = ImpressionLog(database if settings.impressions else None)
    rules = Rules.none() if settings.rules is None else Rules.read(settings.rules)
    catalogue = EntryCache(database, rules)
    if rules:
        facts = catalogue.facts_of(models.current.first.snapshot)
        for complaint in rules.using().complaints(facts):
            log.warning("%s", complaint)
    batches = Batches(answer_batch, metrics.batch_of)
    service = Service(models, catalogue, recent, batches, impressions, rules)
    access = Access(needed=needed)
    access.update(keys)
    reload: Callable[[str, str | None], Snapshot] = models.reload
    change: Callable[[str], object] = models.reload
    tasks = []
    if settings.group is not None and database is not None:
        coordinator = SwapCoordinator(models, database, settings.group)
        reload, change = coordinator.reload, coordinator.propose
        tasks.append(PeriodicTask("coordination", 0.2, coordinator.step))
    tasks += _tasks(service, access, database, settings, change)
    background = BackgroundTasks(tasks)
    return ServerState(service, access, metrics, settings.limits, reload, background, database)


def _watched(settings: ServerSettings, name: str, folder: Path) -> bool:
    """Return whether a folder holds models; the folder of a further variant may be a model."""
    return settings.watch and (name == MAIN or not is_model(folder))


def _tasks(
    service: Service,
    access: Access,
    database: Database | None,
    settings: ServerSettings,
    change: Callable[[str], object],
) -> list[PeriodicTask]:
    tasks = [PeriodicTask("impressions", 1.0, service.impressions.flush)]
    if database is not None:
        number = 0

        def follow() -> None:
            nonlocal number
            while True:
                events, number = database.events_after(number, _EVENTS_AT_ONCE)
                service.recent.add(events)
                if len(events) < _EVENTS_AT_ONCE:
                    return

        def update_keys() -> None:
            keys = database.keys()
            access.update(keys)
            if keys and settings.keys == "auto":
                access.needed = True

        follow()
        service.catalogue.refresh()
        tasks += [
            PeriodicTask("store", settings.follow, follow),
            PeriodicTask("catalogue", 1.0, service.catalogue.refresh),
            PeriodicTask("keys", 2.0, update_keys),
        ]
    if settings.watch:

        def load_newest() -> None:
            for variant in service.models.outdated():
                try:
                    change(variant)
                except UsageError as error:
                    if error.code not in ("refused_model", "reloading"):
                        raise

        tasks.append(PeriodicTask("models", 1.0, load_newest))
    return tasks


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def application() -> Any:
    """Return the application of one process, whose settings are in the environment."""
    settings = TypeAdapter(ServerSettings).validate_json(os.environ[_SETTINGS])
    _configure_process(settings)
    return build(state_from(settings), settings)


def _configure_process(settings: ServerSettings) -> None:
    """Configure the log of the process, and how its threads take turns."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    level = logging.INFO if settings.log_requests else logging.WARNING
    logging.getLogger("sdgar.access").setLevel(level)


def server_of(settings: ServerSettings, state: ServerState) -> DrainingServer:
    """Return a server of one process, ready to run."""
    config = uvicorn.Config(build(state, settings), **_options(settings))
    return DrainingServer(config, state, settings.drain)


def _options(settings: ServerSettings) -> dict[str, Any]:
    return {
        "host": settings.host, "port": settings.port, "http": BoundedHttpProtocol,
        "log_config": None, "timeout_keep_alive": 5, "timeout_graceful_shutdown": 10,
        "server_header": False, "access_log": False, "backlog": 1024, "ws": "none",
        "proxy_headers": False,
        "limit_concurrency": 4 * settings.limits.at_once,
    }  # fmt: skip


def serve(settings: ServerSettings, *, ready: Any = None) -> None:
    """Answer requests until stopped; call ``ready`` with the port once the server listens."""
    _configure_process(settings)
    if settings.workers > 1:
        shared = replace(settings, group=secrets.token_hex(4))
        os.environ[_SETTINGS] = TypeAdapter(ServerSettings).dump_json(shared).decode()
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


class DrainingServer(uvicorn.Server):
    """A server that reports that it stops, and accepts requests a little longer."""

    def __init__(self, config: uvicorn.Config, state: ServerState, seconds: float) -> None:
        super().__init__(config)
        self._state, self._seconds = state, seconds
        self.on_ready: Any = None

    async def startup(self, sockets: Any = None) -> None:
        """Start to listen, and call ``on_ready``."""
        await super().startup(sockets=sockets)
        gc.collect()
        gc.freeze()  # spares the collector from scanning the model and its tables each time
        if self.started and self.on_ready is not None:
            self.on_ready(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop a little later, and report that; stop at once at the second signal."""
        if self._state.draining or self._seconds <= 0 or not self.started:
            super().handle_exit(sig, frame)
            return
        self._state.draining = True
        log.info("stopping: requests are accepted for %g s more", self._seconds)
        loop = asyncio.get_running_loop()
        loop.call_later(self._seconds, lambda: super(DrainingServer, self).handle_exit(sig, frame))
