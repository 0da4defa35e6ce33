"""How several processes of one server change to a model together, by way of the store.

    wanted    somebody asks for a model, by HTTP or by putting it where it is watched for
    ready     every process has loaded and checked it, and goes on with the old one
    switch    once all that live are ready, each switches: within one look at the store
    refused   one of them refuses it, and none switches

A process that was not heard of for a while is taken for dead, and is not waited for.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from sdgar.errors import SdgarError, UsageError
from sdgar.serve.snapshot import Snapshot
from sdgar.serve.swap import Models, Staged

if TYPE_CHECKING:
    from sdgar.database import Database

HEARD = 10.0
"""The seconds after which a process that says nothing is taken for dead."""
LONGEST = 120.0
"""The seconds that a request waits for all processes to change."""
_SEPARATOR = " "


class Agreement:
    """One process among those that change together."""

    def __init__(self, models: Models, database: Database, group: str) -> None:
        self._models, self._database, self._group = models, database, group
        self._name = f"{group}{_SEPARATOR}{socket.gethostname()}-{os.getpid()}"
        self._staged: Staged | None = None
        wanted = database.wanted(group)
        self._number = 0 if wanted is None else wanted.number

    def propose(self, variant: str, model: str | None = None) -> tuple[str, str, int]:
        """Ask all processes for a model; return its name, its version and the wish's number."""
        name, version = self._models.found(variant, model)
        wanted = self._database.wanted(self._group)
        label = f"{variant}{_SEPARATOR}{name}"
        if wanted is not None and (wanted.name, wanted.version) == (label, version):
            return name, version, wanted.number
        return name, version, self._database.want(version, label, self._group)

    def want(self, variant: str, model: str | None) -> Snapshot:
        """Ask all processes for a model, and wait until this one has changed to it."""
        name, version, number = self.propose(variant, model)
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            found = self._models.current.by_name[variant].snapshot
            if found.version == version:
                return found
            refusal = self._models.refused.get(variant)
            if self._number >= number and refusal is not None:
                raise UsageError(
                    f"the model {name} is refused, and the old one goes on: {refusal.reason}",
                    code="refused_model",
                )
            time.sleep(0.05)
        raise UsageError(
            f"not all processes were ready for {name} within {LONGEST:g} s. Ask again.",
            code="reloading",
        )

    def look(self) -> None:
        """Take the next step, if there is one; called again and again by a thread."""
        wanted = self._database.wanted(self._group)
        if wanted is None or wanted.number <= self._number:
            self._say("serving", self._models.current.first.snapshot.version)
            return
        variant, _, folder = wanted.name.partition(_SEPARATOR)
        if self._models.current.by_name[variant].snapshot.version == wanted.version:
            self._number = wanted.number
            return
        if self._staged is None or self._staged.version != wanted.version:
            try:
                self._staged = self._models.stage(variant, folder)
            except SdgarError as error:
                self._say("refused", wanted.version, str(error))
                self._end(wanted.number)
                return
        self._say("ready", wanted.version)
        others = [
            report
            for report in self._database.reports()
            if report.server.startswith(self._group + _SEPARATOR)
            and time.time() - report.time < HEARD
        ]
        refused = [r for r in others if r.state == "refused" and r.version == wanted.version]
        if refused:
            self._models.refuse(variant, folder, refused[0].reason)
            self._end(wanted.number)
        elif all(
            report.version == wanted.version and report.state in ("ready", "serving")
            for report in others
        ):
            self._models.switch(variant, self._staged)
            self._say("serving", wanted.version)
            self._end(wanted.number)

    def _say(self, state: str, version: str, reason: str = "") -> None:
        self._database.report(self._name, version, state, reason)

    def _end(self, number: int) -> None:
        self._number = number
        self._staged = None
