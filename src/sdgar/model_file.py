"""What the model file holds: a model as named tensors, and the way back with checks.

factors               user_UD, item_ID, bias_I
module                parameters and buffers of a network that is registered by name
factors of fields     the same, field_VD (a vector for each value of each field) and scale
factors, encoder      as factors, and encoder.*: those of a network, for new contexts
item weights          weight_II
sparse item weights   indptr_I1, items_E, weight_E: the same matrix by rows, without its zeros
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.contracts import ENCODER, Factors, ItemWeights, Model
from sdgar.errors import UsageError
from sdgar.maths.sparse import SparseMatrix
from sdgar.modules import Encoder, Kind, ModuleScores, Network, rebuilt
from sdgar.storage.folders import DamagedError, Tensors

FACTORS, _DENSE, _SPARSE = "factors", "item weights", "sparse item weights"
_FIELDS, _ENCODED, _MODULE = "factors of fields", "factors, encoder", "module"

SIZES = {
    FACTORS: ("dim",),
    _FIELDS: ("dim", "values"),
    _ENCODED: ("dim",),
    _DENSE: (),
    _SPARSE: ("weights",),
    _MODULE: (),
}
"""What a model can be, and the sizes it has beside users, items and interactions."""


def to_tensors(model: Model) -> tuple[str, dict[str, int], Tensors]:
    """What the model is, the sizes of it, and its tensors."""
    if isinstance(model, Factors):
        size = {"dim": model.item_ID.shape[1]}
        own = replace(model, encoder=None).tensors()
        named = {name: _array(t, np.float32) for name, t in own.items()}
        if model.encoder is not None:
            network = _saved(model.encoder)
            return _ENCODED, size, named | {ENCODER + name: a for name, a in network.items()}
        if model.field_VD is None:
            return FACTORS, size, named
        return _FIELDS, size | {"values": len(model.field_VD)}, named
    if isinstance(model, ModuleScores):
        return _MODULE, {}, _saved(model)
    weight_II = model.weight_II
    if not isinstance(weight_II, SparseMatrix):
        return _DENSE, {}, {"weight_II": _array(weight_II, np.float32)}
    csr = {
        "indptr_I1": _array(weight_II.start_R1, np.int64),
        "items_E": _array(weight_II.column_E, np.int32),
        "weight_E": _array(weight_II.weights(), np.float32),
    }
    return _SPARSE, {"weights": len(csr["items_E"])}, csr


def from_tensors(
    path: Path,
    kind: str,
    sizes: dict[str, int],
    tensors: Tensors,
    history: Tensors,
    about: dict[str, Any],
) -> Model:
    """The model, if its tensors are of the right names, types and shapes and can give scores."""
    users, items = sizes["users"], sizes["items"]
    if kind == _MODULE:
        return _network(ModuleScores, path, sizes, tensors, about)
    network = {name: tensor for name, tensor in tensors.items() if name.startswith(ENCODER)}
    wanted: dict[str, tuple[Any, tuple[int, ...]]]
    if kind in (FACTORS, _FIELDS, _ENCODED):
        wanted = {
            "user_UD": (np.float32, (users, sizes["dim"])),
            "item_ID": (np.float32, (items, sizes["dim"])),
            "bias_I": (np.float32, (items,)),
        }
        if kind == _FIELDS:
            wanted["field_VD"] = (np.float32, (sizes["values"], sizes["dim"]))
            wanted["scale"] = (np.float32, (1,))
    elif kind == _DENSE:
        wanted = {"weight_II": (np.float32, (items, items))}
    else:
        wanted = {
            "indptr_I1": (np.int64, (items + 1,)),
            "items_E": (np.int32, (sizes["weights"],)),
            "weight_E": (np.float32, (sizes["weights"],)),
        }
    if kind == _ENCODED:
        tensors = {name: tensor for name, tensor in tensors.items() if name not in network}
    expect(path, tensors, wanted)
    for name in wanted:
        _require_finite(path, name, tensors[name])
    if kind in (FACTORS, _FIELDS, _ENCODED):
        encoder = None
        if kind == _ENCODED:
            bare = {name.removeprefix(ENCODER): tensor for name, tensor in network.items()}
            encoder = _network(Encoder, path, sizes, bare, about)
        own = {name: torch.from_numpy(tensors[name]) for name in wanted}
        return Factors(**own, encoder=encoder)
    cpu = torch.device("cpu")
    has = SparseMatrix.of(history["indptr_U1"], history["items_E"], items, device=cpu)
    if kind == _DENSE:
        return ItemWeights(has, torch.from_numpy(tensors["weight_II"]))
    indptr_I1, items_E, weight_E = (tensors[name] for name in wanted)
    check_csr(path, "indptr_I1", indptr_I1, items_E, items)
    if (weight_E <= 0).any():
        raise DamagedError(path, "weight_E holds a weight that is not positive")
    return ItemWeights(has, SparseMatrix.of(indptr_I1, items_E, items, weight_E, device=cpu))


def _saved(network: Network) -> Tensors:
    if not network.name:
        raise UsageError(
            "a network is saved by the name of its class, and this one has none. Register it with "
            "@sdgar.register_discriminator(NAME).",
            code="not_registered",
        )
    return {name: t.cpu().contiguous().numpy() for name, t in network.tensors().items()}


def _network(
    kind: type[Kind], path: Path, sizes: dict[str, int], tensors: Tensors, about: dict[str, Any]
) -> Kind:
    match about.get("module"):
        case {"name": str(name), "settings": dict(settings), "users": int(users)} if users >= 0:
            pass
        case _:
            raise DamagedError(path, "nothing says which network it is")
    for label, tensor in tensors.items():
        if tensor.dtype.kind == "f" and tensor.ndim:
            _require_finite(path, label, tensor)
    named = {label: torch.from_numpy(tensor) for label, tensor in tensors.items()}
    return rebuilt(kind, name, settings, (users, sizes["items"]), named)


def expect(path: Path, tensors: Tensors, wanted: dict[str, tuple[Any, tuple[int, ...]]]) -> None:
    """Refuse tensors of other names, types or shapes."""
    if set(tensors) != set(wanted):
        raise DamagedError(path, f"it holds {sorted(tensors)}, expected {sorted(wanted)}")
    for name, (dtype, shape) in wanted.items():
        found = tensors[name]
        if found.dtype != dtype or found.shape != shape:
            raise DamagedError(
                path,
                f"{name} is {found.dtype} {found.shape}, expected {np.dtype(dtype)} {shape}",
            )


def check_csr(
    path: Path, name: str, indptr_R1: NDArray[Any], items_E: NDArray[Any], n_items: int
) -> None:
    """Refuse rows that do not follow each other, and items that are not there."""
    steps = np.diff(indptr_R1)
    if indptr_R1[0] != 0 or indptr_R1[-1] != len(items_E) or (len(steps) and steps.min() < 0):
        raise DamagedError(path, f"{name} does not describe the rows of items_E")
    if len(items_E) and not 0 <= items_E.min() <= items_E.max() < n_items:
        raise DamagedError(path, "an item index lies outside the catalogue")


def _require_finite(path: Path, name: str, tensor: NDArray[Any]) -> None:
    finite = np.isfinite(tensor).all(axis=tuple(range(1, tensor.ndim)))
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise DamagedError(path, f"{name} holds a number that is not finite, first in row {row}")


def _array(tensor: torch.Tensor, dtype: type) -> NDArray[Any]:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype)
