"""Contexts of several fields, from files to recommendations."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest
import torch

import sdgar
from sdgar.data.contexts import DERIVED, Fields, combined, derived
from sdgar.data.interactions import Interactions
from sdgar.data.merge import merge
from sdgar.data.readers import ReadOptions, read, read_frame, read_options
from sdgar.data.tables import events
from sdgar.discriminators.bounded import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import DataError, SdgarWarning, UsageError

DAY = 24 * 3_600_000_000
PARTS = ("night", "morning", "afternoon", "evening")


def test_contexts_are_the_combinations_that_occur_and_come_apart_again():
    ids, rows = combined(
        {"user": np.array([7, 10, 7, 7]), "city": np.array(["ü", "b", "b", "ü"], dtype=object)}
    )
    assert ids.values.tolist() == ['[10,"b"]', '[7,"b"]', '[7,"ü"]']
    assert rows.tolist() == [2, 0, 1, 2]
    fields = Fields.of(("user", "city"), ids)
    assert [v.values.tolist() for v in fields.values] == [[7, 10], ["b", "ü"]]
    assert fields.index_UF.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert fields.place_UF.tolist() == [[1, 2], [0, 2], [0, 3]]
    assert fields.key({"city": "ü", "user": "7"}) == '[7,"ü"]'
    assert fields.places({"city": "b", "user": 10}).tolist() == [1, 2]


def test_derived_fields_are_those_of_the_calendar_in_utc():
    micros = np.array(
        ["2026-11-16T05:59:59", "2026-11-15T18:00:00", "1969-12-31T23:00:00"], "M8[us]"
    )
    micros = micros.astype(np.int64)
    assert DERIVED["hour"](micros).tolist() == [5, 18, 23]
    assert DERIVED["weekday"](micros).tolist() == ["monday", "sunday", "wednesday"]
    assert DERIVED["daypart"](micros).tolist() == ["night", "evening", "evening"]
    with pytest.raises(DataError, match="--time-column"):
        derived("hour", None)


@pytest.fixture
def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "user": ["ann", "ann", "bob", "ann"],
            "item": [1, 2, 1, 1],
            "city": ["Rome", "Oslo", "Rome", "Oslo"],
            "timestamp": [3600, 8 * 3600, 30, 20 * 3600],
        }
    )


def test_files_and_frames_are_read_with_their_contexts(frame, tmp_path):
    frame.write_csv(tmp_path / "events.csv")
    for source in (frame, tmp_path / "events.csv"):
        data = read(source, context=("user", "city", "daypart"))
        assert data.context == ("user", "city", "daypart")
        found = {
            (*json.loads(data.users.values[u]), int(data.items.values[i]))
            for u, i in zip(data.users_E, data.items_E, strict=True)
        }
        assert found == {
            ("ann", "Rome", "night", 1),
            ("ann", "Oslo", "morning", 2),
            ("bob", "Rome", "night", 1),
            ("ann", "Oslo", "evening", 1),
        }
    plain = read(frame)
    assert plain.fields is None
    assert len(plain) == 3  # Ann had item 1 twice


def test_rows_are_written_with_a_column_for_each_field_and_read_again(frame):
    for names in (("user", "city"), ("user", "daypart")):
        data = read(frame, context=names)
        written = events(data)
        assert written.columns == [*names, "item", "timestamp"]
        again = read(written, context=names)
        assert again.fingerprint() == data.fingerprint()


def test_what_cannot_be_a_context_is_refused(frame):
    with pytest.raises(UsageError, match="'town'"):
        read(frame, context=("user", "town"))
    for wrong in (("city",), ("user", "user")):
        with pytest.raises(UsageError, match="each once"):
            read(frame, context=wrong)
    with pytest.raises(DataError, match="--time-column"):
        read(frame.drop("timestamp"), context=("user", "hour"))
    with pytest.raises(DataError, match="no value of a field"):
        read(
            frame.with_columns(city=pl.Series(["Rome", None, "Rome", "Oslo"])),
            context=("user", "city"),
        )
    kept = read_frame(
        frame.with_columns(city=pl.Series(["Rome", None, "Rome", "Oslo"])),
        read_options(context=("user", "city"), allow_bad_rows=True),
    ).interactions
    assert kept.account.rejected == {"missing_field": 1}
    with pytest.raises(DataError, match="differ"):
        merge(read(frame), read(frame, context=("user", "city")))


def test_parts_keep_their_contexts(frame):
    data = read(frame, context=("user", "city"))
    part = data.subset(np.array([True, False, True, True]), "some")
    assert part.context == data.context
    assert merge(part, data).fields.names == ("user", "city")


@pytest.mark.parametrize("kind", [MatrixFactorization, Cosine])
def test_a_context_is_the_sum_of_the_vectors_of_its_fields(kind):
    fields = Fields.of(("user", "part"), combined(
        {"user": np.array([0, 0, 1, 2]), "part": np.array(["a", "b", "a", "b"], dtype=object)}
    )[0])  # fmt: skip
    more = {"tau": 0.2} if kind is Cosine else {}
    model = kind(4, 5, 3, seed=1, fields=fields, **more)
    assert model.user_UD.shape == (5, 3)
    u_UD = torch.stack([model.user_UD[list(row)].sum(0) for row in fields.place_UF.tolist()])
    if kind is Cosine:
        u_UD = u_UD / u_UD.norm(dim=1, keepdim=True) / 0.2
    factors = model.factors()
    torch.testing.assert_close(factors.user_UD, u_UD)
    for row, place in enumerate(fields.place_UF):
        found_UD = torch.from_numpy(factors.model().contexts(place[None]))
        torch.testing.assert_close(found_UD, u_UD[[row]])
    users_B, items_BN = torch.tensor([3, 0]), torch.tensor([[0, 4], [2, 2]])
    torch.testing.assert_close(
        model.score(users_B, items_BN), factors.score_all(users_B).gather(1, items_BN)
    )


def tastes(seed: int = 0) -> tuple[Interactions, Interactions, Interactions]:
    """Synthetic events: everybody likes one of eight kinds, of it the light items in the morning.

    And the dark ones in the evening. Training and test rows with contexts of (user, daypart), and
    the training rows with users alone.
    """
    rng = np.random.default_rng(seed)
    kind, dark = np.arange(320) % 8, np.arange(320) // 8 % 2 == 1
    rows = []
    for user in range(150):
        for hour in (8, 20):
            liked = np.flatnonzero((kind == user % 8) & (dark == (hour > 12)))
            chosen = rng.choice(liked, 12, replace=False)
            rows += [(user, item, hour, place >= 9) for place, item in enumerate(chosen)]
    user, item, hour, test = map(np.array, zip(*rows, strict=True))
    part = np.array(PARTS, dtype=object)[hour // 6]
    train, held_out = (
        Interactions.from_contexts({"user": user[some], "daypart": part[some]}, item[some])
        for some in (~test, test)
    )
    return train, held_out, Interactions.from_arrays(user[~test], item[~test])


SETTINGS = {
    "bpr": {"dim": 16, "epochs": 60, "early_stopping": False, "batch_size": 256},
    "sdsoftmax": {"dim": 16, "epochs": 15, "early_stopping": False, "batch_size": 256},
}


@pytest.mark.parametrize("system", SETTINGS)
def test_a_taste_that_depends_on_the_daypart_wants_a_context_that_has_it(system, tmp_path):
    train, test, of_users = tastes()
    kind = {"bpr": sdgar.BPR, "sdsoftmax": sdgar.SDSoftmax}[system]
    model = kind(**SETTINGS[system]).fit(train)
    alone = kind(**SETTINGS[system]).fit(of_users)
    hits = {"context": 0, "user": 0}
    wanted = 0
    for row, text in enumerate(test.users.values):
        user, part = json.loads(text)
        truth = {int(test.items.values[i]) for i in test.history.of(row)}
        lists = {
            "context": model.recommend({"user": user, "daypart": part}, k=10),
            "user": alone.recommend([user], k=10),
        }
        for name, frame in lists.items():
            hits[name] += len(truth & set(frame["item"].to_list()))
        wanted += len(truth)
    # A context that sees all has 11 items to choose 10 from, a user without daypart 22.
    assert hits["context"] / wanted > 0.8
    assert hits["context"] > 1.5 * hits["user"]
    loaded = sdgar.load(model.save(tmp_path / "model"))
    query = {"user": user, "daypart": part}
    assert loaded.recommend(query, k=3).equals(model.recommend(query, k=3))
    assert model.evaluate(test).means()["recall@10"] == pytest.approx(hits["context"] / wanted)


def test_a_context_that_did_not_occur_is_made_up_of_its_fields():
    train, _, of_users = tastes()
    keep = np.array([json.loads(t) != [0, "evening"] for t in train.users.values])[train.users_E]
    part = train.subset(keep, "no evenings of user 0")
    model = sdgar.BPR(**SETTINGS["bpr"]).fit(part)
    frame = model.recommend(
        [{"user": 0, "daypart": "evening"}, {"user": "1", "daypart": "morning"}]
    )
    assert frame.columns == ["user", "daypart", "rank", "item", "score", "short", "basis"]
    assert frame["user"].to_list() == [0] * 10 + [1] * 10
    with pytest.raises(UsageError, match=r"has no daypart 'noon'"):
        model.recommend({"user": 0, "daypart": "noon"}, fallback="error")
    with pytest.raises(UsageError, match="user, daypart"):
        model.recommend({"user": 0})
    for query in ([0], "ann"):
        with pytest.raises(UsageError, match="mapping with these"):
            model.recommend(query)
    with pytest.raises(UsageError, match="the user alone"):
        sdgar.MostPopular().fit(of_users).recommend({"user": 0, "daypart": "evening"})
    neighbours = sdgar.ItemKNN().fit(part)
    assert len(neighbours.recommend({"user": 0, "daypart": "morning"}, k=2)) == 2
    with pytest.raises(UsageError, match="only rank for contexts that did"):
        neighbours.recommend({"user": 0, "daypart": "evening"}, fallback="error")
    query = [{"user": 9999, "daypart": "noon"}, {"user": "0", "daypart": "morning"}]
    for some in (model, neighbours):
        with pytest.warns(SdgarWarning, match=r"1 contexts are unknown.*no user 9999.*popular"):
            frame = some.recommend(query, k=2)
        assert frame["user"].to_list() == [9999, 9999, 0, 0]
        assert frame["daypart"].to_list() == ["noon", "noon", "morning", "morning"]
        assert frame["basis"].to_list() == ["popular", "popular", "model", "model"]
        with pytest.warns(SdgarWarning, match="left out"):
            assert set(some.recommend(query, k=2, fallback="skip")["user"]) == {0}
        with pytest.warns(SdgarWarning, match="left out"):
            assert len(some.recommend(query[:1], k=2, fallback="skip")) == 0


def test_contexts_that_did_not_occur_are_measured_too_and_missed_by_models_without_fields():
    train, test, _ = tastes()
    evening = np.array([json.loads(t)[0] < 30 and "evening" in t for t in train.users.values])
    part = train.subset(~evening[train.users_E], "30 evenings")
    model = sdgar.BPR(**SETTINGS["bpr"]).fit(part)
    report = model.evaluate(test)
    assert (report.counts.users, report.counts.unknown_users) == (300, 0)
    assert (report.counts.unseen_contexts, report.counts.unranked_contexts) == (30, 0)
    new = part.n_users + np.arange(30)
    assert set(report.users_T) == set(range(part.n_users)) | set(new)
    hits = 0
    for row, text in enumerate(test.users.values):
        user, when = json.loads(text)
        if user >= 30 or when != "evening":
            continue
        truth = {int(test.items.values[i]) for i in test.history.of(row)}
        found = model.recommend({"user": user, "daypart": when}, k=10)["item"].to_list()
        hits += len(truth & set(found))
    made_up = np.isin(report.users_T, new)
    assert report.per_user["recall@10"][made_up].sum() == pytest.approx(hits / 3)
    popular = sdgar.MostPopular().fit(part).evaluate(test)
    assert popular.counts.unranked_contexts == 0
    neighbours = sdgar.ItemKNN().fit(part).evaluate(test)
    assert neighbours.counts.unranked_contexts == 30
    assert neighbours.per_user["recall@50"][made_up].sum() == 0
    assert neighbours.per_user["recall@50"][~made_up].mean() > 0.5
    sdgar.compare(report, neighbours, metric="ndcg@10")


ANN = {
    "user": ["ann", "ann", "ann", "bob", "bob", "cid", "cid"],
    "city": ["Rome", "Rome", "Oslo", "Rome", "Oslo", "Rome", "Oslo"],
}
HAD = [1, 2, 3, 1, 4, 2, 3]


def listed(model, user: str, city: str) -> set[int]:
    return set(model.recommend({"user": user, "city": city}, k=4)["item"].drop_nulls())


@pytest.mark.parametrize("model", [sdgar.MostPopular(), sdgar.BPR(dim=2, epochs=1, seed=1)])
def test_what_a_user_has_is_left_out_in_all_contexts_or_only_where_they_have_it(model, tmp_path):
    by_user = Interactions.from_contexts(ANN, HAD)
    model.set_params(**({"early_stopping": False} if isinstance(model, sdgar.BPR) else {}))
    model.fit(by_user)
    loaded = sdgar.load(model.save(tmp_path / "by user"))
    for one in (model, loaded):
        assert listed(one, "ann", "Rome") == listed(one, "ann", "Oslo") == {4}
        assert listed(one, "bob", "Oslo") == {2, 3}
        assert set(one.recommend(k=4).filter(pl.col("user") == "ann")["item"]) == {4}
    model.fit(Interactions.from_contexts(ANN, HAD, seen_by="context"))
    loaded = sdgar.load(model.save(tmp_path / "by context"))
    for one in (model, loaded):
        assert listed(one, "ann", "Rome") == {3, 4}
        assert listed(one, "ann", "Oslo") == {1, 2, 4}
    with pytest.raises(UsageError, match="unknown seen_by 'city'"):
        Interactions.from_contexts(ANN, HAD, seen_by="city")
    with pytest.raises(UsageError, match="--context"):
        ReadOptions(seen_by="context")


def test_negatives_and_lists_of_evaluations_leave_out_the_same():
    data = Interactions.from_contexts(ANN, HAD)
    test = Interactions.from_contexts({"user": ["ann"] * 3, "city": ["Oslo"] * 3}, [1, 3, 4])
    for seen_by, left_out, known, found in (
        ("user", [{1, 2, 3}, {1, 2, 3}, {1, 4}, {1, 4}], 2, 1 / 3),
        ("context", [{3}, {1, 2}, {4}, {1}], 1, 2 / 3),
    ):
        train = dataclasses.replace(data, seen_by=seen_by)
        have = [set(train.items.at(train.excluded.of(u))) for u in range(4)]
        assert have == left_out  # ann in Oslo and Rome, bob in Oslo and Rome
        with pytest.warns(SdgarWarning, match="another context" if known == 2 else "training rows"):
            report = sdgar.MostPopular().fit(train).evaluate(test)
        assert (report.counts.known_rows, report.counts.training_rows) == (known, 1)
        assert report.means()["recall@10"] == pytest.approx(found)
    assert data.fingerprint() != train.fingerprint()


def test_a_new_context_of_a_user_leaves_out_what_the_user_has_too():
    part = Interactions.from_contexts(ANN, HAD)
    part = part[np.array(["cid" not in t or "Oslo" not in t for t in part.users.values])[
        part.users_E
    ]]  # fmt: skip
    new = Interactions.from_contexts({"user": ["cid"], "city": ["Oslo"]}, [2])
    for seen_by, rest, recall in (("user", {1, 3, 4}, 0), ("context", {1, 2, 3, 4}, 1)):
        model = sdgar.MostPopular().fit(dataclasses.replace(part, seen_by=seen_by))
        assert listed(model, "cid", "Oslo") == rest
        report = model.recommender_.evaluate(new, ks=(10,)) if recall else None
        if report is None:
            with pytest.warns(SdgarWarning, match="--seen-by context"):
                report = model.evaluate(new)
        assert report.means()["recall@10"] == recall
        assert report.counts.unseen_contexts == 1


def test_rows_rated_low_are_left_out_in_all_contexts_of_their_user():
    rated = {**ANN, "item": HAD, "rating": [5, 1, 5, 5, 5, 5, 5]}
    data = read(rated, context=("user", "city"), min_rating=4)
    model = sdgar.MostPopular().fit(data)
    assert len(data) == 6
    assert listed(model, "ann", "Rome") == listed(model, "ann", "Oslo") == {4}


def test_contexts_of_two_files_match_whether_values_are_numbers_or_text():
    numbers = Interactions.from_contexts({"user": [1, 1, 2], "zip": [5, 6, 5]}, [1, 2, 1])
    texts = Interactions.from_contexts(
        {"user": ["1", "2", "2", "1"], "zip": ["6", "6", "?", "5"]}, [2, 2, 2, 1]
    )
    assert texts.users.values.tolist() == ['["1","5"]', '["1","6"]', '["2","6"]', '["2","?"]']
    number, places = numbers.fields.match(texts.fields)
    assert number.tolist() == [0, 1, 3, -1]
    assert places.tolist() == [[1, 3]]
    with pytest.raises(DataError, match="different kinds"):
        merge(numbers, texts)


def test_bad_contexts_of_arrays_are_refused():
    plain = Interactions.from_contexts({"user": ["a", "b"]}, [1, 2])
    assert plain.fields is None
    assert plain.users.values.tolist() == ["a", "b"]
    for fields, error, said in (
        ({}, UsageError, "got none"),
        ({"city": ["x"]}, UsageError, "has the user"),
        ({"user": [1], "rank": [1]}, UsageError, "cannot be called 'rank'"),
        ({"user": [1, 2], "city": ["x"]}, DataError, "user 2, city 1"),
        ({"user": [1, 2], "city": ["x", "y"]}, DataError, "items 1"),
    ):
        with pytest.raises(error, match=said):
            Interactions.from_contexts(fields, [7])
    with pytest.raises(DataError, match="users 2, items 1"):
        Interactions.from_arrays([1, 2], [7])


def test_a_history_with_a_context_is_refused_and_everybody_gets_something():
    train, _, _ = tastes()
    model = sdgar.MostPopular().fit(train)
    with pytest.raises(UsageError, match="not both"):
        model.recommend({"user": 0, "daypart": "evening"}, history=[1])
    assert len(model.recommend([])) == 0
