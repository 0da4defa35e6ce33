"""Rules on the lists of a model, in Python and on the command line."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sdgar
from sdgar.errors import DataError, SdgarWarning, UsageError
from sdgar.evaluation import DEFINITIONS
from sdgar.recommend.evaluating import effect_of
from sdgar.recommend.rules import Rules

from ...cli.test_cli import result_of
from ...cli.test_cli import sdgar as command

USERS, ITEMS = 40, 30
MAKERS = ("acme", "bolt", "coil")


@pytest.fixture(scope="module")
def data() -> sdgar.Interactions:
    rng = np.random.default_rng(0)
    pairs = {(u, int(i)) for u in range(USERS) for i in rng.integers(0, ITEMS, 8) ** 2 // ITEMS}
    users, items = zip(*sorted(pairs), strict=True)
    return sdgar.Interactions.from_arrays([f"u{u}" for u in users], [f"i{i}" for i in items])


@pytest.fixture(scope="module")
def parts(data) -> sdgar.data.splits.Split:
    return sdgar.split(data, "paper")


@pytest.fixture(scope="module")
def model(parts) -> sdgar.Recommender:
    return sdgar.EASE(l2=5.0).fit(parts.train).recommender_


@pytest.fixture(scope="module")
def table(data) -> dict[str, dict]:
    return {
        str(item): {"categories": ["drama", "crime"][: 1 + at % 2], "maker": MAKERS[at % 3]}
        for at, item in enumerate(data.items.values)
    }


def test_rules_act_on_every_list_and_say_so(model, table):
    rules = Rules.of({"cap": {"by": "maker", "at_most": 1}, "boost": {"items": ["i9"], "by": 9}})
    found = model.recommend_lists(None, k=5, rules=rules.using(table))
    assert len(found) == len(model.users)
    for own in found.dicts():
        makers = [table[entry["item"]]["maker"] for entry in own["items"]]
        assert sorted(makers) == sorted(MAKERS)
        assert own["short"]
        boosted = ["boosted by 9: item i9" in entry["rules"] for entry in own["items"]]
        assert boosted == [entry["item"] == "i9" for entry in own["items"]]
        assert not any(boosted[1:])
        scores = model.score_pairs(own["user"], [entry["item"] for entry in own["items"]])
        listed = [entry["score"] for entry in own["items"]]
        assert listed == pytest.approx(scores["score"].to_list(), abs=1e-6)


def test_a_pin_has_the_score_of_the_model_and_is_not_listed_to_those_who_have_it(model):
    item = model.items.values[int(np.bincount(model.history.items_E).argmax())]
    rules = Rules.of({"pin": {"items": [item]}})
    frame = model.recommend(None, k=3, rules=rules)
    first = frame.filter(frame["rank"] == 1)
    has = {
        user
        for at, user in enumerate(model.users.values.tolist())
        if item in model.items.at(model.history.of(at)).tolist()
    }
    assert 0 < len(has) < len(model.users)
    for row in first.iter_rows(named=True):
        assert (row["item"] == item) == (row["user"] not in has)
        assert row["rules"] == ("pinned" if row["item"] == item else "")
    others = first.filter(first["item"] == item)
    scores = model.score_pairs(others["user"].to_list(), item)["score"].to_list()
    assert others["score"].to_list() == pytest.approx(scores)
    seen = model.recommend(None, k=1, rules=rules, exclude_seen=False)
    assert set(seen["item"]) == {item}
    out = model.recommend(None, k=1, rules=rules, exclude=[item])
    assert item not in set(out["item"])


def test_no_rules_change_nothing_but_the_column(model):
    plain = model.recommend(None, k=7)
    assert plain.columns == ["user", "rank", "item", "score", "short", "basis"]
    with_none = model.recommend(None, k=7, rules=Rules.none())
    assert with_none.columns == [*plain.columns, "rules"]
    assert with_none.drop("rules").equals(plain)
    assert set(with_none["rules"]) == {""}


def test_a_list_that_caps_make_short_is_looked_for_among_more_candidates():
    """A hundred candidates do not reach the items of other makers behind 200 of one."""
    items = [f"i{i:03d}" for i in range(203)]
    users = [f"u{u}" for i in range(203) for u in range(204 - i)]
    listed = [items[i] for i in range(203) for _ in range(204 - i)]
    data = sdgar.Interactions.from_arrays(users, listed)
    table = {item: {"maker": "acme" if at < 200 else f"m{at}"} for at, item in enumerate(items)}
    rules = Rules.of({"cap": {"by": "maker", "at_most": 1}}).using(table)
    model = sdgar.MostPopular().fit(data)
    assert rules.depth(4) == 100
    found = model.recommend("u203", k=4, rules=rules, exclude_seen=False)
    assert found["item"].to_list() == ["i000", "i200", "i201", "i202"]


def test_unknown_and_new_users_have_lists_by_the_same_rules(model, table):
    rules = Rules.of({"block": {"categories": ["crime"]}, "pin": {"items": ["i1"]}})
    with pytest.warns(SdgarWarning, match="unknown to the model"):
        found = model.recommend_lists(["u1", "nobody"], k=3, rules=rules.using(table))
    own = found.dicts()[1]
    assert own["basis"] == "popular"
    assert all(table[entry["item"]]["categories"] == ["drama"] for entry in own["items"])
    rules = Rules.none().using(table, diversity=0.5, popularity=-0.3)
    found = model.recommend(history=["i0", "i1"], k=4, rules=rules, why=True)
    assert found.columns[-2:] == ["because", "rules"]
    assert set(found["because"].drop_nulls()) <= {"i0", "i1"}


def test_pieces_have_the_lists_of_the_whole(model, table):
    rules = Rules.of({"exploration": {"temperature": 0.5}, "cap": {"at_most": 2}}).using(table)
    whole = model.recommend_lists(None, k=4, rules=rules)
    pieces = list(model.lists_in_pieces(None, 4, rows=100, rules=rules))
    assert len(pieces) > 1
    assert np.array_equal(np.concatenate([p.items_TK for p in pieces]), whole.items_TK)
    assert tuple(notes for p in pieces for notes in p.notes) == whole.notes
    blocked = Rules.of({"block": {"items": model.items.values[:15].tolist()}})
    found = model.recommend_lists(None, k=5, exclude_seen=False, rules=blocked)
    assert not found.short_T.any()  # blocked items do not make lists short
    assert found.items_TK.min() >= 15


def test_users_explore_different_items_and_another_seed_others(model):
    rules = Rules.of({"exploration": {"temperature": 50.0}})
    one = model.recommend_lists(None, k=3, rules=rules, exclude_seen=False).items_TK
    again = model.recommend_lists(None, k=3, rules=rules, exclude_seen=False).items_TK
    other = model.recommend_lists(None, k=3, rules=rules.using(seed=9), exclude_seen=False).items_TK
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert len({tuple(row) for row in one.tolist()}) > USERS // 2


def test_what_is_no_rules_or_names_nothing_is_reported(model, table):
    with pytest.warns(SdgarWarning, match="fields that no item has: makr"):
        model.recommend("u1", rules=Rules.of({"cap": {"by": "makr", "at_most": 1}}).using(table))
    with pytest.raises(UsageError, match="rules must be Rules"):
        model.recommend("u1", rules={"cap": {}})
    with pytest.raises(UsageError, match="facts must be fields by item id"):
        Rules.none().using(["a"])


def test_models_with_vectors_compare_items_by_them(parts):
    model = sdgar.IALS(dim=4).fit(parts.train)
    found = model.recommend(None, k=5, rules=Rules.none().using(diversity=0.9))
    assert found["rules"].str.contains("moved up for diversity").any()
    popular = sdgar.MostPopular().fit(parts.train)
    with pytest.raises(UsageError, match="no categories and no vectors"):
        popular.recommend(None, k=5, rules=Rules.none().using(diversity=0.9))


def means_of(*given, **options) -> list[dict[str, float]]:
    return [report.means() for report in effect_of(*given, **options)]


def test_the_effect_of_rules_is_measured_on_the_same_users(model, parts, table):
    without, ruled = means_of(Rules.none(), model, parts.held_out, ks=(3, 5))
    assert without == ruled
    assert without["ndcg@5"] == model.evaluate(parts.held_out, ks=(3, 5)).means()["ndcg@5"]
    rules = Rules.none().using(table, popularity=-0.9, diversity=0.3)
    rare = effect_of(rules, model, parts.held_out, ks=(3, 5))
    without, ruled = (report.means() for report in rare)
    assert ruled["popular@5"] < without["popular@5"]
    assert ruled["coverage@5"] != without["coverage@5"]
    lists = model.recommend_lists(None, k=5).items_TK
    assert without["coverage@5"] == len(np.unique(lists)) / len(model.items)
    assert sdgar.compare(*rare, "ndcg@5").users == len(rare[0].users_T)


def test_the_effect_on_new_users_is_measured_too(data, table):
    part = sdgar.split(data, "users:0.2")
    model = sdgar.EASE(l2=5.0).fit(part.train).recommender_
    rules = Rules.none().using(table, diversity=0.5)
    found = means_of(rules, model, part.held_out, ks=(5,), histories=part.histories)
    wanted = model.evaluate(
        part.held_out, ks=(5,), histories=part.histories, facts=table,
        metrics=[*DEFINITIONS, "popular", "diversity", "coverage"],
    ).means()  # fmt: skip
    assert found[0] == wanted
    with pytest.raises(UsageError, match="Pass one of them"):
        effect_of(rules, model, part.held_out, ks=(5,), seen=part.train, histories=part.histories)


def test_lists_that_are_too_short_for_diversity_have_none(model, parts, table):
    found = means_of(Rules.none().using(table, diversity=0.5), model, parts.held_out, ks=(1,))
    assert "diversity@1" not in found[1]
    one = Rules.of({"allow": [{"items": ["i0"]}]}).using(table)
    without, ruled = means_of(one, model, parts.held_out, ks=(3,))
    assert "diversity@3" in without
    assert "diversity@3" not in ruled
    assert ruled["coverage@3"] == 1 / len(model.items)


def test_diversity_of_lists_is_one_minus_the_mean_cosine(parts):
    model = sdgar.IALS(dim=4).fit(parts.train).recommender_
    rules = Rules.none().using(diversity=0.6)
    without, ruled = means_of(rules, model, parts.held_out, ks=(4,))
    assert ruled["diversity@4"] > without["diversity@4"]
    vectors = model.factors.item_ID.astype(float)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    held = {parts.held_out.users.values[u] for u in parts.held_out.users_E}
    lists = model.recommend_lists(sorted(held & set(model.users.values)), k=4).items_TK
    apart = [(16 - (unit[row] @ unit[row].T).sum()) / 12 for row in lists]
    assert without["diversity@4"] == pytest.approx(np.mean(apart), abs=1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model, parts, table):
    home = tmp_path_factory.mktemp("rules")
    model.save(home / "run")
    held = parts.held_out
    rows = zip(held.users.at(held.users_E), held.items.at(held.items_E), strict=True)
    (home / "test.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in rows))
    (home / "items.csv").write_text(
        "item,categories,maker\n"
        + "".join(f"{i},{'|'.join(f['categories'])},{f['maker']}\n" for i, f in table.items())
    )
    (home / "rules.toml").write_text('[[cap]]\nby = "maker"\nat_most = 1\n')
    return home


def test_the_command_line_takes_rules_facts_and_options(folder, table):
    facts, rules = ("--item-facts", folder / "items.csv"), ("--rules", folder / "rules.toml")
    done = command("recommend", folder / "run", "--user", "u1", "-k", 3, *rules, *facts, "--json")
    (one,) = result_of(done)["recommendations"]
    assert len({table[entry["item"]]["maker"] for entry in one["items"]}) == 3
    assert any(entry["rules"] for entry in one["items"])
    done = command(
        "recommend", folder / "run", "--all", "-k", 2, "--exclude-category", "crime", *facts,
        "--diversity", "0.2", "--popularity", "-0.5", "-o", folder / "lists.csv",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    header, *lines = (folder / "lists.csv").read_text().splitlines()
    assert header == "user,rank,item,score,short,basis,rules"
    assert all(table[line.split(",")[2]]["categories"] == ["drama"] for line in lines)
    done = command("recommend", folder / "run", "--user", "u1", *rules, *facts)
    assert "kept: at most 1 of" in done.stdout


def test_evaluate_shows_what_rules_do(folder):
    words = ("evaluate", folder / "run", "--test", folder / "test.csv", "--k", 5)
    files = ("--rules", folder / "rules.toml", "--item-facts", folder / "items.csv")
    said = result_of(command(*words, *files, "--json"))
    assert said["rules"]["without"]["ndcg@5"] == said["test"]["ndcg@5"]
    assert {"coverage@5", "popular@5", "diversity@5", "ndcg@5"} <= set(said["rules"]["with"])
    assert "without rules" in command(*words, "--popularity", "-0.5").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--item-facts", "items.csv"), "--item-facts goes with --rules"),
        (("--exclude-category", "crime"), "--exclude-category needs --item-facts"),
        (("--diversity", "2"), "diversity is 2.0. Write a number from 0 to 1."),
        (("--popularity", "much"), "--popularity must be a number"),
        (("--rules", "none.toml"), "cannot be read"),
    ],
)
def test_options_that_cannot_work_are_refused(folder, monkeypatch, words, said):
    monkeypatch.chdir(folder)
    done = command("recommend", "run", "--user", "u1", *words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_facts_are_read_from_every_kind_of_table(tmp_path):
    columns = {"price": [1.5, None], "on": [True, None], "categories": [["a", "b"], []]}
    frame = pl.DataFrame({"item_id": [1, 2], **columns})
    frame.write_parquet(tmp_path / "items.parquet")
    frame.write_ndjson(tmp_path / "items.jsonl")
    wanted = {1: {"categories": ["a", "b"], "price": 1.5, "on": True}, 2: {}}
    assert sdgar.read_facts(tmp_path / "items.parquet") == wanted
    assert sdgar.read_facts(tmp_path / "items.jsonl") == wanted
    text = tmp_path / "items.csv"
    text.write_text("item,genres\na,x|y\n")
    assert sdgar.read_facts(text) == {"a": {"genres": ["x", "y"], "categories": ["x", "y"]}}
    text.write_text("name;id\nx|y;a\n;b\n")
    assert sdgar.read_facts(text, item="id", delimiter=";") == {"a": {"name": ["x", "y"]}, "b": {}}


@pytest.mark.parametrize(
    ("text", "code"),
    [("item,x\na,1\na,2\n", "duplicate_items"), ("item,x\n,1\n", "missing_id"),
     ("item,x\n", "no_rows")],
)  # fmt: skip
def test_facts_that_cannot_be_read_are_refused(tmp_path, text, code):
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(DataError) as raised:
        sdgar.read_facts(tmp_path / "items.csv")
    assert raised.value.code == code
    nested = tmp_path / "items.jsonl"
    nested.write_text('{"item": "a", "x": {"y": 1}}\n')
    with pytest.raises(DataError, match="a fact is a text"):
        sdgar.read_facts(nested)
