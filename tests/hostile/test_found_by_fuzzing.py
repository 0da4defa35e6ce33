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
from ..recommend.test_artifact import edit_manifest
from .cases import check, refused, table

ODD_TEXTS = ["7.0", "None", "True", "[7]", "b'a'", "nan"]
LAST = 2**63 - 1


def model(users: list[Any], **about: Any) -> Recommender:
    """A model in which user number n has item number n, by vectors."""
    data = Interactions.from_arrays(users, users)
    ones = np.ones((len(users), 2), np.float32)
    rule = LeastSquares(alpha=0.1, l2=0.1, power=1.0)
    factors = Factors(ones, ones.copy(), np.zeros(len(users), np.float32), rule)
    about = {"system": "ials"} | about
    return Recommender(artifact.Artifact(factors, data.users, data.items, data.history, about))


def queried(ask: Callable[[Recommender], Any], users: Any = (7, 8, 55)) -> Callable[[Path], Any]:
    return lambda _: ask(model(list(users)))


def folded(**settings: Any) -> Callable[[Path], Any]:
    """Ask a model of iALS for a new user; the numbers of its rule were changed."""

    def act(folder: Path) -> Any:
        saved = artifact.save(model([7, 8]).saved, folder / "model")
        rule = json.loads((saved / "manifest.json").read_text())["fold_in"]
        edit_manifest(saved, fold_in=rule | settings)
        return sdgar.load(saved).recommend(history=[7])

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


def logged(**changes: Any) -> Callable[[State, State], None]:
    """Change what the log says of the first epoch."""
    return lambda _, loop: loop["log"][0].update(changes)


def with_tensor(name: str, value: Any) -> Callable[[State, State], None]:
    return lambda tensors, _: tensors.update({name: value})


def with_sampler(name: str, at: Any, value: Any) -> Callable[[State, State], None]:
    return lambda tensors, _: tensors[f"engine.sampler.{name}"].__setitem__(at, value)


def with_best(at: Any, value: Any) -> Callable[[Path], Any]:
    """Resume a run of a search whose best items are others."""
    return resumed("search", 1, with_sampler("best_UM", at, value))


ONE = np.ones(1, np.float32)  # which NumPy would spread
THREE = np.ones((3, 2), np.float32)
PLACES = ['["ann","Oslo"]']
NO_IDS = (7.0, None, True, [7], b"a", np.nan, np.array([7]))

CALLS = {
    "items are a class": (queried(lambda m: m.recommend(items=list)), "items"),
    **{
        f"{value!r} is requested where its spelling is an id": (odd(value), "ids")
        for value in NO_IDS
    },
    "a list length is 2.5": (measured((2.5,)), "got 2.5"),
    "there are no list lengths": (measured(()), "got ()"),
    "similar items are 2.5": (queried(lambda m: m.similar_items(7, k=2.5)), "k must be"),
    "a history has no axis": (queried(lambda m: m.fold_in([np.array(7)])), "list of items"),
    "a column has no axis": (read(user=np.array(7)), "'user'", "7"),
    "a column of objects has no axis": (read(user=np.array(None)), "'user'"),
}
TIMES = {
    **{
        f"the last {unit} of {count}": pl.Series([count], dtype=unit)
        for unit in (pl.Date, pl.Datetime("ms"), pl.Datetime("us"))
        for count in ((2**31 - 1, -(2**31)) if unit == pl.Date else (LAST, -LAST))
    },
    **{
        f"of NumPy and {count} {unit}": np.array([count]).view(f"M8[{unit}]")
        for unit, count in (("s", 2**44), ("W", 2**62 + 12345), ("Y", -(2**62)))
    },
}
BEYOND = np.array(["2020-01-01", "500000-01-01"], "M8[s]")

ROWS = {
    "an array has half a surrogate pair": (read(user=np.array(["\ud800"])), "'user'", "Unicode"),
    "ids are lengths of time": (read(user=np.array([7], "m8[s]")), "Duration"),
    **{
        f"a time is {name}": (read(timestamp=times), "timestamp_range", "row 1")
        for name, times in TIMES.items()
    },
    "a time of an array cannot be counted": (
        lambda _: Interactions.from_arrays([1, 2], [1, 2], time=BEYOND),
        "row 2",
        "500000-01-01",
    ),
}

SAVED = {
    "a context has its user twice": (loaded(["user", "user"], PLACES), "each once"),
    "a context has no user": (loaded(["city", "time"], PLACES), "the user"),
    "a field is called item": (loaded(["user", "item"], PLACES), "'item'"),
    "a context has too many fields": (loaded(["user", "city", "x"], PLACES), "3 values"),
    "a context is no list": (loaded(["user", "city"], ['"ab"']), "2 values"),
    "values of fields lack vectors": (loaded(["user", "city"], PLACES, vectors=1), "1 vectors"),
    "alpha is beyond all floats": (folded(alpha=10**400), "alpha", "damaged"),
    "l2 is negative": (folded(l2=-(2**70)), "l2", "damaged"),
    "the power is no number": (folded(power="much"), "power", "damaged"),
    "a pass had its best epoch later": (
        resumed("bpr", 4, lambda _, loop: loop["finished"]["choose"].update(best_epoch=10**9)),
        "best epoch",
        "1000000000",
    ),
    "an epoch took 10^400 seconds": (
        resumed("bpr", 1, logged(train_seconds=10**400)),
        "train_seconds",
    ),
    "an epoch took less than no time": (resumed("bpr", 1, logged(train_seconds=-1.0)), "seconds"),
    "the best epoch was not measured": (
        resumed("bpr", 1, logged(best=True, metric=None)),
        "epoch 1",
        "not measured",
    ),
    "a loss is no number": (resumed("bpr", 1, logged(loss=float("nan"))), "loss", "epoch 1", "nan"),
    "masses do not add up": (
        resumed("sdgar, fused", 1, with_sampler("x_mass_UK", (6, 1), 2**62)),
        "add up",
    ),
    "an order names no item": (
        resumed("aobpr", 1, with_sampler("order_KI", (0, 0), 10**9)),
        "order of the items",
    ),
    "a best item is none": (with_best((0, 0), 10**9), "best items"),
    "best items have a gap": (with_best((0, slice(2)), [-1, 0]), "gap"),
    "a best item comes twice": (with_best((0, slice(2)), 3), "twice"),
    "a bin leads nowhere": (
        resumed("aobpr", 1, with_sampler("factor_bin_UK", (0, 0), 2**40)),
        "leads nowhere",
    ),
    "a moment is missing": (
        resumed("bpr", 1, lambda tensors, _: tensors.pop("engine.optimizer.1.sum")),
        "optimizer.1.sum",
    ),
    "a moment is of one item": (
        resumed("bpr, fused", 1, with_tensor("engine.optimizer.sum_I", ONE)),
        "sum_I",
        "(1,)",
    ),
    "the best model is of others": (
        resumed("bpr", 1, with_tensor("best.user_UD", THREE)),
        "user_UD",
        "(3, 2)",
    ),
}


@table([*refused(2, CALLS), *refused(3, ROWS), *refused(4, SAVED)])
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
    found = sdgar.read({"user": [1, 2], "item": [1, 2], "time": BEYOND}, allow_bad_rows=True)
    assert found.account.rejected == {"timestamp_range": 1}
    assert found.time_E.tolist() == [1_577_836_800_000_000]


def test_a_last_day_that_databases_write_for_never_is_a_time():
    found = sdgar.read({"user": [1], "item": [1], "time": np.array(["9999-12-31"], "M8[D]")})
    assert found.time_E.tolist() == [253_402_214_400_000_000]
