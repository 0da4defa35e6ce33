"""Ids of every type, as columns and in queries: they come out as they went in, or are refused.

An id is an integer that int64 or uint64 holds, or a text. Nothing else is one: not True, not 7.0,
not None, and not bytes, whatever their spelling is.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from sdgar.data.ids import is_column, plain
from sdgar.data.interactions import Interactions
from sdgar.data.readers import ReadOptions, read_frame
from sdgar.errors import SdgarError
from sdgar.models.factors import Factors
from sdgar.models.fold_in import LeastSquares
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.recommender import Recommender

from .readers import require_sound
from .target import Files, Target

_CASE = "case.json"

INTEGERS: dict[str, Any] = {
    str(n): n for n in (0, 1, 7, -1, -7, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))
} | {
    f"{kind.__name__}(7)": kind(7)
    for kind in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64)
}  # fmt: skip
TEXTS: dict[str, Any] = {
    repr(text): text
    for text in (
        "a", "b", "7", "007", "-7", "7.0", " 7", "None", "nan", "NaN", "True", "b'a'", "é",
        "e\u0301", "🙂", "\ufeff", "a b", "9223372036854775808", "null", "[7]", "x" * 256, "١٢",
        "\u2028",
    )
} | {"np.str_('a')": np.str_("a")}  # fmt: skip
ODD: dict[str, Any] = {
    "None": None, "nan": float("nan"), "inf": float("inf"), "7.0": 7.0,
    "np.float32(7)": np.float32(7), "np.array(None)": np.array(None), "list": list,
    "True": True, "np.True_": np.True_, "b'a'": b"a", "2**64": 2**64, "-2**63-1": -(2**63) - 1,
    "10**400": 10**400, "''": "", "'\\0'": "\0", "'a\\0'": "a\0", "lone surrogate": "\ud800",
    "x257": "x" * 257, "()": (), "[7]": [7], "{}": {}, "pd.NA": pd.NA, "pd.NaT": pd.NaT,
    "Decimal": decimal.Decimal(7), "date": datetime.date(2020, 1, 1), "1j": 1j,
    "np.datetime64": np.datetime64("2020-01-01"), "object": object, "array": np.array([7]),
    "array of none": np.array(7), "np.void": np.void(b"a"), "bytearray": bytearray(b"a"),
}  # fmt: skip
VALUES = INTEGERS | {f"text {name}": value for name, value in TEXTS.items()} | {
    f"odd {name}": value for name, value in ODD.items()
}  # fmt: skip
"""All values by name, so that a case is a list of names."""

Column = list[str]


def _column(random: Random, n: int, odd: float) -> Column:
    """Names of values: integers or texts, and a few that are neither."""
    pool = [*INTEGERS] if random.random() < 0.5 else [f"text {name}" for name in TEXTS]
    if random.random() < 0.1:
        pool = [*INTEGERS, *(f"text {name}" for name in TEXTS)]
    names = [random.choice(pool) for _ in range(n)]
    if random.random() < odd:
        names[random.randrange(n)] = f"odd {random.choice([*ODD])}"
    return names


def _values(names: Sequence[str]) -> list[Any]:
    return [VALUES[name] for name in names]


def is_id(value: Any) -> bool:
    """Whether a value can be an id, by what the package promises."""
    if isinstance(value, str):
        return not any("\ud800" <= c <= "\udfff" for c in value)
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _one_kind(values: Sequence[Any]) -> bool:
    """Whether values can be ids of one column."""
    if not all(map(is_id, values)) or len({isinstance(v, str) for v in values}) > 1:
        return False
    if isinstance(values[0], str):
        return True
    least, most = min(map(int, values)), max(map(int, values))
    return least >= -(2**63) and most < (2**63 if least < 0 else 2**64)


def _objects(values: list[Any]) -> Any:
    made = np.empty(len(values), object)
    for at, value in enumerate(values):
        made[at] = value
    return made


_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "objects": _objects,
    "array": np.array,
    "pandas": pd.Series,
    "polars": pl.Series,
    "masked": lambda values: np.ma.MaskedArray(np.array(values), [v is None for v in values]),
}


def _contained(kind: str, values: list[Any]) -> Any:
    """The values as a column; a list where the container itself cannot hold them."""
    try:
        return _CONTAINERS[kind](values)
    except Exception:  # libraries differ in what they refuse, and how
        return values


def _held_by(column: Any) -> list[Any]:
    """What a container made of the values that were put into it."""
    return [plain(v) for v in (column.tolist() if hasattr(column, "tolist") else column)]


def _ids(random: Random) -> Files:
    n = random.choice((1, 2, 5))
    case = {
        "users": _column(random, n, 0.3),
        "items": _column(random, n, 0.2),
        "city": _column(random, n, 0.2) if random.random() < 0.3 else None,
        "in": [random.choice([*_CONTAINERS]) for _ in range(3)],
    }
    return {_CASE: json.dumps(case).encode()}


def _try_ids(folder: Path) -> None:
    case = json.loads((folder / _CASE).read_bytes())
    users, items = (
        _contained(kind, _values(case[side]))
        for kind, side in zip(case["in"], ("users", "items"), strict=False)
    )
    columns = [_held_by(users), _held_by(items)]
    if case["city"] is None:
        made = Interactions.from_arrays(users, items)
        owners = made.users.values[made.users_E].tolist()
    else:
        city = _contained(case["in"][2], _values(case["city"]))
        columns.insert(1, _held_by(city))
        made = Interactions.from_contexts({"user": users, "city": city}, items)
        assert made.fields is not None
        index_EF = made.fields.index_UF[made.users_E]
        parts = [ids.values[index_EF[:, f]].tolist() for f, ids in enumerate(made.fields.values)]
        owners = list(zip(*parts, strict=True))
    assert all(map(_one_kind, columns)), "something that is no id was taken for one"
    require_sound(made)
    wanted = set(zip(*columns, strict=True))
    found = {
        (*(owner if isinstance(owner, tuple) else (owner,)), item)
        for owner, item in zip(owners, made.items.values[made.items_E].tolist(), strict=True)
    }
    assert found == wanted, f"{found} came out for {wanted}"
    assert {*map(_typed, found)} == {*map(_typed, wanted)}


def _typed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row that differs from one whose values are equal but of other types."""
    return tuple((isinstance(value, str), value) for value in row)


