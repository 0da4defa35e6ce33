"""What the fuzzer of ``tests/fuzz`` has found, one case each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import safetensors.numpy

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.errors import NumericalError
from sdgar.models.factors import Factors, FieldFactors
from sdgar.models.fold_in import LeastSquares
from sdgar.recommend import artifact
from sdgar.recommend.recommender import Recommender
from sdgar.storage import sealed

from ..fuzz.saved import interrupted, train
from .cases import Case, check, table

ODD_TEXTS = ["7.0", "None", "True", "[7]", "b'a'", "nan"]
LAST = 2**63 - 1


def model(users: list[Any], **about: Any) -> Recommender:
    """A model in which user number n has item number n, by vectors."""
    data = Interactions.from_arrays(users, users)
    ones = np.ones((len(users), 2), np.float32)
    rule = LeastSquares(alpha=0.1, l2=0.1, power=1.0)
    factors = Factors(ones, ones.copy(), np.zeros(len(users), np.float32), rule)
    return Recommender(
        artifact.Artifact(
            factors,
            data.users,
            data.items,
            data.history,
            {"system": "ials"} | about,
        )
    )


def queried(ask: Callable[[Recommender], Any], users: Any = (7, 8, 55)) -> Callable[[Path], Any]:
    return lambda _: ask(model(list(users)))


def folded(**settings: Any) -> Callable[[Path], Any]:
    """Ask a model of iALS for a new user; the numbers of its rule were changed."""

    def act(folder: Path) -> Any:
        path = artifact.save(model([7, 8]).saved, folder / "model") / "manifest.json"
        said = json.loads(path.read_text())
        said["fold_in"] |= settings
        path.write_text(
            json.dumps(sealed.with_seal({k: v for k, v in said.items() if k != "seal"}))
        )
        return sdgar.load(path.parent).recommend(history=[7])

    return act


def measured(ks: Any) -> Callable[[Path], Any]:
    return queried(lambda m: m.evaluate(Interactions.from_arrays([7], [8]), ks=ks))


def odd(value: Any) -> Callable[[Path], Any]:
    """Ask for something whose spelling is an id, and which is none."""
    return queried(lambda m: m.recommend([value]), ODD_TEXTS)


def read(**columns: Any) -> Callable[[Path], Any]:
    return lambda _: sdgar.read({"user": ["a"], "item": ["b"]} | columns)


def loaded(context: list[str], ids: list[str], *, vectors: int = 2) -> Callable[[Path], Any]:
    """Load a model whose contexts are said to have these fields."""

    def act(folder: Path) -> Any:
        made = model(ids, context=context)
        one = made.factors
        fields = {"field_VD": np.ones((vectors, 2), np.float32), "scale": np.ones(1, np.float32)}
        of_fields = FieldFactors(one.user_UD, one.item_ID, one.bias_I, **fields)
        saved = artifact.Artifact(of_fields, made.users, made.items, made.history, made.about)
        return sdgar.load(artifact.save(saved, folder / "model"))

    return act


State = dict[str, Any]


def resumed(kind: str, epochs: int, change: Callable[[State, State], Any]) -> Callable[[Path], Any]:
    """Resume a run whose only checkpoint was changed and sealed again.

    The change is given the tensors of the checkpoint, and what it says of the run.
    """

    def act(folder: Path) -> Any:
        files = interrupted(kind, epochs)
        newest = max(name.split("/")[1] for name in files if "checkpoint-" in name)
        place = folder / "run.partial" / newest
        place.mkdir(parents=True)
        (folder / "run.partial/run.json").write_bytes(files["run.partial/run.json"])
        state, said = (
            files[f"run.partial/{newest}/{n}"] for n in ("state.safetensors", "loop.json")
        )
        tensors, loop = safetensors.numpy.load(state), json.loads(said)
        change(tensors, loop)
        state, said = safetensors.numpy.save(tensors), json.dumps(loop).encode()
        contents = {"state.safetensors": state, "loop.json": said}
        manifest = {"format": "sdgar-checkpoint", "files": sealed.seals(contents)}
        contents["manifest.json"] = json.dumps(sealed.with_seal(manifest)).encode()
        for name, data in contents.items():
            (place / name).write_bytes(data)
        train(kind, folder / "run", lambda: None, resume=True)

    return act


def with_best_epoch(tensors: State, loop: State) -> None:
    loop["finished"]["choose"]["best_epoch"] = 10**9


def with_an_unmeasured_best(tensors: State, loop: State) -> None:
    loop["log"][0].update(best=True, metric=None)


def with_no_number(tensors: State, loop: State) -> None:
    loop["log"][0]["loss"] = float("nan")


def with_seconds(seconds: Any) -> Callable[[State, State], None]:
    return lambda _, loop: loop["log"][0].update(train_seconds=seconds)


def with_sampler(name: str, at: Any, value: Any) -> Callable[[State, State], None]:
    def change(tensors: State, loop: State) -> None:
        tensors[f"engine.sampler.{name}"][at] = value

    return change


def without_moment(tensors: State, loop: State) -> None:
    del tensors["engine.optimizer.1.sum"]


def with_few_items(tensors: State, loop: State) -> None:
    tensors["engine.optimizer.sum_I"] = np.ones(1, np.float32)  # which NumPy would spread


def with_other_best(tensors: State, loop: State) -> None:
    tensors["best.user_UD"] = np.ones((3, 2), np.float32)


RANGE = ("timestamp_range", "row 1")
PLACES = ['["ann","Oslo"]']

DAMAGED_RUNS: list[Any] = [
    ("a pass had its best epoch later", ("best epoch", "1000000000"), "bpr", 4, with_best_epoch),
    ("an epoch took 10^400 seconds", ("train_seconds",), "bpr", 1, with_seconds(10**400)),
    ("an epoch took less than no time", ("seconds",), "bpr", 1, with_seconds(-1.0)),
    (
        "the best epoch was not measured",
        ("epoch 1", "not measured"),
        "bpr",
        1,
        with_an_unmeasured_best,
    ),
    ("a loss is no number", ("loss", "epoch 1", "nan"), "bpr", 1, with_no_number),
    (
        "masses do not add up",
        ("add up",),
        "sdgar, fused",
        1,
        with_sampler("x_mass_UK", (6, 1), 2**62),
    ),
    (
        "an order names no item",
        ("order of the items",),
        "aobpr",
        1,
        with_sampler("order_KI", (0, 0), 10**9),
    ),
    ("a best item is none", ("best items",), "search", 1, with_sampler("best_UM", (0, 0), 10**9)),
    (
        "best items have a gap",
        ("gap",),
        "search",
        1,
        with_sampler("best_UM", (0, slice(2)), [-1, 0]),
    ),
    ("a best item comes twice", ("twice",), "search", 1, with_sampler("best_UM", (0, slice(2)), 3)),
    (
        "a bin leads nowhere",
        ("leads nowhere",),
        "aobpr",
        1,
        with_sampler("factor_bin_UK", (0, 0), 2**40),
    ),
    ("a moment is missing", ("optimizer.1.sum",), "bpr", 1, without_moment),
    ("a moment is of one item", ("sum_I", "(1,)"), "bpr, fused", 1, with_few_items),
    ("the best model is of others", ("user_UD", "(3, 2)"), "bpr", 1, with_other_best),
]
"""Checkpoints: what is wrong, what the error says, the kind of run, its epochs, and the change."""

CASES: list[Case] = [
    Case("items are a class", 2, ("items",), queried(lambda m: m.recommend(items=list))),
    *(
        Case(f"{value!r} is requested where its spelling is an id", 2, ("ids",), odd(value))
        for value in (7.0, None, True, [7], b"a", np.nan, np.array([7]))
    ),
    *(
        Case(f"list lengths are {ks!r}", 2, (says,), measured(ks))
        for ks, says in (((2.5,), "got 2.5"), ((), "got ()"))
    ),
    Case("similar items are 2.5", 2, ("k must be",), queried(lambda m: m.similar_items(7, k=2.5))),
    Case(
        "a history is an array without an axis",
        2,
        ("list of items",),
        queried(lambda m: m.fold_in([np.array(7)])),
    ),
    Case(
        "an array has half a surrogate pair",
        3,
        ("'user'", "Unicode"),
        read(user=np.array(["\ud800"])),
    ),
    Case("ids are lengths of time", 3, ("Duration",), read(user=np.array([7], "m8[s]"))),
    Case("a column has no axis", 2, ("'user'", "7"), read(user=np.array(7))),
    Case("a column of objects has no axis", 2, ("'user'",), read(user=np.array(None))),
    *(
        Case(
            f"a time is the last {unit} of {count}",
            3,
            RANGE,
            read(timestamp=pl.Series([count], dtype=unit)),
        )
        for unit in (pl.Date, pl.Datetime("ms"), pl.Datetime("us"))
        for count in ((2**31 - 1, -(2**31)) if unit == pl.Date else (LAST, -LAST))
    ),
    *(
        Case(
            f"a time of NumPy is {count} {unit}",
            3,
            RANGE,
            read(timestamp=np.array([count]).view(f"M8[{unit}]")),
        )
        for unit, count in (("s", 2**44), ("W", 2**62 + 12345), ("Y", -(2**62)))
    ),
    Case(
        "a time of an array cannot be counted",
        3,
        ("row 2", "500000-01-01"),
        lambda _: Interactions.from_arrays(
            [1, 2], [1, 2], time=np.array(["2020-01-01", "500000-01-01"], "M8[s]")
        ),
    ),
    Case("a context has its user twice", 4, ("each once",), loaded(["user", "user"], PLACES)),
    Case("a context has no user", 4, ("the user",), loaded(["city", "time"], PLACES)),
    Case("a field is called item", 4, ("'item'",), loaded(["user", "item"], PLACES)),
    Case(
        "a context has more fields than values",
        4,
        ("3 values",),
        loaded(["user", "city", "x"], PLACES),
    ),
    Case("a context is no list", 4, ("2 values",), loaded(["user", "city"], ['"ab"'])),
    Case(
        "values of fields lack vectors",
        4,
        ("1 vectors",),
        loaded(["user", "city"], PLACES, vectors=1),
    ),
    Case("alpha is beyond all floats", 4, ("alpha", "damaged"), folded(alpha=10**400)),
    Case("l2 is negative", 4, ("l2", "damaged"), folded(l2=-(2**70))),
    Case("the power is no number", 4, ("power", "damaged"), folded(power="much")),
    *(Case(name, 4, says, resumed(*how)) for name, says, *how in DAMAGED_RUNS),
]


@table(CASES)
def test_what_was_found_is_refused_in_words(case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize(
    "user", [7, "7", np.int8(7), np.uint64(7), np.str_("7"), np.array(7)], ids=repr
)
def test_one_known_id_of_any_type_is_found(user):
    assert model([7, 8]).recommend(user)["user"].to_list() == [7]
    assert model([7, 8]).similar_items(user)["like"].to_list() == [7]


@pytest.mark.parametrize("k", [np.int64(1), np.uint8(1), 1], ids=repr)
def test_a_whole_number_of_any_type_says_how_many(k):
    assert len(model([7, 8, 9]).recommend(7, k=k)) == 1


def test_equations_of_a_new_user_without_a_solution_are_refused_in_words(monkeypatch):
    def fail(*_: np.ndarray) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(np.linalg, "solve", fail)
    with pytest.raises(NumericalError, match=r"no solution with l2=0\.1.*Use a larger l2"):
        model([7, 8]).recommend(history=[7])


def test_a_row_with_a_time_beyond_all_dates_is_left_out_alone():
    times = np.array(["2020-01-01", "500000-01-01"], "M8[s]")
    found = sdgar.read({"user": [1, 2], "item": [1, 2], "time": times}, allow_bad_rows=True)
    assert found.account.rejected == {"timestamp_range": 1}
    assert found.time_E.tolist() == [1_577_836_800_000_000]


def test_a_last_day_that_databases_write_for_never_is_a_time():
    found = sdgar.read({"user": [1], "item": [1], "time": np.array(["9999-12-31"], "M8[D]")})
    assert found.time_E.tolist() == [253_402_214_400_000_000]
