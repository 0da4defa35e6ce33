"""Write a model for other programs, as a folder that is complete or absent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar._version import __version__
from sdgar.arguments import a_path, of_kind, one_of
from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.exports.contents import Contents, Files
from sdgar.exports.linear import Linear
from sdgar.exports.to_faiss import write_faiss
from sdgar.exports.to_numpy import write_numpy
from sdgar.exports.to_onnx import write_onnx
from sdgar.exports.to_parquet import write_parquet
from sdgar.exports.to_pgvector import write_pgvector
from sdgar.recommend.recommender import Recommender
from sdgar.show.printed import Described
from sdgar.storage import folders, sealed

if TYPE_CHECKING:
    from sdgar.systems.base import Estimator

ABOUT = "about.json"
"""The file of an export that says what it is and what its other files hold."""
FORMAT = "sdgar-export"
"""The name by which an export is known, so that nothing else is ever replaced."""
WRITERS: dict[str, Callable[[Contents, Path], Files]] = {
    "parquet": write_parquet,
    "numpy": write_numpy,
    "faiss": write_faiss,
    "onnx": write_onnx,
    "pgvector": write_pgvector,
}
"""The formats by name, each with the function that writes its files."""
_WITH_VECTORS = ("faiss", "pgvector")
"""The formats that hold vectors, and cannot be without any."""
_OF_TRAINING = (
    "New users: the vectors are those of the users of the training; fold others in with sdgar."
)


@dataclass(frozen=True, slots=True, repr=False)
class Exported(Described):
    """An export that was written."""

    path: Path
    """The folder that was written."""
    to: str
    """The name of the format."""
    score: str
    """The formula of a score, for items that the user does not have."""
    files: Files
    """What each file holds, by its name."""
    left_out: tuple[str, ...]
    """Sentences on what the model can do and the export cannot."""

    def _lines(self) -> list[str]:
        return [f"Export to {self.to}: {self.path}", self.score, ", ".join(self.files)]


def export(
    model: Recommender | Estimator,
    to: str,
    path: str | Path,
    *,
    vectors_only: bool = False,
    overwrite: bool = False,
) -> Exported:
    """Write a model as a folder for other programs: parquet, numpy, faiss, onnx or pgvector.

    A score is an inner product of vectors and a bias, and a memory adds weights between items. An
    index of faiss has room for vectors alone, so that a model with a memory is refused there unless
    ``vectors_only`` leaves the memory out: lists are then those of the vectors. The file about.json
    says what the others hold, and docs/exports.md how to read them.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> made = sdgar.export(sdgar.IALS(dim=2).fit(data), "numpy", "ials-numpy")
    >>> sorted(made.files)[:3]
    ['item_biases.npy', 'item_vectors.npy', 'items.npy']
    """
    one_of("to", to, tuple(WRITERS))
    saved: Any = getattr(model, "recommender_", model)
    of_kind("model", saved, Recommender, "Load a saved model with sdgar.load(path).")
    target = require_free(a_path("path", path), overwrite=overwrite)
    whole = Linear.of(saved.model, len(saved.users))
    linear = _fitting(whole, saved, to, vectors_only=vectors_only)
    contents = Contents(linear, saved.users, saved.items, saved.history, saved.known)
    score = _score(linear)
    try:
        with folders.whole(target, replace=True) as temporary:
            files = WRITERS[to](contents, temporary)
            left_out = _left_out(linear, whole, saved)
            told = {
                "format": FORMAT,
                "to": to,
                "created_by": f"sdgar {__version__}",
                "system": saved.about.get("system"),
                "model_version": saved.version or None,
                "users": len(saved.users),
                "items": len(saved.items),
                "score": score,
                "files": files,
                "left_out": list(left_out),
            }
            folders.write(temporary / ABOUT, json.dumps(told, indent=2).encode())
            for name in files:
                _flush(temporary / name)
    except OSError as error:
        raise ResourceError(
            f"could not write the export to {target}: {error.strerror or error}. Nothing was "
            "changed there.",
            code="save_failed",
        ) from error
    return Exported(target, to, score, files, left_out)


def require_free(path: Path, *, overwrite: bool) -> Path:
    """Refuse a place that is taken, and return where it is; only exports are ever replaced."""
    return folders.require_free(path, overwrite=overwrite, own=_own_names, what="an export")


def _own_names(folder: Path) -> set[str]:
    try:
        about = sealed.read_table(folder / ABOUT)
    except ArtifactError:
        return set()
    match about:
        case {"format": str(known), "files": dict(files)} if known == FORMAT:
            return {ABOUT, *files}
    return set()


def _fitting(linear: Linear, saved: Recommender, to: str, *, vectors_only: bool) -> Linear:
    """Return what a format can hold of a model; raise if lists would silently become others."""
    system = saved.about.get("system")
    if not linear.has_vectors and (vectors_only or to in _WITH_VECTORS):
        raise UsageError(
            f"a model of system {system} has weights from item to item and no vectors, which "
            f"{'--vectors-only asks for' if vectors_only else f'an export to {to} needs'}. Export "
            "it to parquet, numpy or onnx.",
            code="no_vectors",
        )
    if vectors_only:
        return linear.without_weights()
    if linear.weight_II is not None and to == "faiss":
        raise UsageError(
            "this model adds a memory to its vectors, weights between items that an index of faiss "
            "cannot hold. Leave the memory out with --vectors-only (vectors_only=True in Python), "
            "which gives the lists of the vectors alone; or export to parquet, numpy, onnx or "
            "pgvector, which hold both.",
            code="memory_lost",
        )
    return linear


def _score(linear: Linear) -> str:
    """Return the formula of the scores."""
    terms = ["u_c · v_i + b_i"] if linear.has_vectors else []
    terms += ["Σ_{j ∈ I_c} w_ji"] if linear.weight_II is not None else []
    only = "; an item with Σ = 0 is not recommended" if linear.only_supported else ""
    return f"s_ci = {' + '.join(terms)}{only}"


def _left_out(linear: Linear, whole: Linear, saved: Recommender) -> tuple[str, ...]:
    """Return sentences on what the model can do and its export cannot."""
    said = list(linear.lost)
    if linear.weight_II is None and whole.weight_II is not None:
        said.append("Memory: the weights between items are left out, so that lists differ.")
    if linear.has_vectors and saved.abilities["fold_in"]:
        said.append(_OF_TRAINING)
    return tuple(said)


def _flush(path: Path) -> None:
    """Wait until the disk has a file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
