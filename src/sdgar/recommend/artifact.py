"""A saved model: a folder that is complete or absent, and verified before it is used.

    model.safetensors      vectors of users and items, or weights from item to item
    ids.safetensors        user and item ids, as integers or as UTF-8 bytes with offsets
    history.safetensors    the training positives as CSR, so that seen items can be left out, and
                           what users know and do not like, if there is such a thing
    manifest.json          format version, what the model is, sizes, SHA-256 of each file, how the
                           model was made, and the seal of all that

``folders`` writes it in one visible step and verifies what it reads; loading then checks names,
types, shapes, finiteness and ids before anything is used. Nothing here can run code: there is
no pickle and no fallback.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar import model_file
from sdgar.contracts import Factors, Model
from sdgar.data.contexts import require_fields
from sdgar.data.ids import Ids
from sdgar.data.interactions import History
from sdgar.errors import ArtifactError, DataError, ResourceError, UsageError
from sdgar.modules import Network
from sdgar.storage import folders
from sdgar.storage.folders import MANIFEST, DamagedError, Tensors

FORMAT = "sdgar-model"
FORMAT_VERSION = 1
_MODEL, _IDS, _HISTORY = "model.safetensors", "ids.safetensors", "history.safetensors"
_FILES = (_MODEL, _IDS, _HISTORY)
_SEEN_ROWS, _SEEN = "seen_indptr_U1", "seen_items_E"
_ATTACHED = ("log.jsonl", "training.png")
"""What commands put beside a model, which manifests did not always name."""
_UNSEALED = ("format", "format_version", "model", "sizes", "ids", "files", "about")
"""What a manifest could hold before there were seals."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A model with its ids and histories; it needs no data set."""

    model: Model
    users: Ids
    items: Ids
    history: History
    about: dict[str, Any] = field(default_factory=dict)
    """How the model was made: system, hyper-parameters, engine, seed, data, metrics."""
    seen: History | None = None
    """What users know beside their history and do not like, which is not recommended either."""


def save(
    artifact: Artifact,
    path: str | Path,
    *,
    overwrite: bool = False,
    attachments: Mapping[str, bytes] | None = None,
) -> Path:
    """Write the folder in one visible step; an existing model is replaced only on request.

    A link is followed, and what it leads to is replaced.
    """
    target = require_free(path, overwrite=overwrite)
    _require_names(attachments or {})
    kind, sizes, tensors = model_file.to_tensors(artifact.model)
    contents = {
        _MODEL: folders.tensor_bytes(tensors),
        _IDS: folders.tensor_bytes(_id_tensors(artifact)),
        _HISTORY: folders.tensor_bytes(_history_tensors(artifact)),
    }
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": kind,
        "sizes": sizes
        | {
            "users": len(artifact.users),
            "items": len(artifact.items),
            "interactions": len(artifact.history.items_E),
        },
        "ids": {"users": artifact.users.kind, "items": artifact.items.kind},
        "files": folders.seals(contents),
        "attachments": sorted(attachments or {}),
        "about": artifact.about | _module(artifact.model),
    }
    text = json.dumps(folders.sealed(manifest), indent=2, sort_keys=True, allow_nan=False)
    try:
        with folders.whole(target, replace=True) as temporary:
            for name, data in {**(attachments or {}), **contents}.items():
                folders.write(temporary / name, data)
            folders.write(temporary / MANIFEST, text.encode())
    except OSError as error:
        needed = sum(len(data) for data in contents.values())
        raise ResourceError(
            f"could not save the model to {target}: {error.strerror or error} "
            f"({needed:,} bytes are needed). Nothing was changed there.",
            code="save_failed",
        ) from error
    return target


def _module(model: Model) -> dict[str, Any]:
    """Which network it is, where it is one or has one."""
    network = model.encoder if isinstance(model, Factors) else model
    if not isinstance(network, Network):
        return {}
    said = {"name": network.name, "settings": dict(network.settings), "users": network.n_users}
    return {"module": said}


def _require_names(attachments: Mapping[str, bytes]) -> None:
    for name in attachments:
        if Path(name).name != name or name in (MANIFEST, *_FILES):
            raise UsageError(
                f"an attachment cannot be called {name!r}: give the name of a file that goes "
                f"beside {', '.join(_FILES)} and {MANIFEST}.",
                code="bad_attachment",
            )


def require_free(path: str | Path, *, overwrite: bool) -> Path:
    """Refuse a place that is taken, before any work is spent on it, and say where it is.

    Only a folder in which everything was written by ``save`` is ever replaced.
    """
    target = folders.place_of(path)
    if not target.exists():
        return target
    if not target.is_dir():
        raise UsageError(
            f"{target} exists and is not a folder. Choose another --out.", code="out_exists"
        )
    found = sorted(entry.name for entry in target.iterdir())
    if found and not overwrite:
        raise UsageError(
            f"{target} exists and is not empty. Choose another place, or replace it with "
            "--overwrite (overwrite=True in Python).",
            code="out_exists",
        )
    if foreign := [name for name in found if name not in _own_names(target)]:
        raise folders.in_the_way(target, foreign, "is not part of a saved model of sdgar")
    return target


def _own_names(folder: Path) -> set[str]:
    """What ``save`` put into a folder; nothing, where the manifest is not one of ours."""
    try:
        manifest = folders.read_table(folder / MANIFEST)
    except ArtifactError:
        return set()
    match manifest:
        case {"format": f, "attachments": list(attached)} if f == FORMAT:
            return {MANIFEST, *_FILES, *_ATTACHED, *map(str, attached)}
        case {"format": f} if f == FORMAT:
            return {MANIFEST, *_FILES, *_ATTACHED}
    return set()


