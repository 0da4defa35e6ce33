"""The served models, and how a new one replaces an old one without a dropped request.

A new model is loaded and verified while the old one answers. Then it answers some queries, and both
models' recommendations are compared. Only then it is activated, by one assignment: a running
request finishes on the models it started with. A refused model changes nothing, and the reason is
kept for ``/readyz``.

There may be several variants for A/B tests: every user belongs to one of several models, today and
tomorrow. A model is named by a folder within the folder that the server was started with; a request
can name no other file.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from sdgar.errors import ArtifactError, SdgarError, UsageError
from sdgar.recommend.artifact import read_manifest, version_of
from sdgar.serve.snapshot import Snapshot
from sdgar.storage.sealed import MANIFEST

log = logging.getLogger("sdgar.serve")

MAIN = "main"
"""The name of the first variant."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The folder names of models that a request can name."""
LEAST_USERS, LEAST_ITEMS = 0.5, 0.5
"""A model with fewer users or items than this share of the old model's is refused."""
LEAST_OVERLAP = 0.02
"""A model whose recommendations share less than this with the old model's is refused."""
MOST_CONCENTRATED = 0.9
"""A model that ranks one item first for more than this share of users is refused."""


@dataclass(frozen=True)
class Variant:
    """A model that answers a share of all users."""

    name: str
    """The name in the log of impressions."""
    snapshot: Snapshot
    """The model of the variant."""
    share: float = 1.0
    """The share of users, from 0 to 1."""


class Variants:
    """All variants at one moment; a swap makes new ones.

    The position of a user is a number from 0 to 1, computed from the user's id alone, so that it
    is the same on every server and after every swap.
    """

    def __init__(self, variants: Mapping[str, Variant]) -> None:
        self.by_name = dict(variants)
        self._only = next(iter(self.by_name.values())) if len(self.by_name) == 1 else None

    def of(self, user: str, name: str | None = None) -> Variant:
        """Return the variant of a user, or the variant with this name."""
        if name is not None:
            if name not in self.by_name:
                raise UsageError(
                    f"there is no variant {name!r:.80}; there are {', '.join(self.by_name)}.",
                    code="unknown_variant",
                )
            return self.by_name[name]
        if self._only is not None:
            return self._only
        at, end = position_of(user), 0.0
        for variant in self.by_name.values():
            end += variant.share
            if at < end:
                return variant
        return variant

    @property
    def first(self) -> Variant:
        """The first variant, which answers requests that concern no user."""
        return next(iter(self.by_name.values()))


