"""The systems that a comparison compares, and their settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sdgar.errors import unknown_name
from sdgar.lab.tune import searched_of
from sdgar.settings import nearest_setting
from sdgar.systems.base import Estimator
from sdgar.systems.make import make
from sdgar.systems.names import SYSTEMS
from sdgar.systems.spaces import Space


@dataclass(frozen=True, slots=True)
class Candidate:
    """A system to be compared, with its settings."""

    estimator: Estimator
    """The system as it is compared; a search may change its settings first."""
    fixed: Collection[str] = ()
    """The names of settings that a search must leave alone."""

    @property
    def system(self) -> str:
        """The name of the system."""
        return self.estimator.system_name

    @property
    def searched(self) -> Space:
        """The settings that a search would try, and their values."""
        return searched_of(self.estimator, self.fixed)

    def seeds(self, seeds: Sequence[int]) -> Sequence[int | None]:
        """Return the seeds to train with; one run is enough for a system that draws nothing."""
        return seeds if "seed" in self.estimator.get_params() else (None,)


def candidates_of(
    names: str, settings: Mapping[str, str], common: Mapping[str, Any]
) -> list[Candidate]:
    """Make every system with its settings, which are given as text.

    ``names`` are separated by commas. A key SYSTEM.KEY is for that system alone, and a bare KEY
    for all systems that have it.
    """
    systems = [name.strip() for name in names.split(",") if name.strip()]
    for name in systems:
        if name not in SYSTEMS:
            raise unknown_name("system", name, SYSTEMS)
    known = {name: list(SYSTEMS[name]().plain_params()) for name in systems}
    for key in settings:
        system, dot, name = key.rpartition(".")
        if dot and system not in systems:
            raise unknown_name("compared system", system, systems)
        if not dot and not any(name in fields for fields in known.values()):
            raise nearest_setting("setting", name, {key for own in known.values() for key in own})
    found = []
    for name in systems:
        own = {key: value for key, value in settings.items() if key in known[name]}
        for key, value in settings.items():
            if key.startswith(f"{name}."):
                own[key.removeprefix(f"{name}.")] = value
        found.append(Candidate(make(name, own, common=common), own))
    return found
