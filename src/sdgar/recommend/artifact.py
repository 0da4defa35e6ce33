"""A saved model: a folder that is complete or absent, and verified before it is used.

    model.safetensors      vectors of users and items, weights from item to item, or a network
    ids.safetensors        user and item ids, as integers or as UTF-8 bytes with offsets
    history.safetensors    the training positives as CSR, so that seen items can be left out, and
                           seen items that are not positive, with a mark for neutral ones
    manifest.json          format version, kind of the model, sizes, SHA-256 of each file, how the
                           model was made, how it folds in new users, and the seal of all that

``folders`` writes it in one visible step and verifies what it reads; loading then checks names,
types, shapes, finiteness and ids before anything is used. Nothing here can run code: there is
no pickle and no fallback.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.contexts import require_fields
from sdgar.data.history import History
from sdgar.data.ids import Ids, id_arrays, read_ids
from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.models.fold_in import read_rule
from sdgar.models.model import Model
from sdgar.models.saved import Saved, Wanted, check_csr, expect, model_class
from sdgar.storage import arrays, folders, remote, sealed
from sdgar.storage.sealed import MANIFEST, DamagedError, Tensors

FORMAT = "sdgar-model"
FORMAT_VERSION = 1
MODEL, IDS, HISTORY = "model.safetensors", "ids.safetensors", "history.safetensors"
FILES = (MODEL, IDS, HISTORY)
"""The files of tensors of a saved model."""
RULE = "fold_in"
"""The entry of a manifest on how new users are folded in."""
_RULE = "fold_in:"
"""The beginning of the names of a rule's arrays in the file of the model."""
_SEEN_ROWS, _SEEN, _NEUTRAL = "seen_indptr_U1", "seen_items_E", "seen_neutral_E"
_COLD = "cold_items_N"
_COPIES = 4
"""How many copies of its files a model takes in RAM at most: as bytes, as arrays, and as tables."""
_ATTACHED = ("log.jsonl", "training.png")
"""The files that commands add to the folder of a model."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A model with its ids and histories; it needs no data set."""

    model: Model
    """The model that scores."""
    users: Ids
    """The ids of users or contexts."""
    items: Ids
    """The ids of items."""
    history: History
    """The training items of each context."""
    about: dict[str, Any] = field(default_factory=dict)
    """How the model was made: system, hyper-parameters, engine, seed, data, metrics."""
    seen: History | None = None
    """The items that users have seen and that are not positive; they are not recommended."""
    seen_neutral_E: NDArray[np.bool_] | None = None
    """Whether each pair of ``seen`` is neutral, as a middle rating is; None if all are disliked."""
    cold: NDArray[np.bool_] | None = None
    """Whether each item is cold, known by its features alone; None if no item is."""
    version: str = ""
    """The name of exactly this model, if it was loaded; it depends on all of its files."""

    @property
    def neutral(self) -> History | None:
        """The neutral pairs of ``seen``; None if there are none."""
        if self.seen is None or self.seen_neutral_E is None:
            return None
        return self.seen.where(self.seen_neutral_E)


def save(
    artifact: Artifact,
    path: str | Path,
    *,
    overwrite: bool = False,
    attachments: Mapping[str, bytes] | None = None,
) -> Path:
    """Write the folder in one visible step, and replace an existing model only on request.

    A link is followed, and its target is replaced.
    """
    target = require_free(path, overwrite=overwrite)
    for name in attachments or {}:
        if Path(name).name != name or name in (MANIFEST, *FILES):
            raise UsageError(
                f"an attachment cannot be called {name!r}: use the name of a file that is none of "
                f"{', '.join(FILES)} and {MANIFEST}.",
                code="bad_attachment",
            )
    model, rule = artifact.model, artifact.model.rule
    of_rule = {} if rule is None else rule.tensors(artifact.history)
    tensors = {
        MODEL: model.to_saved() | {_RULE + name: array for name, array in of_rule.items()},
        IDS: id_arrays(artifact.users.values, "users") | id_arrays(artifact.items.values, "items"),
        HISTORY: _history_tensors(artifact),
    }
    about = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": model.kind,
        "sizes": model.sizes()
        | {
            "users": len(artifact.users),
            "items": len(artifact.items),
            "interactions": len(artifact.history.items_E),
        },
        "ids": {"users": artifact.users.kind, "items": artifact.items.kind},
        "attachments": sorted(attachments or {}),
        RULE: None if rule is None else rule.record(),
        "about": artifact.about | model.facts(),
    }
    try:
        with folders.whole(target, replace=True) as temporary:
            for name, data in (attachments or {}).items():
                folders.write(temporary / name, data)
            files = {n: arrays.write_tensors(temporary / n, own) for n, own in tensors.items()}
            manifest = sealed.with_seal({**about, "files": files})
            text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False)
            folders.write(temporary / MANIFEST, text.encode())
    except OSError as error:
        needed = sum(map(arrays.size_of, tensors.values()))
        raise ResourceError(
            f"could not save the model to {target}: {error.strerror or error} "
            f"({needed:,} bytes are needed). Nothing was changed there.",
            code="save_failed",
        ) from error
    return target


