"""How several processes of one server change to a model together, by way of the store.

    wanted    somebody asks for a model, by HTTP or by putting it where it is watched for
    ready     every process has loaded and checked it, and goes on with the old one
    switch    once all that live are ready, each switches: within one look at the store
    refused   one of them refuses it, and none switches

Every process says again and again what it last did with the newest wish, so that none misses it.
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
    from sdgar.serve.store import Database
    from sdgar.serve.store.records import ModelRequest, ServerReport

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
        wanted = database.requested_model(group)
        self._number = 0 if wanted is None else wanted.number
        served = models.current.first.snapshot.version
        self._said = ("serving", _subject(served, self._number), "")

    def propose(self, variant: str, model: str | None = None) -> tuple[str, str, int]:
        """Ask all processes for a model; return its name, its version and the wish's number."""
        name, version = self._models.found(variant, model)
        wanted = self._database.requested_model(self._group)
        label = f"{variant}{_SEPARATOR}{name}"
        if wanted is not None and (wanted.name, wanted.version) == (label, version):
            return name, version, wanted.number
        return name, version, self._database.request_model(version, label, self._group)

    def request_model(self, variant: str, model: str | None) -> Snapshot:
        """Ask all processes for a model, and wait until all that live have changed to it."""
        name, version, number = self.propose(variant, model)
        if number <= self._number and not self._all_serve(_subject(version, number)):
            # The model may be mended since it was refused, or a process has started since then.
            number = self._database.request_model(
                version, f"{variant}{_SEPARATOR}{name}", self._group
            )
        subject = _subject(version, number)
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            if refused := self._refusals(subject):
                raise UsageError(
                    f"the model {name} is refused, and the old one goes on: {refused[0].reason}",
                    code="refused_model",
                )
            if self._number > number:
                raise UsageError(
                    f"another model was asked for while {name} was loaded. Ask again.",
                    code="reloading",
                )
            if self._all_serve(subject):
                return self._models.current.by_name[variant].snapshot
            time.sleep(0.05)
        raise UsageError(
            f"not all processes were ready for {name} within {LONGEST:g} s. Ask again.",
            code="reloading",
        )

    def look(self) -> None:
        """Take the next step, if there is one; called again and again by a thread."""
        wanted = self._database.requested_model(self._group)
        if wanted is None or wanted.number <= self._number:
            self._say(*self._said)
            return
        variant, _, folder = wanted.name.partition(_SEPARATOR)
        subject = _subject(wanted.version, wanted.number)
        if self._models.current.by_name[variant].snapshot.version == wanted.version:
            self._end(wanted, "serving")
            return
        if self._staged is None or self._staged.version != wanted.version:
            try:
                self._staged = self._models.stage(variant, folder)
            except SdgarError as error:
                self._end(wanted, "refused", str(error))
                return
        self._say("ready", subject)
        if refused := self._refusals(subject):
            self._models.refuse(variant, folder, refused[0].reason)
            self._end(wanted, "refused", refused[0].reason)
        elif all(
            report.version == subject and report.state in ("ready", "serving")
            for report in self._live()
        ):
            self._models.switch(variant, self._staged)
            self._end(wanted, "serving")

    def _live(self) -> list[ServerReport]:
        """Return the last reports of the processes of this group that live."""
        return [
            report
            for report in self._database.reports()
            if report.server.startswith(self._group + _SEPARATOR)
            and time.time() - report.time < HEARD
        ]

    def _refusals(self, subject: str) -> list[ServerReport]:
        """Return the reports of the processes that refuse a model."""
        return [one for one in self._live() if (one.state, one.version) == ("refused", subject)]

    def _all_serve(self, subject: str) -> bool:
        """Tell whether all processes that live serve a model."""
        live = self._live()
        served = [one for one in live if (one.state, one.version) == ("serving", subject)]
        return 0 < len(served) == len(live)

    def _say(self, state: str, subject: str, reason: str = "") -> None:
        self._said = (state, subject, reason)
        self._database.report(self._name, subject, state, reason)

    def _end(self, wanted: ModelRequest, state: str, reason: str = "") -> None:
        """Say how a wish ended for this process, and wait for the next one."""
        self._staged = None
        self._say(state, _subject(wanted.version, wanted.number), reason)
        self._number = wanted.number


def _subject(version: str, number: int) -> str:
    """Name what a report speaks of: a model and the wish for it, as one may be wished for twice."""
    return f"{version}{_SEPARATOR}{number}"
