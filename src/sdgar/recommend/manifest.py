"""The manifest of a saved model: what it says of itself, and what must hold of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdgar.data.contexts import require_fields
from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.models.saved import model_class
from sdgar.storage import sealed
from sdgar.storage.sealed import MANIFEST, DamagedError

FORMAT = "sdgar-model"
FORMAT_VERSION = 1
MODEL, IDS, HISTORY = "model.safetensors", "ids.safetensors", "history.safetensors"
FILES = (MODEL, IDS, HISTORY)
"""The files of tensors of a saved model."""
RULE = "fold_in"
"""The entry of a manifest that says how new users are folded in; earlier models lack it."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check what a saved model says of itself; its other files are not looked at."""
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
    """Return the beginning of the seal of a saved model, which depends on all of its files."""
    return str(manifest[sealed.SEAL])[:12]