def require_free(path: str | Path, *, overwrite: bool) -> Path:
    """Return the folder to write; raise if it is taken, before any work is spent on it.

    Only a folder in which everything was written by ``save`` is ever replaced.
    """
    return folders.require_free(path, overwrite=overwrite, own=_own_names, what="a saved model")


def _own_names(folder: Path) -> set[str]:
    """Return the names of files that ``save`` wrote; none if the manifest is not of a model."""
    try:
        manifest = sealed.read_table(folder / MANIFEST)
    except ArtifactError:
        return set()
    if manifest.get("format") != FORMAT:
        return set()
    attached = manifest.get("attachments")
    attached = attached if isinstance(attached, list) else []
    return {MANIFEST, *FILES, *_ATTACHED, *map(str, attached)}


def load(path: str | Path, *, mapped: bool = False, ram: int | None = None) -> Artifact:
    """Read and verify a saved model; its arrays may be mapped from the files instead of read.

    They are mapped, too, if they and their copies may take more than ``ram`` bytes.
    """
    folder = remote.fetched_folder(path)
    manifest = read_manifest(folder)
    if ram is not None:
        size = sum(manifest["files"][name].get("bytes", 0) for name in FILES)
        mapped = mapped or _COPIES * size > ram
    read = arrays.map_sealed if mapped else sealed.read_tensors
    tensors = {name: read(folder / name, manifest["files"]) for name in FILES}
    sizes = manifest["sizes"]
    n_users, n_items, n_rows = (sizes[name] for name in ("users", "items", "interactions"))
    history = tensors[HISTORY]
    seen, neutral_E = _take_seen(folder / HISTORY, history, n_users, n_items)
    cold = _take_cold(folder / HISTORY, history, n_items)
    expect(
        folder / HISTORY,
        history,
        {"indptr_U1": (np.int64, (n_users + 1,)), "items_E": (np.int32, (n_rows,))},
    )
    own = History(history["indptr_U1"], history["items_E"])
    check_csr(folder / HISTORY, "indptr_U1", own.indptr_U1, own.items_E, n_items)
    users, items = (
        read_ids(folder / IDS, tensors[IDS], side, manifest["ids"][side], sizes[side])
        for side in ("users", "items")
    )
    about, of_model = manifest["about"], tensors[MODEL]
    of_rule = {
        n.removeprefix(_RULE): of_model.pop(n) for n in list(of_model) if n.startswith(_RULE)
    }
    kind = model_class(manifest["model"])
    assert kind is not None
    try:
        model = kind.from_saved(Saved(folder / MODEL, sizes, of_model, own, about))
    except RecursionError as error:
        raise DamagedError(folder / MODEL, "it is a sum of too many sums") from error
    rule = read_rule(folder / MODEL, manifest.get(RULE), of_rule, own, n_items)
    return Artifact(
        model.ruled_by(rule), users, items, own, about, seen, neutral_E, cold, version_of(manifest)
    )


def _history_tensors(artifact: Artifact) -> Tensors:
    own = artifact.history
    tensors: Tensors = {"indptr_U1": own.indptr_U1, "items_E": own.items_E}
    if artifact.seen is not None:
        tensors |= {_SEEN_ROWS: artifact.seen.indptr_U1, _SEEN: artifact.seen.items_E}
        if artifact.seen_neutral_E is not None:
            tensors[_NEUTRAL] = artifact.seen_neutral_E
    if artifact.cold is not None:
        tensors[_COLD] = np.flatnonzero(artifact.cold)
    return tensors