def position_of(user: str) -> float:
    """Return the position of a user between 0 and 1."""
    digest = hashlib.sha256(f"sdgar variant {user}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class ModelSource:
    """The folder that the model of a variant is loaded from."""

    name: str
    """The name of the variant."""
    folder: Path
    """The folder of the model, or a folder of models of which the newest answers."""
    watched: bool = False
    """Whether ``folder`` holds models instead of being one."""
    share: float = 1.0
    """The share of users who get this variant."""

    def newest(self) -> Path:
        """Return the folder of the newest model."""
        return self.by_age()[0]

    def by_age(self) -> list[Path]:
        """Return the folders of all models, the newest first."""
        if not self.watched:
            return [self.folder]
        found = [path for path in self.folder.iterdir() if _can_be_named(path)]
        if not found:
            raise ArtifactError(
                f"{self.folder} holds no saved model yet. Train one with --out "
                f"{self.folder / 'NAME'}.",
                code="no_such_model",
            )
        found.sort(key=lambda path: ((path / MANIFEST).stat().st_mtime_ns, path.name))
        return found[::-1]

    def named(self, name: str) -> Path:
        """Return the folder of a model by its name, which cannot be a path."""
        if self.watched and NAME.fullmatch(name):
            for path in self.folder.iterdir():
                if path.name == name and _can_be_named(path):
                    return path
        elif name == self.folder.name:
            return self.folder
        raise UsageError(f"there is no model {name!r:.80} here.", code="unknown_model")


def is_model(path: Path) -> bool:
    """Return whether a folder is a complete model."""
    return path.is_dir() and (path / MANIFEST).is_file()


def _can_be_named(path: Path) -> bool:
    """Return whether a folder is a complete model with a name that a request can use."""
    plain = NAME.fullmatch(path.name) and not path.name.endswith(".partial")
    return bool(plain) and is_model(path)


class ServedModels:
    """The models that answer now, and the way to activate others."""

    def __init__(self, sources: Mapping[str, ModelSource], *, canary: bool = True) -> None:
        self._sources, self._canary = dict(sources), canary
        self._lock = Lock()
        self.refused: dict[str, tuple[str, str]] = {}
        """The model that was refused last for each variant, until another one is activated, as the
        name of its folder, with its version if that can be read; and the reason, as a sentence."""
        self._skipped: dict[str, str] = {}
        """The newest model of each variant at the time when an older one was requested by name."""
        self.swaps = 0
        """The number of activated models."""
        self.current = Variants(
            {
                name: Variant(name, self._load_first(source), source.share)
                for name, source in self._sources.items()
            }
        )
        """The models that answer now."""

    def _load_first(self, source: ModelSource) -> Snapshot:
        """Load the newest model that is not refused."""
        folders = source.by_age()
        for folder in folders:
            try:
                return Snapshot.of(folder)
            except (SdgarError, OSError) as error:
                if folder is folders[-1]:
                    raise
                if folder is folders[0]:
                    self.refuse(source.name, _label(folder), str(error))
        raise AssertionError("there is at least one folder")

    def outdated(self) -> dict[str, str]:
        """Return the versions of newer models that do not answer yet, by variant.

        Refused models are left out, and so is a model that was the newest when an older one was
        requested by name: only a still newer one replaces that.
        """
        found = {}
        for name, source in self._sources.items():
            try:
                folder = source.newest()
                version = version_of(read_manifest(folder))
            except (SdgarError, OSError) as error:
                self.refuse(name, source.folder.name, str(error))
                continue
            refused = self.refused.get(name)
            if (
                version != self.current.by_name[name].snapshot.version
                and (refused is None or refused[0] != _label(folder))
                and self._skipped.get(name) != _label(folder)
            ):
                found[name] = version
        return found

    def reload(self, variant: str = MAIN, model: str | None = None) -> Snapshot:
        """Change a variant to its newest model, or to one by name; raise if it is refused."""
        if not self._lock.acquire(blocking=False):
            raise UsageError("another model is being loaded. Try again soon.", code="reloading")
        try:
            folder, version = self.locate(variant, model)
            old = self.current.by_name[variant].snapshot
            if version == old.version:
                self.refused.pop(variant, None)
                return old
            return self.switch(variant, self.stage(variant, folder))
        finally:
            self._lock.release()

    def locate(self, variant: str, model: str | None = None) -> tuple[str, str]:
        """Return the name and version of a variant's newest model, or of one by name."""
        if variant not in self._sources:
            raise UsageError(f"there is no variant {variant!r:.80}.", code="unknown_variant")
        source = self._sources[variant]
        folder = source.newest() if model is None else source.named(model)
        try:
            return folder.name, version_of(read_manifest(folder))
        except (SdgarError, OSError) as error:
            raise self.refuse(variant, folder.name, str(error)) from error

    def stage(self, variant: str, name: str) -> Snapshot:
        """Load a model and compare it with the current one; raise if it is refused."""
        folder = self._sources[variant].named(name)
        old = self.current.by_name[variant].snapshot
        try:
            new = Snapshot.of(folder)
            if self._canary:
                _compare(old, new)
        except (SdgarError, OSError, MemoryError) as error:
            raise self.refuse(variant, _label(folder), str(error)) from error
        return new

    def switch(self, variant: str, new: Snapshot) -> Snapshot:
        """Activate a staged model; running requests finish on the old one."""
        old = self.current.by_name[variant]
        self.refused.pop(variant, None)
        newest = self._sources[variant].newest()
        self._skipped[variant] = _label(newest) if newest.name != new.name else ""
        self.current = Variants({**self.current.by_name, variant: replace(old, snapshot=new)})
        self.swaps += 1
        log.info("variant %s is answered by model %s %s", variant, new.name, new.version)
        return new

    def refuse(self, variant: str, model: str, reason: str) -> UsageError:
        """Record that a model was refused, and return the error for it."""
        if self.refused.get(variant) != (model, reason):
            log.warning("model %s is refused: %s", model, reason)
        self.refused[variant] = model, reason
        return UsageError(
            f"the model {model} is refused, and the old model keeps answering: {reason}",
            code="refused_model",
        )


def _label(folder: Path) -> str:
    """Return the name of a model's folder, and its version if that can be read."""
    try:
        return f"{folder.name} {version_of(read_manifest(folder))}"
    except (SdgarError, OSError):
        return folder.name


def _compare(old: Snapshot, new: Snapshot) -> None:
    """Raise if a model differs so much from the old one that a person should check it first."""
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
            raise _differs(f"it ranks one item first for {most:.0%} of some users")
    if len(after_lists) >= 20 and len(new.model.items) > 100:
        shared = [
            len(set(before_lists[user]) & set(items)) / max(1, len(items))
            for user, items in after_lists.items()
        ]
        overlap = sum(shared) / len(shared)
        if overlap < LEAST_OVERLAP:
            raise _differs(f"its recommendations share {overlap:.1%} of their items with the old")


def _differs(what: str) -> ArtifactError:
    return ArtifactError(
        f"{what}. If this is intended, restart the server, or start it with --no-canary.",
        code="canary",
    )
