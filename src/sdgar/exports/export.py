"""Exports: a model for other programs, as a folder that is complete or absent.

An export is a function that writes files into a folder. Built-in ones are in ``WRITERS``; an entry
point of the group ``sdgar.exports`` adds another one under its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sdgar._version import __version__
from sdgar.arguments import a_path, of_kind, one_of
from sdgar.data.history import History
from sdgar.data.ids import Ids
from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.maths.rows import Rows
from sdgar.models.model import WeightTerm
from sdgar.recommend.recommender import Recommender
from sdgar.show.printed import Described
from sdgar.storage import folders, sealed

if TYPE_CHECKING:
    from sdgar.systems.base import Estimator

Vectors = NDArray[np.float32]
"""An array of vectors or of biases."""
Files = dict[str, str]
"""The content of each file of an export, by its name."""
ABOUT = "about.json"
"""The file of an export that describes it and its other files."""
FORMAT = "sdgar-export"
"""The mark of an export, so that nothing else is ever replaced."""
GROUP = "sdgar.exports"
"""The group of entry points that name further writers."""


@dataclass(frozen=True, slots=True)
class Contents:
    """s_ci = u_c · v_i + b_i + Σ_{j ∈ I_c} w_ji for the items i that a context c does not have.

    This is a model in the form that other programs can compute with.
    """

    users: Ids
    """The ids of contexts, by index."""
    items: Ids
    """The ids of items, by index."""
    history: History
    """The positive items I of each context."""
    known: History
    """All items that lists leave out: positive ones, and seen ones that are not positive."""
    user_UD: Vectors
    """The vectors u of contexts."""
    item_ID: Vectors
    """The vectors v of items."""
    bias_I: Vectors
    """The biases b of items."""
    weight_II: Any
    """The weights w as a sparse matrix of SciPy, row j for item j of the history; None without any.
    They are multiplied by their weight in a sum of models."""
    has_vectors: bool
    """Whether two contexts with the same history can have different scores."""
    only_supported: bool
    """Whether an item is left out of lists if no item of the history has a weight for it."""
    lost: tuple[str, ...]
    """Sentences on abilities of the model that these numbers lack."""

    @classmethod
    def of(cls, saved: Recommender) -> Contents:
        """Return the terms of a model as one of each kind; raise if its scores have none."""
        terms, n_users, n_items = saved.model.terms(), len(saved.users), saved.model.n_items
        if terms is None:
            raise UsageError(
                f"a model that has {saved.model.holds} cannot be exported: its scores are no inner "
                "products of vectors and no sums of weights between items. Serve it with sdgar "
                "serve, or write its lists with sdgar recommend RUN --all -o lists.parquet.",
                code="cannot_export",
            )
        weights = [_matrix(term, n_items) for term in terms.weights]
        scales = [np.float32(term.weight) for term in terms.vectors]
        pairs = list(zip(scales, terms.vectors, strict=True))
        no_users, no_items = (np.zeros((n, 0), np.float32) for n in (n_users, n_items))
        biases = [scale * term.bias_I for scale, term in pairs]
        return cls(
            saved.users,
            saved.items,
            saved.history,
            saved.known,
            user_UD=np.hstack((no_users, *(scale * term.users() for scale, term in pairs))),
            item_ID=np.hstack((no_items, *(term.item_ID for term in terms.vectors))),
            bias_I=sum(biases, np.zeros(n_items, np.float32)),
            weight_II=sum(weights[1:], weights[0]) if weights else None,
            has_vectors=bool(terms.vectors),
            only_supported=terms.only_supported,
            lost=terms.missing,
        )

    def with_biases(self) -> tuple[Vectors, Vectors]:
        """Return u and v with one more number each, 1 and b: s_ci = (u_c, 1) · (v_i, b_i)."""
        one_U1 = np.ones((len(self.user_UD), 1), np.float32)
        return np.hstack((self.user_UD, one_U1)), np.hstack((self.item_ID, self.bias_I[:, None]))

    def score(self) -> str:
        """Return the formula of the scores."""
        terms = ["u_c · v_i + b_i"] if self.has_vectors else []
        terms += ["Σ_{j ∈ I_c} w_ji"] if self.weight_II is not None else []
        only = "; an item with Σ = 0 is not recommended" if self.only_supported else ""
        return f"s_ci = {' + '.join(terms)}{only}"


def _matrix(term: WeightTerm, n_items: int) -> Any:
    """Return W of one term, times its weight, without its zeros."""
    from scipy.sparse import csr_array

    w = term.weight_II
    if isinstance(w, Rows):
        arrays = w.weights(), w.column_E.astype(np.int64), w.start_R1
        found = csr_array(arrays, shape=(n_items, n_items))
    else:
        found = csr_array(w)
    return found * np.float32(term.weight) if term.weight != 1 else found


Writer = Callable[[Contents, Path], Files]
"""A function that writes the files of an export into a folder, and returns their contents."""
WRITERS: dict[str, str | Writer] = {
    "parquet": "sdgar.exports.to_parquet:write_parquet",
    "numpy": "sdgar.exports.to_numpy:write_numpy",
    "faiss": "sdgar.exports.to_faiss:write_faiss",
    "onnx": "sdgar.exports.to_onnx:write_onnx",
}
"""The formats by name: a writer, or the ``module:function`` of one, which is imported when used."""


def writer_of(to: str) -> Writer:
    """Return the writer of a format, which may be an entry point of another package."""
    others = {point.name: point for point in entry_points(group=GROUP)}
    one_of("to", to, tuple(WRITERS | others))
    writer: Any = WRITERS[to] if to in WRITERS else others[to].load()
    if isinstance(writer, str):
        module, _, name = writer.partition(":")
        writer = getattr(import_module(module), name)
    return writer  # type: ignore[no-any-return]


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
    """The content of each file, by its name."""
    left_out: tuple[str, ...]
    """Sentences on abilities of the model that the export lacks."""

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
    """Write a model as a folder for other programs: parquet, numpy, faiss or onnx.

    A score is an inner product of vectors and a bias, and an item memory adds weights between
    items. An index of faiss holds vectors alone: a model with an item memory is refused there
    unless ``vectors_only`` leaves it out, which changes the lists. The file about.json describes
    the others, and docs/exports.md how to read them.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> made = sdgar.export(sdgar.IALS(dim=2).fit(data), "numpy", "ials-numpy")
    >>> sorted(made.files)[:3]
    ['item_biases.npy', 'item_vectors.npy', 'items.npy']
    """
    writer = writer_of(to)
    saved: Any = getattr(model, "recommender_", model)
    of_kind("model", saved, Recommender, "Load a saved model with sdgar.load(path).")
    target = folders.require_free(
        a_path("path", path), overwrite=overwrite, own=_own_names, what="an export"
    )
    whole = Contents.of(saved)
    contents = _fitting(whole, saved.about.get("system"), to, vectors_only=vectors_only)
    left_out = list(contents.lost)
    if contents.weight_II is None and whole.weight_II is not None:
        left_out.append("Memory: the weights between items are left out, so that lists differ.")
    if contents.has_vectors and saved.abilities["fold_in"]:
        left_out.append("New users: the vectors are of training users; fold others in with sdgar.")
    try:
        with folders.whole(target, replace=True) as temporary:
            files = writer(contents, temporary)
            about = {
                "format": FORMAT,
                "to": to,
                "created_by": f"sdgar {__version__}",
                "system": saved.about.get("system"),
                "model_version": saved.version or None,
                "users": len(saved.users),
                "items": len(saved.items),
                "score": contents.score(),
                "files": files,
                "left_out": left_out,
            }
            folders.write(temporary / ABOUT, json.dumps(about, indent=2).encode())
            for name in files:
                with (temporary / name).open("rb") as file:
                    os.fsync(file.fileno())
    except OSError as error:
        raise ResourceError(
            f"could not write the export to {target}: {error.strerror or error}. Nothing was "
            "changed there.",
            code="save_failed",
        ) from error
    return Exported(target, to, contents.score(), files, tuple(left_out))


def _own_names(folder: Path) -> set[str]:
    try:
        about = sealed.read_table(folder / ABOUT)
    except ArtifactError:
        return set()
    match about:
        case {"format": str(known), "files": dict(files)} if known == FORMAT:
            return {ABOUT, *files}
    return set()


def _fitting(whole: Contents, system: Any, to: str, *, vectors_only: bool) -> Contents:
    """Return the part of a model that a format can hold; raise if lists would silently change."""
    if not whole.has_vectors and (vectors_only or to == "faiss"):
        raise UsageError(
            f"a model of system {system} has weights from item to item and no vectors, which "
            f"{'--vectors-only' if vectors_only else f'an export to {to}'} needs. Export it to "
            "parquet, numpy or onnx.",
            code="no_vectors",
        )
    if vectors_only:
        return replace(whole, weight_II=None, only_supported=False)
    if whole.weight_II is not None and to == "faiss":
        raise UsageError(
            "this model adds an item memory to its vectors, weights that an index of faiss cannot "
            "hold. Leave it out with --vectors-only (vectors_only=True in Python), which gives the "
            "lists of the vectors alone; or export to parquet, numpy or onnx.",
            code="memory_lost",
        )
    return whole


def missing_package(name: str, to: str) -> ResourceError:
    """Build the error for a format whose package is not installed."""
    return ResourceError(
        f"an export to {to} needs the package {name}, which is not installed. Install it with pip "
        'install "sdgar[export]".',
        code="missing_package",
    )