def _take_seen(
    path: Path, tensors: Tensors, n_users: int, n_items: int
) -> tuple[History | None, NDArray[np.bool_] | None]:
    """Remove and return the seen items that are not positive, and which of them are neutral."""
    found = {n: tensors.pop(n) for n in (_SEEN_ROWS, _SEEN, _NEUTRAL) if n in tensors}
    if not found:
        return None, None
    n_seen = len(found.get(_SEEN, ()))
    marks: Wanted = {_NEUTRAL: (np.bool_, (n_seen,))} if _NEUTRAL in found else {}
    rows, items = (np.int64, (n_users + 1,)), (np.int32, (n_seen,))
    expect(path, found, {_SEEN_ROWS: rows, _SEEN: items, **marks})
    check_csr(path, _SEEN_ROWS, found[_SEEN_ROWS], found[_SEEN], n_items)
    return History(found[_SEEN_ROWS], found[_SEEN]), found.get(_NEUTRAL)


def _take_cold(path: Path, tensors: Tensors, n_items: int) -> NDArray[np.bool_] | None:
    """Remove and return which items are known by their features alone; None if no item is."""
    found = tensors.pop(_COLD, None)
    if found is None:
        return None
    expect(path, {_COLD: found}, {_COLD: (np.int64, (found.size,))})
    if len(found) and not 0 <= found.min() <= found.max() < n_items:
        raise DamagedError(path, f"{_COLD} holds an item that lies outside the catalogue")
    cold_I = np.zeros(n_items, bool)
    cold_I[found] = True
    return cold_I


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a saved model; its other files are not read."""
    path = folder / MANIFEST
    try:
        is_folder, is_there = folder.is_dir(), path.is_symlink() or path.exists()
    except OSError as error:
        raise ResourceError(
            f"cannot read {folder}: {error.strerror}.", code="unreadable"
        ) from error
    if not is_folder:
        raise ArtifactError(
            f"{folder} is not a saved model: a model is a folder with {MANIFEST}. "
            "Pickled models (.pkl, .pt) are never loaded.",
            code="no_such_model",
        )
    if not is_there:
        raise ArtifactError(
            f"{folder} holds no {MANIFEST}, so it is not a finished model. Train it again, or "
            "pass the folder of `sdgar train --out`.",
            code="not_a_model",
        )
    manifest = sealed.read_table(path)
    if manifest.get("format") != FORMAT:
        raise ArtifactError(f"{path} does not describe an sdgar model.", code="not_sdgar")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        newer = isinstance(version, int) and version > FORMAT_VERSION
        cure = "Upgrade sdgar." if newer else "Train the model again with this version."
        raise ArtifactError(
            f"{folder} has format version {version!r}, this sdgar reads {FORMAT_VERSION}. {cure}",
            code="format_version",
        )
    sealed.check_seal(path, manifest)
    kind = model_class(manifest.get("model"))
    if kind is None:
        raise DamagedError(path, f"no model is of the kind {manifest.get('model')!r:.60}")
    shape: dict[str, dict[str, type]] = {
        "sizes": dict.fromkeys(("users", "items", "interactions", *kind.size_names), int),
        "ids": {"users": str, "items": str},
        "files": dict.fromkeys(FILES, dict),
        "about": {},
    }
    for name, entries in shape.items():
        table = manifest.get(name)
        if not isinstance(table, dict):
            raise DamagedError(path, f"it has no table {name!r}")
        for key, of_type in entries.items():
            if not isinstance(table.get(key), of_type) or isinstance(table[key], bool):
                raise DamagedError(
                    path, f"{name}.{key} is missing or not of type {of_type.__name__}"
                )
    if any(not isinstance(size, int) or size < 0 for size in manifest["sizes"].values()):
        raise DamagedError(path, "a size is not a number of at least 0")
    context = manifest["about"].get("context", ["user"])
    if not isinstance(context, list) or not all(isinstance(name, str) for name in context):
        raise DamagedError(path, f"about.context is {context!r}, not a list of names")
    try:
        require_fields(context)
    except UsageError as error:
        raise DamagedError(path, f"about.context is wrong: {error}".rstrip(".")) from error
    return manifest


def version_of(manifest: dict[str, Any]) -> str:
    """Return the beginning of the seal of a model, which depends on all of its files."""
    return str(manifest[sealed.SEAL])[:12]
