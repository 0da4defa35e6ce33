"""New contexts for a trained model: what it says of someone, from a history alone.

Items stay as they are; what a model has for a context is found anew, by its own rule:

    popular                 nothing
    item-knn, ease          the history itself
    ials                    the least squares of half a sweep (``../least_squares.py``)
    sdsoftmax, by cosines   the softmax objective on the sphere (``sphere.py``)
    a network that can      what it says of a history in the order of time
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Factors, ItemWeights, Model
from sdgar.data.interactions import History
from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.fold_in.sphere import directions
from sdgar.maths.least_squares import HalfSweep
from sdgar.maths.sparse import SparseMatrix
from sdgar.modules import Encoder, ModuleScores
from sdgar.settings import of_today

_GREATEST = 1e12
"""More than any setting of a model that was trained."""
SYSTEMS = ("popular", "item-knn", "ease", "ials", "sdsoftmax")
_BY_WEIGHTS = ("item-knn", "ease")
"""Those whose models are weights from item to item, for which a history is all that is needed."""


def fold_in(
    model: Model,
    about: dict[str, Any],
    trained: History,
    new: History,
    in_order_E: NDArray[np.int64] | None,
) -> Model:
    """The model with the contexts of ``new``, none of whose histories is empty, for its own.

    ``about`` says how the model was made, ``trained`` from what; ``in_order_E`` are the items of
    ``new`` as they came, if that is known.
    """
    if isinstance(model, ModuleScores):
        raise _refused(about)
    if isinstance(model, Factors) and model.encoder is not None:
        return replace(model, user_UD=_encoded(model.encoder, new, in_order_E))
    known = SparseMatrix.of(new.indptr_U1, new.items_E, model.n_items, device=model.device)
    if isinstance(model, ItemWeights):
        return ItemWeights(known, model.weight_II)
    return Factors(_rule(about)(model, trained, known), model.item_ID, model.bias_I)


def can_fold_in(model: Model, about: dict[str, Any]) -> bool:
    """Whether ``fold_in`` has a rule for this model."""
    if isinstance(model, ModuleScores):
        return False
    if isinstance(model, ItemWeights) or model.encoder is not None:
        return True
    return has_rule(about)


def has_rule(about: dict[str, Any]) -> bool:
    """Whether the models of a system with these settings can be folded into, before one is made."""
    if about.get("system") in _BY_WEIGHTS:
        return True
    try:
        _rule(about)
    except (ArtifactError, UsageError):
        return False
    return True


def _encoded(encoder: Encoder, new: History, in_order_E: NDArray[np.int64] | None) -> Tensor:
    if in_order_E is None:
        raise DataError(
            "this model looks at the order of a history, and the rows of new users have no times. "
            "Name the column with --time, or give lists of items in their order.",
            code="no_time",
        )
    start_T1, item_E = torch.from_numpy(new.indptr_U1), torch.from_numpy(in_order_E)
    return encoder.fold_in(start_T1.to(encoder.device), item_E.to(encoder.device))


def _rule(about: dict[str, Any]) -> Callable[[Factors, History, SparseMatrix], Tensor]:
    """How a model of this system finds vectors, from what it was trained on and what is known."""
    given, decided = about.get("hyper_parameters"), about.get("decided")
    settings = of_today(about.get("system"), given if isinstance(given, dict) else {})
    settings |= decided if isinstance(decided, dict) else {}
    match about.get("system"), settings:
        case "popular", _:
            return lambda model, _, known: torch.empty(known.n_rows, 0, device=model.device)
        case "ials", {
            "alpha": int() | float() as alpha, "l2": int() | float() as l2,
            "power": int() | float() as power,
        }:  # fmt: skip
            half = HalfSweep(*_settings(alpha=alpha, l2=l2, power=power))
            return lambda model, _, known: half(known, model.item_ID)
        case "sdsoftmax", {"similarity": "cosine"} if about.get("folded_in"):
            raise UsageError(
                "this model has users folded in and no longer knows how popular items were in "
                "training, which new users are found by. Fold into the model it was made from.",
                code="folded_in",
            )
        case "sdsoftmax", {
            "similarity": "cosine", "tau": int() | float() as tau,
            "rho": int() | float() as rho,
        }:  # fmt: skip
            tau, rho = _settings(tau=tau, rho=rho)
            if tau > 0:
                return partial(_on_the_sphere, tau=tau, rho=rho)
    raise _refused(about)


def _settings(**saved: float) -> list[float]:
    """Settings of a saved model as floats, if training could have used them."""
    for name, value in saved.items():
        if not 0 <= value <= _GREATEST:
            raise ArtifactError(
                f"the model is damaged: its setting {name} is not between 0 and {_GREATEST:g}. "
                "Restore the folder from a copy, or train again.",
                code="damaged",
            )
    return [float(value) for value in saved.values()]


def _on_the_sphere(
    model: Factors, trained: History, known: SparseMatrix, *, tau: float, rho: float
) -> Tensor:
    count_I = np.bincount(trained.items_E, minlength=model.n_items)
    popularity_I = torch.from_numpy(count_I).to(model.device)
    items = (model.item_ID, model.bias_I, popularity_I)
    return directions(known, *items, tau=tau, rho=rho) / tau


def _refused(about: dict[str, Any]) -> UsageError:
    return UsageError(
        f"new users cannot be folded into a model of system {about.get('system')!r}: it has no "
        f"rule for a vector from a history alone. Systems that have: {', '.join(SYSTEMS)} (with "
        "similarity=cosine), and networks with fold_in, such as sequence. Or train again with the "
        "new users' rows.",
        code="no_fold_in",
    )