def load(path: str | Path) -> Artifact:
    """Read and verify a saved model."""
    folder = Path(path)
    manifest = read_manifest(folder)
    tensors = {name: folders.read_tensors(folder / name, manifest["files"]) for name in _FILES}
    sizes = manifest["sizes"]
    n_users, n_items, n_rows = (sizes[name] for name in ("users", "items", "interactions"))
    history = tensors[_HISTORY]
    seen = _take_seen(folder / _HISTORY, history, n_users, n_items)
    model_file.expect(
        folder / _HISTORY,
        history,
        {"indptr_U1": (np.int64, (n_users + 1,)), "items_E": (np.int32, (n_rows,))},
    )
    indptr_U1, items_E = history["indptr_U1"], history["items_E"]
    model_file.check_csr(folder / _HISTORY, "indptr_U1", indptr_U1, items_E, n_items)
    users, items = (
        _read_ids(folder / _IDS, tensors[_IDS], side, manifest["ids"][side], sizes[side])
        for side in ("users", "items")
    )
    model = model_file.from_tensors(
        folder / _MODEL, manifest["model"], sizes, tensors[_MODEL], history, manifest["about"]
    )
    own = History(indptr_U1, items_E)
    return Artifact(model, users, items, own, manifest["about"], seen)


def _history_tensors(artifact: Artifact) -> Tensors:
    own = artifact.history
    tensors: Tensors = {"indptr_U1": own.indptr_U1, "items_E": own.items_E}
    if artifact.seen is not None:
        tensors |= {_SEEN_ROWS: artifact.seen.indptr_U1, _SEEN: artifact.seen.items_E}
    return tensors


def _take_seen(path: Path, tensors: Tensors, n_users: int, n_items: int) -> History | None:
    """What users know and do not like; models from before there was such a thing have none."""
    found = {name: tensors.pop(name) for name in (_SEEN_ROWS, _SEEN) if name in tensors}
    if not found:
        return None
    n_seen = len(found.get(_SEEN, ()))
    rows, items = (np.int64, (n_users + 1,)), (np.int32, (n_seen,))
    model_file.expect(path, found, {_SEEN_ROWS: rows, _SEEN: items})
    model_file.check_csr(path, _SEEN_ROWS, found[_SEEN_ROWS], found[_SEEN], n_items)
    return History(found[_SEEN_ROWS], found[_SEEN])


def _id_tensors(artifact: Artifact) -> Tensors:
    tensors: Tensors = {}
    for side, ids in (("users", artifact.users), ("items", artifact.items)):
        if ids.kind != "text":
            tensors[side] = ids.values
            continue
        encoded = [value.encode() for value in ids.values]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        tensors[f"{side}.offsets"] = ends
        tensors[f"{side}.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
    return tensors


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a saved model says of itself; its files are not looked at."""
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
            "point to the folder that `sdgar train --out` named.",
            code="not_a_model",
        )
    manifest = folders.read_table(path)
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
    folders.require_sealed(path, manifest, _UNSEALED)
    # Models that were saved before there were others say nothing: they have factors.
    own = model_file.SIZES.get(str(manifest.setdefault("model", model_file.FACTORS)))
    if own is None:
        raise DamagedError(path, f"no model is of the kind {manifest['model']!r}")
    shape: dict[str, dict[str, type]] = {
        "sizes": dict.fromkeys(("users", "items", "interactions", *own), int),
        "ids": {"users": str, "items": str},
        "files": dict.fromkeys(_FILES, dict),
        "about": {},
    }
    for name, entries in shape.items():
        table = manifest.get(name)
        if not isinstance(table, dict):
            raise DamagedError(path, f"it has no table {name!r}")
        for key, kind in entries.items():
            if not isinstance(table.get(key), kind) or isinstance(table[key], bool):
                raise DamagedError(path, f"{name}.{key} is missing or not of type {kind.__name__}")
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


def _read_ids(path: Path, tensors: Tensors, side: str, kind: str, n: int) -> Ids:
    if kind == "text":
        names = (f"{side}.offsets", f"{side}.bytes")
        if any(name not in tensors for name in names):
            raise DamagedError(path, f"the text ids of {side} are missing")
        offsets, blob = (tensors[name] for name in names)
        _check_offsets(path, side, offsets, blob, n)
        raw = blob.tobytes()
        try:
            words = [raw[a:b].decode() for a, b in itertools.pairwise(offsets)]
        except UnicodeDecodeError as error:
            raise DamagedError(path, f"an id of {side} is not UTF-8") from error
        ids = Ids(np.array([*words, None], dtype=object)[:-1])
    elif kind in ("int64", "uint64"):
        if side not in tensors or tensors[side].dtype != kind or tensors[side].shape != (n,):
            raise DamagedError(path, f"the ids of {side} are not {n} numbers of type {kind}")
        try:
            ids = Ids(tensors[side])
        except DataError as error:
            raise DamagedError(path, f"{side}: {error}".rstrip(".")) from error
    else:
        raise DamagedError(path, f"ids of kind {kind!r} are unknown")
    if len(set(ids.values.tolist())) != n:
        raise DamagedError(path, f"an id of {side} occurs twice")
    return ids


def _check_offsets(
    path: Path, side: str, offsets: NDArray[Any], blob: NDArray[Any], n: int
) -> None:
    right = offsets.dtype == np.int64 and offsets.shape == (n + 1,) and blob.dtype == np.uint8
    if not right or offsets[0] != 0 or offsets[-1] != len(blob) or (np.diff(offsets) < 0).any():
        raise DamagedError(path, f"the offsets of the {side} ids do not fit their bytes")