def _frames(random: Random) -> Files:
    n = random.choice((1, 2, 5))
    case: dict[str, Any] = {
        "columns": {"user": _column(random, n, 0.4), "item": _column(random, n, 0.3)},
        "as": random.choice(("dict", "dict of arrays", "polars", "pandas", "arrow", "nullable")),
        "allow_bad_rows": random.random() < 0.7,
    }
    for name, odd in (("weight", 0.3), ("timestamp", 0.3), ("city", 0.2)):
        if random.random() < 0.3:
            case["columns"][name] = _column(random, n, odd)
    if random.random() < 0.2:
        unit = random.choice(("Y", "W", "D", "s", "ms", "us", "ns"))
        case["dates"] = unit, [random.choice((0, 10**9, 2**62, -(2**63))) for _ in range(n)]
    case["context"] = ["user", "city"] if "city" in case["columns"] else ["user"]
    return {_CASE: json.dumps(case).encode()}


def _is_plain(values: list[Any]) -> bool:
    """Whether pyarrow can be given the values: some mixtures with NumPy's dates end its process."""
    return all(type(value) in (int, str, float, bool, bytes, type(None)) for value in values)


def _framed(kind: str, columns: dict[str, list[Any]]) -> Any:
    """A table of the columns, or the plain dict where no such table holds them."""
    try:
        match kind:
            case "polars":
                return pl.DataFrame(columns)
            case "pandas":
                return pd.DataFrame(columns)
            case "arrow" if all(map(_is_plain, columns.values())):
                return pa.table(columns)
            case "nullable":
                return pd.DataFrame(columns).convert_dtypes()
            case "dict of arrays":
                return {name: np.array(values) for name, values in columns.items()}
    except Exception:  # libraries differ in what they refuse, and how
        return columns
    return columns


def _try_frames(folder: Path) -> None:
    case = json.loads((folder / _CASE).read_bytes())
    columns = {name: _values(names) for name, names in case["columns"].items()}
    frame = _framed(case["as"], columns)
    if "dates" in case:
        unit, counts = case["dates"]
        frame = columns | {"timestamp": np.array(counts).view(f"M8[{unit}]")}
    n = len(columns["user"])
    options = ReadOptions(
        allow_bad_rows=case["allow_bad_rows"], context=tuple(case["context"]), duplicates="sum"
    )
    found = read_frame(frame, options).interactions
    require_sound(found)
    assert found.account.read == n
    if frame is not columns:
        return
    for ids, name in ((found.user_id_U, "user"), (found.items.values, "item")):
        given = [plain(value) for value in columns[name]]
        assert all(any(type(g) is type(v) and g == v for g in given) for v in ids.tolist())
    if not {"weight", "timestamp"} & columns.keys():
        rows = zip(*(columns[name] for name in (*case["context"], "item")), strict=True)
        distinct = {_typed(tuple(map(plain, row))) for row in rows if all(map(_is_kept, row))}
        assert len(found) == len(distinct), f"{len(found)} pairs were kept of {len(distinct)}"


