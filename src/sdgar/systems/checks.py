"""Checks of settings and of data, and settings that are given as text."""

from __future__ import annotations

import json
import warnings
from numbers import Real
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from sdgar.arguments import of_kind
from sdgar.errors import DataError, SdgarWarning, UsageError
from sdgar.settings import types_of

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


def plain_value(value: Any) -> Any:
    """Return a value as JSON has it: a NumPy number becomes a plain number."""
    if isinstance(value, dict):
        return {name: plain_value(one) for name, one in value.items()}
    from sdgar.data.ids import plain

    return plain(value)


def _without_none(kind: Any) -> tuple[Any, bool]:
    """Return the type of a setting, and whether it can be left to a rule."""
    if NoneType not in get_args(kind):
        return kind, False
    (rest,) = set(get_args(kind)) - {NoneType}
    return rest, True


def require_kind(name: str, value: Any, kind: Any) -> None:
    """Raise if a value has another type; integers are checked where their least value is known."""
    kind, optional = _without_none(kind)
    if optional and value is None:
        return
    fits = {
        float: isinstance(value, Real) and not isinstance(value, bool),
        bool: isinstance(value, bool) or value in (0, 1),
        str: isinstance(value, str),
    }.get(kind, kind is int or isinstance(value, dict))
    if not fits:
        what = getattr(kind, "__name__", "dict")
        raise UsageError(f"{name} must be of type {what}, got {value!r}.", code="bad_setting")


def require_plain(params: dict[str, Any]) -> None:
    """Raise, before any work, if a setting could not be saved with the model."""
    for name, value in params.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise UsageError(
                f"{name} must be a number, a text, true or false, or a table of these, got "
                f"{value!r}.",
                code="bad_setting",
            ) from None


def parsed(name: str, text: str, kind: Any) -> Any:
    """Return the value of a setting that was given as text."""
    kind, optional = _without_none(kind)
    if optional and text.lower() in ("auto", "none"):
        return None
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name} must be true or false, got {text!r}.", code="bad_setting")
        return text.lower() == "true"
    try:
        return kind(text)
    except ValueError:
        such = " A whole number is written as 32." if kind is int else ""
        raise UsageError(
            f"{name} must be of type {kind.__name__}, got {text[:60]!r}.{such}", code="bad_setting"
        ) from None


def some_rows(*, fields: bool = False) -> Interactions:
    """Return a few rows, on which a system is composed to see what it can do."""
    from sdgar.data.interactions import Interactions

    columns = {"user": ["a", "a", "b", "c"]} | ({"place": ["x", "y", "x", "y"]} if fields else {})
    return Interactions.from_contexts(columns, ["i", "j", "j", "k"])


def require_rows(name: str, rows: object) -> None:
    """Raise if something is no ``Interactions``."""
    from sdgar.data.interactions import Interactions

    of_kind(name, rows, Interactions, "Read files and frames with sdgar.read(source).")


def require_sound(estimator: Any, train: Interactions, valid: Interactions | None = None) -> None:
    """Raise if settings or rows have a wrong type; warn if weights are not used."""
    types = types_of(type(estimator))
    for name, value in estimator._plain_params().items():
        if name in types:  # else it belongs to a part, which checks it
            require_kind(name, value, types[name])
    require_rows("train", train)
    if valid is not None:
        require_rows("valid", valid)
    if train.weight_E is not None and not estimator._spec.uses_weights:
        warnings.warn(
            f"{estimator._spec.name} does not use the weights of rows: every row counts alike.",
            SdgarWarning,
            stacklevel=3,
        )


def require_learnable(train: Interactions) -> None:
    """Raise if there are fewer than 2 users or items, or if all users have all items."""
    for n, what, code in ((train.n_users, "user", "one_user"), (train.n_items, "item", "one_item")):
        if n < 2:
            raise DataError(
                f"the training data has {n} {what}; learning needs at least 2. Use --system "
                "popular, or more data.",
                code=code,
            )
    if len(train) == train.n_users * train.n_items:
        raise DataError(
            f"all {train.n_users:,} users have all {train.n_items:,} items, so there is no "
            "negative to learn from. Were the ratings below a threshold kept? See --min-rating.",
            code="no_negatives",
        )


def require_features_used(estimator: Any, data: Interactions) -> None:
    """Raise if features were given and nothing uses them."""
    from sdgar.data.read_options import USER
    from sdgar.recommend.cold import require_enough

    of_users, of_items = data.user_features is not None, data.item_features is not None
    require_looks_at_features(estimator, of_users=of_users, of_items=of_items)
    if data.item_features is None or estimator._looks_at_features:
        return
    if data.context != USER:
        raise UsageError(
            f"features of items let {estimator._spec.name} recommend items without events, which "
            "is not possible where a context has several fields. Leave the features out.",
            code="unused_features",
        )
    learned = int((data.item_features.ids.index_of(data.items.values) >= 0).sum())
    require_enough(learned, data.items, data.item_features)


def require_looks_at_features(estimator: Any, *, of_users: bool, of_items: bool) -> None:
    """Raise if features were given to a system that does not use them.

    Features of items are of use to a system that can place new items among its vectors: those
    without events are recommended by them.
    """
    if estimator._looks_at_features or not (of_users or of_items):
        return
    rule = estimator._fold_rule(some_rows())
    places_items = rule is not None and rule.places_items
    if of_users or not places_items:
        side = " of users" if of_users and places_items else ""
        raise UsageError(
            f"system {estimator._spec.name} looks at no features{side}. Use discriminator "
            "two-tower (--discriminator two-tower), or leave the features out. Features of items "
            "that have no events yet are used by ials, quick and sdsoftmax.",
            code="unused_features",
        )
