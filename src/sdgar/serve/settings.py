"""The settings of a server, which are options of ``sdgar serve`` too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sdgar.errors import UsageError


@dataclass(frozen=True)
class RequestLimits:
    """The limits of a server on its requests."""

    body_bytes: int = 1 << 20
    """The maximum size of a body in bytes."""
    body_seconds: float = 10.0
    """The maximum time for a body to arrive."""
    answer_seconds: float = 30.0
    """The maximum time for an answer."""
    at_once: int = 256
    """Requests in progress; more are refused."""
    per_minute: int = 0
    """Requests a minute and client (a key or an address); 0: no limit."""

    def __post_init__(self) -> None:
        """Raise if a limit is out of its range."""
        _require("at_once", self.at_once, 1)
        _require("per_minute", self.per_minute, 0)


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server."""

    models: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """The folder and the share of users of each variant."""
    watch: bool = False
    """RUN is a folder of models: the newest answers, once it is complete."""
    store: str | None = None
    """The address of the store."""
    rules: Path | None = None
    """Re-rank by the rules in this TOML file."""
    host: str = "127.0.0.1"
    """Listen on this address; only this machine by default."""
    port: int = 8000
    """Listen on this port; 0 means any free port."""
    workers: int = 1
    """The number of processes that answer."""
    group: str | None = None
    """The name of the processes that change models together; None for a single process."""
    keys: Literal["auto", "always", "never"] = "auto"
    """Require API keys: always, never, or once the store has one (auto)."""
    origins: tuple[str, ...] = ()
    """The addresses of other pages that may call the server."""
    hosts: tuple[str, ...] = ()
    """The names under which the server may be called; any, if empty."""
    page: bool = True
    """Serve the page at /."""
    impressions: bool = True
    """Log which lists were shown."""
    canary: bool = True
    """Refuse a new model that differs too much from the old one."""
    drain: float = 5.0
    """Seconds for which a stopping server still answers."""
    follow: float = 0.25
    """The seconds between two checks for new events in the store."""
    log_requests: bool = False
    """Log each request, without ids and keys."""
    limits: RequestLimits = field(default_factory=RequestLimits)
    """The limits of requests."""

    def __post_init__(self) -> None:
        """Raise if a number is out of its range."""
        _require("port", self.port, 0, 65_535)
        _require("workers", self.workers, 1, 64)
        _require("drain", self.drain, 0)


def _require(name: str, value: float, low: float, high: float = float("inf")) -> None:
    if not low <= value <= high:
        up_to = f" and at most {high:,g}" if high < float("inf") else ""
        raise UsageError(
            f"{name} must be at least {low:g}{up_to}, got {value!r}.", code="bad_option"
        )
