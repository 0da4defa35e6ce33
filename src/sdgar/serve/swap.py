"""Which model answers, and how another one takes its place without a dropped request.

A new model is loaded and verified beside the old one, answers questions of its own, and its lists
are compared with those of the old one. Only then it is switched to, by one assignment: a request
keeps the models it began with. A model that is refused changes nothing, and the reason is kept for
``/readyz``.

A model is named by a folder within the folder that the server was started with; a request can name
no other file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from sdgar.errors import ArtifactError, SdgarError, UsageError
from sdgar.recommend.manifest import read_manifest, version_of
from sdgar.serve.snapshot import Snapshot
from sdgar.serve.variants import MAIN, Variant, Variants
from sdgar.storage.folders import MANIFEST

log = logging.getLogger("sdgar.serve")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a folder of a model may be called so that a request can name it."""
LEAST_USERS, LEAST_ITEMS = 0.5, 0.5
"""A model with fewer users or items than this share of the old one's is refused."""
LEAST_OVERLAP = 0.02
"""A model whose lists share less than this with those of the old one is refused."""
MOST_CONCENTRATED = 0.9
"""A model that puts the same item first for more than this share of users is refused."""


@dataclass(frozen=True)
class Source:
    """Where the model of a variant comes from."""

    name: str
    """The name of the variant."""
    folder: Path
    """The folder of the model, or a folder of models of which the newest answers."""
    watched: bool = False
    """Whether ``folder`` holds models instead of being one."""
    share: float = 1.0
    """The share of users who get this variant."""

    def newest(self) -> Path:
        """Return the folder of the model that should answer now."""
        return self.by_age()[0]

    def by_age(self) -> list[Path]:
        """Return the folders of all models that may answer, the newest first."""
        if not self.watched:
            return [self.folder]
        found = [path for path in self.folder.iterdir() if _is_named(path)]
        if not found:
            raise ArtifactError(
                f"{self.folder} holds no saved model yet. Train one with --out "
                f"{self.folder / 'NAME'}.",
                code="no_such_model",
            )
        found.sort(key=lambda path: ((path / MANIFEST).stat().st_mtime_ns, path.name))
        return found[::-1]

    def named(self, name: str) -> Path:
        """Return the folder of a model by its name, which no path can hide in."""
        if self.watched and NAME.fullmatch(name):
            for path in self.folder.iterdir():
                if path.name == name and _is_named(path):
                    return path
        elif name == self.folder.name:
            return self.folder
        raise UsageError(f"there is no model {name!r:.80} here.", code="unknown_model")


def is_model(path: Path) -> bool:
    """Tell whether a folder is a finished model."""
    return path.is_dir() and (path / MANIFEST).is_file()


def _is_named(path: Path) -> bool:
    """Tell whether a folder is a finished model that a request can name."""
    plain = NAME.fullmatch(path.name) and not path.name.endswith(".partial")
    return bool(plain) and is_model(path)


@dataclass(frozen=True)
class Refusal:
    """A model that was not taken, and why."""

    model: str
    """The name of its folder, and its version if that can be read."""
    reason: str
    """The reason for which it was refused, as a sentence."""


@dataclass(frozen=True)
class Staged:
    """A model that is loaded and checked, and does not answer yet."""

    version: str
    """The name of exactly this model."""
    snapshot: Snapshot
    """The model that is to answer."""