def _is_kept(value: Any) -> bool:
    """Whether a reader of events takes a value for an id."""
    text = str(value)
    return is_id(value) and text != "" and "\0" not in text and len(text.encode()) <= 256


def _questions(random: Random) -> Files:
    case = {
        "users": _column(random, 5, 0),
        "items": _column(random, 5, 0),
        "queried": _column(random, random.choice((1, 1, 3)), 0.4),
        "known": random.random() < 0.5,
        "how": random.choice([*_QUESTIONS]),
        "in": random.choice(("alone", "alone", *_CONTAINERS)),
        "k": random.choice((1, 3, 100, 2**40)),
    }
    if case["known"]:
        side = "users" if case["how"] in ("recommend", "evaluate") else "items"
        case["queried"] = [random.choice(case[side])]
    return {_CASE: json.dumps(case).encode()}


def _model(users: list[Any], items: list[Any]) -> Recommender:
    data = Interactions.from_arrays(users, items)
    item_ID, bias_I = np.random.default_rng().random((data.n_items, 2)), np.arange(data.n_items)
    tables = np.ones((data.n_users, 2)), item_ID, bias_I / 10
    factors = Factors(*(table.astype(np.float32) for table in tables))
    settings = {"alpha": 0.1, "l2": 0.01, "power": 1.0}
    model = factors.ruled_by(LeastSquares(**settings))
    about = {"system": "ials", "hyper_parameters": settings}
    return Recommender(Artifact(model, data.users, data.items, data.history, about))


def _rows_of(model: Recommender, users: Any) -> Interactions:
    n = len(users) if is_column(users) else 1
    return Interactions.from_arrays(users, model.items.values[:1].tolist() * n)


_QUESTIONS: dict[str, Callable[[Recommender, Any, int], Any]] = {
    "recommend": lambda model, queried, k: model.recommend(queried, k=k, fallback="error"),
    "similar": lambda model, queried, k: model.similar_items(queried, k=k, fallback="error"),
    "allow": lambda model, queried, k: model.recommend(k=k, items=queried, fallback="error"),
    "exclude": lambda model, queried, k: model.recommend(k=k, exclude=queried, fallback="error"),
    "history": lambda model, queried, k: model.recommend(k=k, history=queried, fallback="error"),
    "fold in": lambda model, queried, k: model.fold_in({"new": queried}).recommend(k=k),
    "fold in lists": lambda model, queried, k: model.fold_in([queried, queried]).recommend(k=k),
    "evaluate": lambda model, queried, k: model.evaluate(_rows_of(model, queried)).counts,
}
"""Kinds of queries; ids are of users in ``recommend`` and ``evaluate``, else of items."""


def _alone(value: Any) -> Any:
    """One value, which NumPy may have converted."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else plain(value)


def _try_questions(folder: Path) -> None:
    case = json.loads((folder / _CASE).read_bytes())
    model = _model(_values(case["users"]), _values(case["items"]))
    how, values = case["how"], _values(case["queried"])
    ids = model.users if how in ("recommend", "evaluate") else model.items
    alone = case["in"] == "alone"
    queried = values[0] if alone else _contained(case["in"], values)
    meant = [_alone(queried)] if alone else _held_by(queried)
    known = {str(value) for value in ids.values.tolist()}
    everyone = alone and values[0] is None
    can_answer = all(is_id(v) and str(v) in known for v in meant) or (everyone and how != "similar")
    if how == "evaluate" or how.startswith("fold in"):
        can_answer = can_answer and not alone
    try:
        answer = _QUESTIONS[how](model, queried, case["k"])
    except SdgarError:
        assert not can_answer or how in ("fold in", "fold in lists", "evaluate", "history"), (
            "a known id was not found"
        )
        raise
    if how == "evaluate":
        return
    container = isinstance(values[0], list | tuple | np.ndarray) and alone
    assert can_answer or container, "something that is no known id was answered"
    rows = answer.to_dicts() if isinstance(answer, pl.DataFrame) else answer.to_dict("records")
    items = model.items.values.tolist()
    assert all(row["item"] is None or pd.isna(row["item"]) or row["item"] in items for row in rows)
    if how == "recommend" and not everyone:
        assert {str(row["user"]) for row in rows} == {str(v) for v in meant} or container


TARGETS = {
    "ids": Target(_ids, _try_ids),
    "frames": Target(_frames, _try_frames),
    "questions": Target(_questions, _try_questions),
}
