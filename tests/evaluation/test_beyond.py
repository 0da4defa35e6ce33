"""Metrics beyond accuracy agree with public implementations, or with an enumeration."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdgar
from sdgar.data.history import Coded
from sdgar.data.ids import Ids
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.beyond import Known, newest
from sdgar.evaluation.measures import BEYOND, MEASURES, check_metric, metrics_of
from sdgar.evaluation.ranked import Ranked
from sdgar.recommend.rules import Facts
from sdgar.recommend.rules.terms import CalibrationRule

from .peers import generate
from .problems import held_out, history

AGREED = json.loads(generate.AGREED.read_text())


def coded(genres: list[list[str]]) -> Coded:
    names = sorted({one for row in genres for one in row})
    sizes = [len(row) for row in genres]
    codes = [names.index(one) for row in genres for one in row]
    return Coded(tuple(names), np.cumsum([0, *sizes]), np.array(codes, np.int64))


def ranked(data: dict, metrics: list[str], new: set[int] = frozenset()) -> Ranked:
    """The lists of synthetic data, as ``generate.made_up`` has them."""
    rows = [set(data["history"][user]) for user in data["history"]]
    known = Known(
        n_items=data["items"],
        history=history(rows),
        own=history(rows),
        item_ID=np.array(data["vectors"]),
        coded={"genres": coded(data["genres"]), "category": coded(data["genres"])}.get,
        new_I=np.isin(np.arange(data["items"]), list(new)),
    )
    longest = max(7, *map(len, data["lists"].values()))
    items_TK = np.full((len(data["lists"]), longest), -1)
    for t, row in enumerate(data["lists"].values()):
        items_TK[t, : len(row)] = row
    test = held_out({int(user): set(row) for user, row in data["held_out"].items()})
    return Ranked(items_TK, test, known, metrics_of(metrics, (1,)))


def measured(data: dict, metrics: list[str], new: set[int] = frozenset()) -> dict:
    of_users, overall = ranked(data, metrics, new).values()
    return {**{name: values.tolist() for name, values in of_users.items()}, **overall}


@pytest.mark.parametrize("peer", generate.PEERS)
def test_metrics_have_the_values_of_a_public_implementation(peer):
    wanted = AGREED["values"][peer]
    found = measured(AGREED["data"], list(wanted))
    assert list(found) != []
    for name, values in wanted.items():
        assert found[name] == pytest.approx(values, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("peer", generate.PEERS)
def test_the_values_are_those_that_the_peer_gives_today(peer):
    for needed in (peer, "ranx" if peer == "ir_measures" else peer):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed; its values are in agreed.json")
    call = f"json.dumps(generate.PEERS[{peer!r}](generate.made_up(seed=11)))"
    # ranx would compile each measure for many seconds; as plain Python it needs three for all.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import json, generate; print({call})"],
        cwd=generate.AGREED.parent, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found, data = json.loads(done.stdout), generate.made_up(seed=11)
    own = measured(data, list(found))
    for name, values in found.items():
        assert own[name] == pytest.approx(values, rel=1e-9, abs=1e-9), name


def test_the_agreed_values_are_of_the_data_that_the_script_makes():
    assert AGREED["data"] == generate.made_up()
    agreed = {name.partition("@")[0] for of in AGREED["values"].values() for name in of}
    said = {kind for kind, one in MEASURES.items() if one.same_as != "by enumeration"}
    assert {name.partition(":")[0] for name in agreed} == said


@st.composite
def data_sets(draw: st.DrawFn) -> dict:
    """Lists that may be short or empty, items without genres, and held-out items that are cold."""
    items, users = draw(st.integers(2, 12)), draw(st.integers(1, 4))
    numbers = st.lists(st.integers(0, items - 1), unique=True, max_size=6)
    beyond = st.lists(st.integers(0, items + 1), unique=True, min_size=1, max_size=6)
    names = [str(user) for user in range(users)]
    genres = st.lists(st.sampled_from("abc"), unique=True, max_size=3).map(sorted)
    vector = st.lists(st.integers(-3, 3), min_size=2, max_size=2)
    return {
        "items": items,
        "history": {user: sorted(draw(numbers)) for user in names},
        "held_out": {user: sorted(draw(beyond)) for user in names},
        "lists": {user: draw(numbers) for user in names},
        "vectors": [draw(vector) for _ in range(items)],
        "genres": [["a"], *(draw(genres) for _ in range(items - 1))],
        "new": draw(st.sets(st.integers(0, items - 1))),
    }


def shares(items: list[int], genres: list[list[str]]) -> Counter:
    found: Counter = Counter()
    valued = [genres[i] for i in items if genres[i]]
    for row in valued:
        found.update({one: 1 / (len(row) * len(valued)) for one in row})
    return found


def cosine(one: list[int], two: list[int]) -> float:
    norm = math.hypot(*one) * math.hypot(*two)
    return sum(a * b for a, b in zip(one, two, strict=True)) / norm if norm else 0.0


def jaccard(one: list[str], two: list[str]) -> float:
    return len({*one} & {*two}) / len({*one} | {*two}) if one or two else 0.0


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def enumerated(data: dict, k: int) -> dict:
    """Every metric straight from its definition."""
    n, counts = data["items"], Counter(i for row in data["history"].values() for i in row)
    lists = {user: row[:k] for user, row in data["lists"].items()}
    by_count = sorted(range(n), key=lambda i: (-counts[i], i))
    tenth, fifth = (by_count[: max(1, round(share * n))] for share in (0.1, 0.2))
    active = sum(1 for row in data["history"].values() if row)
    places = sorted(set(counts.values()), reverse=True)
    shown = Counter(i for row in lists.values() for i in row)
    x = sorted(shown[i] for i in range(n))
    gini = sum((2 * j - n - 1) * one for j, one in enumerate(x, 1))
    of_users: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        of_users.setdefault(f"{name}@{k}", []).append(value)

    for user, row in lists.items():
        pairs = list(combinations(row, 2))
        add("popularity", mean([counts[i] for i in row]))
        add("popular", mean([float(i in tenth) for i in row]))
        add("tail", mean([float(i not in fifth) for i in row]))
        add("novelty", mean([-math.log2(max(counts[i], 1) / max(active, 1)) for i in row]))
        apart = [1 - cosine(data["vectors"][i], data["vectors"][j]) for i, j in pairs]
        add("diversity", mean(apart))
        apart = [1 - jaccard(data["genres"][i], data["genres"][j]) for i, j in pairs]
        add("diversity:genres", mean(apart))
        p, q = (shares(items, data["genres"]) for items in (data["history"][user], row))
        eased = {g: 0.99 * q[g] + 0.01 * p[g] for g in p}
        add("calibration", sum(p[g] * math.log(p[g] / eased[g]) for g in p) if p else math.nan)
        found = [(r, i) for r, i in enumerate(row, 1) if i in data["held_out"][user]]
        gains = [
            max((n + 1 - r) / n - ((n - places.index(counts[i])) / n if counts[i] else 0), 0)
            for r, i in found
        ]
        add("serendipity", sum(gains) / k)
        for kind, special in (("new_hit", data["new"]), ("cold_hit", set())):
            wanted = {i for i in data["held_out"][user] if i in special or counts[i] == 0}
            add(kind, float(any(i in wanted for i in row)) if wanted else math.nan)
    return of_users | {
        f"coverage@{k}": len(shown) / n,
        f"gini@{k}": gini / (n * sum(x)) if sum(x) else math.nan,
    }


@given(data=data_sets(), k=st.integers(1, 7))
def test_every_metric_is_what_its_definition_says(data, k):
    wanted = enumerated(data, k)
    found = measured(data, list(wanted), data["new"])
    assert {name.partition("@")[0].partition(":")[0] for name in wanted} == set(BEYOND)
    for name, values in wanted.items():
        assert found[name] == pytest.approx(values, rel=1e-9, abs=1e-9, nan_ok=True), name


@given(data=data_sets())
def test_calibration_is_what_the_rule_of_that_name_lowers(data):
    """The rule and the metric are two programs for one divergence."""
    genres = {i: {"categories": row} for i, row in enumerate(data["genres"])}
    facts = Facts(genres, Ids(np.arange(data["items"])))
    found = measured(data, ["calibration@6"])["calibration@6"]
    for value, (user, row) in zip(found, data["lists"].items(), strict=True):
        own = np.array(data["history"][user], np.int64)
        term = CalibrationRule(strength=1.0).begin(np.array(row, np.int64), own, facts)
        if term is None or not row:
            continue
        for at in range(len(row) - 1):
            term.add(at)
        assert value == pytest.approx(-term.values()[len(row) - 1], rel=1e-9, abs=1e-9)


def test_new_items_are_those_of_the_last_tenth_of_the_rows():
    rows = sdgar.Interactions.from_arrays([0] * 20, list(range(20)), time=list(range(100, 120)))
    assert np.flatnonzero(newest(rows)).tolist() == [18, 19]
    again = sdgar.Interactions.from_arrays([0, 1, 2], ["a", "b", "a"], time=[1, 2, 3])
    assert newest(again).tolist() == [False, False]  # "a" was there before
    assert newest(sdgar.Interactions.from_arrays([0], [1])) is None


def test_names_are_read_and_each_counts_once():
    names = ["ndcg@20", "coverage", "diversity:genres@3", "ndcg@20"]
    found = [one.name for one in metrics_of(names, (5, 10))]
    assert found == ["ndcg@20", "coverage@5", "coverage@10", "diversity:genres@3"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("ndcg@20", "must be a list of names"),
        ([], "must be a list of names"),
        (["ndcg@0"], "such as ndcg@20"),
        (["ndcg@"], "such as ndcg@20"),
        (["ndcg@x"], "such as ndcg@20"),
        (["diversity:@5"], "such as ndcg@20"),
        ([7], "such as ndcg@20"),
        (["ndgc@5"], "Did you mean 'ndcg'"),
        (["ndcg:genres@5"], "Metrics with a column: diversity, calibration"),
        (["ndcg@" + "9" * 19], "such as ndcg@20"),
    ],
)
def test_names_that_mean_nothing_are_refused(names, words):
    with pytest.raises(UsageError, match=words):
        metrics_of(names, (10,))


@pytest.mark.parametrize("name", ["coverage@10", "diversity:genres@10", "new_hit@5"])
def test_epochs_are_chosen_by_accuracy_alone(name):
    with pytest.raises(UsageError, match="by which epochs and settings") as e:
        check_metric(name)
    assert e.value.code == "bad_metric"
    with pytest.raises(UsageError, match="does not measure accuracy"):
        sdgar.BPR(early_stopping__metric=name).fit(sdgar.Interactions.from_arrays([0, 1], [0, 1]))


def test_a_metric_that_has_nothing_to_go_by_is_refused():
    data = AGREED["data"]
    for name, words in [
        ("diversity:maker@5", "needs the column 'maker' of items, and no item has a value there"),
        ("calibration:maker@5", "calibration needs the column 'maker'"),
        ("new_hit@5", "needs to know which items are new"),
    ]:
        lists = ranked(data, [name])
        nothing = {"coded": lambda _: coded([[]] * data["items"]), "new_I": None}
        lists.known.__dict__.update(nothing)
        with pytest.raises(UsageError, match=words):
            lists.values()
    lists = ranked(data | {"held_out": {user: [0] for user in data["held_out"]}}, ["cold_hit@5"])
    with pytest.raises(DataError, match="cold_hit@5 is defined for none of 14 users"):
        lists.require_defined(lists.values()[0])