class Models:
    """The models that answer now, and the way to others."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        *,
        load: Callable[[Path], Snapshot] = Snapshot.of,
        canary: bool = True,
    ) -> None:
        self._sources, self._load, self._canary = dict(sources), load, canary
        self._lock = Lock()
        self.refused: dict[str, Refusal] = {}
        self._passed_over: dict[str, str] = {}
        self.swaps = 0
        self.current = Variants(
            {
                name: Variant(name, self._first(source), source.share)
                for name, source in self._sources.items()
            }
        )

    def _first(self, source: Source) -> Snapshot:
        """Load the newest model; if it is refused, the newest one before it that is not."""
        folders = source.by_age()
        for folder in folders:
            try:
                return self._load(folder)
            except (SdgarError, OSError) as error:
                if folder is folders[-1]:
                    raise
                if folder is folders[0]:
                    self._refuse(source.name, Refusal(_label(folder), str(error)))
        raise AssertionError("there is at least one folder")

    def wanted(self) -> dict[str, str]:
        """Return the versions that should answer and do not, by variant.

        A model that was refused is not among them, nor one that was the newest when somebody asked
        for an older one: only a newer model takes the place of that one.
        """
        found = {}
        for name, source in self._sources.items():
            try:
                folder = source.newest()
                version = version_of(read_manifest(folder))
            except (SdgarError, OSError) as error:
                self._refuse(name, Refusal(source.folder.name, str(error)))
                continue
            tried = self.refused.get(name)
            passed_over = self._passed_over.get(name) == _label(folder)
            if (
                version != self.current.by_name[name].snapshot.version
                and (tried is None or tried.model != _label(folder))
                and not passed_over
            ):
                found[name] = version
        return found

    def reload(self, variant: str = MAIN, model: str | None = None) -> Snapshot:
        """Switch a variant to its newest model, or to one by name; raise if it is refused."""
        if not self._lock.acquire(blocking=False):
            raise UsageError("another model is being loaded. Ask again soon.", code="reloading")
        try:
            folder, version = self.found(variant, model)
            old = self.current.by_name[variant].snapshot
            if version == old.version:
                self.refused.pop(variant, None)
                return old
            return self.switch(variant, self.stage(variant, folder))
        finally:
            self._lock.release()

    def found(self, variant: str, model: str | None = None) -> tuple[str, str]:
        """Return the name and the version of a variant's newest model, or of one by name."""
        if variant not in self._sources:
            raise UsageError(f"there is no variant {variant!r:.80}.", code="unknown_variant")
        source = self._sources[variant]
        folder = source.newest() if model is None else source.named(model)
        try:
            return folder.name, version_of(read_manifest(folder))
        except (SdgarError, OSError) as error:
            raise self.refuse(variant, folder.name, str(error)) from error

    def stage(self, variant: str, name: str) -> Staged:
        """Load a model and check it beside the one that answers; raise if it is refused."""
        folder = self._sources[variant].named(name)
        old = self.current.by_name[variant].snapshot
        try:
            new = self._load(folder)
            if self._canary:
                _compare(old, new)
        except (SdgarError, OSError, MemoryError) as error:
            raise self.refuse(variant, _label(folder), str(error)) from error
        return Staged(new.version, new)

    def switch(self, variant: str, staged: Staged) -> Snapshot:
        """Let a model answer that was staged; whoever began with the old one keeps it."""
        new, old = staged.snapshot, self.current.by_name[variant]
        self.refused.pop(variant, None)
        newest = self._sources[variant].newest()
        self._passed_over[variant] = _label(newest) if newest.name != new.name else ""
        self.current = Variants({**self.current.by_name, variant: replace(old, snapshot=new)})
        self.swaps += 1
        log.info("variant %s is answered by model %s %s", variant, new.name, new.version)
        return new

    def refuse(self, variant: str, model: str, reason: str) -> UsageError:
        """Remember that a model was refused, and return the error that says so."""
        self._refuse(variant, Refusal(model, reason))
        return UsageError(
            f"the model {model} is refused, and the old one goes on: {reason}",
            code="refused_model",
        )

    def _refuse(self, variant: str, refusal: Refusal) -> None:
        if self.refused.get(variant) != refusal:
            log.warning("model %s is refused: %s", refusal.model, refusal.reason)
        self.refused[variant] = refusal


def _label(folder: Path) -> str:
    """Name a model by its folder and its version, as far as that can be read."""
    try:
        return f"{folder.name} {version_of(read_manifest(folder))}"
    except (SdgarError, OSError):
        return folder.name


def _compare(old: Snapshot, new: Snapshot) -> None:
    """Raise if a model differs so much from the old one that somebody should look at it first."""
    for what, least, before, after in (
        ("users", LEAST_USERS, len(old.model.users), len(new.model.users)),
        ("items", LEAST_ITEMS, len(old.model.items), len(new.model.items)),
    ):
        if after < least * before:
            raise _differs(f"it has {after:,} {what} where the old one has {before:,}")
    before_lists = old.canary_lists()
    after_lists = new.lists_of(list(before_lists))
    firsts = [items[0] for items in new.canary_lists().values() if items]
    if len(firsts) >= 20 and len(new.model.items) > 20:
        most = max(firsts.count(item) for item in set(firsts)) / len(firsts)
        if most > MOST_CONCENTRATED:
            raise _differs(f"it puts one item first for {most:.0%} of some users")
    if len(after_lists) >= 20 and len(new.model.items) > 100:
        shared = [
            len(set(before_lists[user]) & set(items)) / max(1, len(items))
            for user, items in after_lists.items()
        ]
        overlap = sum(shared) / len(shared)
        if overlap < LEAST_OVERLAP:
            raise _differs(f"its lists share {overlap:.1%} of their items with the old ones")


def _differs(what: str) -> ArtifactError:
    return ArtifactError(
        f"{what}. If that is as it should be, start the server anew, or with --no-canary.",
        code="canary",
    )
