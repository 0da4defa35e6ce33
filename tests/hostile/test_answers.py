"""Questions that a model can answer only in part, or not at all."""

from __future__ import annotations

from functools import partialmethod
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from sdgar.data.interactions import Interactions
from sdgar.data.tables import write_pieces, write_table
from sdgar.errors import NumericalError, SdgarWarning, UsageError
from sdgar.models.factors import Factors
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.recommender import Recommender, load
from sdgar.systems.bpr import BPR
from sdgar.systems.ials import IALS
from sdgar.systems.neighbours import ItemKNN
from sdgar.systems.solver import MostPopular

from ..cli.test_cli import Done, refuses, result_of, sdgar
from .cases import Case, check, table


def rows() -> Interactions:
    """Eight users u0 … u7 have five of eight items i0 … i7 each, i0 being had by most."""
    users, items = np.nonzero(np.add.outer(np.arange(8), np.arange(8)) % 8 < 5)
    return Interactions.from_arrays(
        np.array([f"u{u}" for u in users], dtype=object),
        np.array([f"i{i * (u % 2 or i > 2)}" for u, i in zip(users, items, strict=True)], object),
    )


@pytest.fixture(scope="module")
def als() -> Recommender:
    return IALS(dim=3, sweeps=3).fit(rows()).recommender_


@pytest.fixture(scope="module")
def popular_items() -> list[str]:
    data = rows()
    counts = np.bincount(data.items_E, minlength=data.n_items)
    return data.items.at(np.argsort(-counts, kind="stable")).tolist()


def test_a_stranger_among_known_users_gets_what_is_popular_and_is_marked(als, popular_items):
    wanted = als.recommend(["u1", "u2"], k=3)
    with pytest.warns(SdgarWarning, match=r"1 user id is unknown.*'eve'.*popular"):
        frame = als.recommend(["u1", "eve", "u2"], k=3)
    assert frame.filter(pl.col("basis") == "model").equals(wanted)
    stranger = frame.filter(pl.col("user") == "eve")
    assert stranger["item"].to_list() == popular_items[:3]
    assert set(stranger["basis"]) == {"popular"}
    assert frame["user"].unique(maintain_order=True).to_list() == ["u1", "eve", "u2"]


def test_the_warning_names_five_strangers_and_how_many_there_are(als):
    strangers = [f"x{n}" for n in range(9)]
    with pytest.warns(SdgarWarning, match=r"9 user ids.*'x4' and others") as reported:
        als.recommend(strangers, k=1)
    assert "x5" not in str(reported[0].message)


def test_strangers_are_skipped_on_request_and_nobody_is_left_if_all_are(als):
    with pytest.warns(SdgarWarning, match="left out"):
        frame = als.recommend(["eve", "u1"], k=2, fallback="skip")
    assert frame.equals(als.recommend(["u1"], k=2))
    with pytest.warns(SdgarWarning, match="left out"):
        nobody = als.recommend(["eve"], k=2, fallback="skip")
    assert nobody.schema == frame.schema
    assert nobody.height == 0


def test_what_is_popular_obeys_allowed_and_excluded_items(als, popular_items):
    first, second, third, *_ = popular_items
    with pytest.warns(SdgarWarning):
        frame = als.recommend("eve", k=2, items=[second, third], exclude=[third])
    assert frame["item"].to_list() == [second]
    assert frame["short"].to_list() == [True]
    assert first not in frame["item"]


@pytest.mark.parametrize("how", ["items", "exclude"])
def test_unknown_items_are_left_out_of_what_is_allowed_or_excluded(als, how):
    with pytest.warns(SdgarWarning, match=r"1 item id is unknown.*'zz'.*left out"):
        frame = als.recommend("u1", **{how: ["zz", "i6"]}, exclude_seen=False)
    assert frame.equals(als.recommend("u1", **{how: ["i6"]}, exclude_seen=False))


def test_a_history_may_hold_items_that_nobody_had(als, popular_items):
    with pytest.warns(SdgarWarning, match=r"'zz'"):
        frame = als.recommend(history=["i6", "zz"], k=3)
    assert frame.equals(als.recommend(history=["i6"], k=3))
    with pytest.warns(SdgarWarning) as reported:
        frame = als.recommend(history=["zz"], k=3)
    assert "1 new user has no item that the model contains" in str(reported[-1].message)
    assert frame["item"].to_list() == popular_items[:3]


def test_histories_of_several_new_users_are_answered_in_one_frame(als):
    with pytest.warns(SdgarWarning):
        frame = als.recommend(histories={"bo": ["zz"], "al": ["i6"], "cy": ["i5", "zz"]}, k=2)
    assert frame["user"].to_list() == ["al", "al", "bo", "bo", "cy", "cy"]
    assert frame["basis"].to_list() == ["model"] * 2 + ["popular"] * 2 + ["model"] * 2
    alone = als.recommend(histories={"cy": ["i5"]}, k=2)
    assert frame.filter(pl.col("user") == "cy")["item"].equals(alone["item"])
    with pytest.warns(SdgarWarning):
        frame = als.recommend(histories={"bo": ["zz"], "al": ["i6"]}, k=2, fallback="skip")
    assert set(frame["user"]) == {"al"}


def test_ids_of_another_kind_do_not_upset_the_column():
    model = MostPopular().fit(Interactions.from_arrays([10, 20], [7, 8]))
    with pytest.warns(SdgarWarning):
        numbers = model.recommend(["10", "30", 40], k=1)
    assert numbers["user"].to_list() == [10, 30, 40]
    with pytest.warns(SdgarWarning):
        texts = model.recommend([10, "eve", 10**30, "007"], k=1)
    assert texts["user"].to_list() == ["10", "eve", str(10**30), "007"]
    with pytest.warns(SdgarWarning):
        assert isinstance(model.recommend(pd.Series(["eve"])), pd.DataFrame)


def test_pieces_add_up_to_the_whole_and_have_one_schema(als):
    queried = [*(f"u{n}" for n in range(8)), "eve"]
    with pytest.warns(SdgarWarning):
        whole = als.recommend(queried, k=3)
    with pytest.warns(SdgarWarning) as reported:
        pieces = list(als.recommend_in_pieces(queried, k=3, rows=6))
    assert len(reported) == 1
    assert len(pieces) == 5
    assert {piece.height for piece in pieces} == {6, 3}
    # A matrix product of fewer rows may differ in the last bit of its scores.
    assert_frame_equal(pl.concat(pieces), whole, rel_tol=1e-6)
    full = als.recommend_in_pieces(k=3, exclude=[f"i{n}" for n in range(8)], rows=6)
    assert {tuple(piece.schema.items()) for piece in full} == {tuple(whole.schema.items())}


def test_similar_items_mark_or_skip_those_that_are_unknown(als):
    wanted = als.similar_items(["i1", "i2"], k=2)
    with pytest.warns(SdgarWarning, match=r"'zz'.*marked as unknown"):
        frame = als.similar_items(["i1", "zz", "i2"], k=2)
    assert frame.filter(pl.col("basis") == "model").equals(wanted)
    assert frame.row(2) == ("zz", None, None, None, True, "unknown")
    with pytest.warns(SdgarWarning, match="left out"):
        assert als.similar_items(["i1", "zz", "i2"], k=2, fallback="skip").equals(wanted)


def test_similar_users_have_vectors_of_the_same_direction():
    user_UD = np.array([[1, 0], [3, 0.1], [0, 1]], np.float32)
    data = Interactions.from_arrays(["a", "b", "c"], ["x", "x", "y"])
    factors = Factors(user_UD, np.ones((2, 2), np.float32), np.zeros(2, np.float32))
    model = Recommender(Artifact(factors, data.users, data.items, data.history, {}))
    with pytest.warns(SdgarWarning, match=r"'eve'"):
        frame = model.similar_users(["a", "eve"], k=5)
    assert frame["user"].to_list() == ["b", "c", None]
    assert frame["like"].to_list() == ["a", "a", "eve"]
    assert frame["score"][0] == pytest.approx(3 / (9.01**0.5))
    assert frame["basis"].to_list() == ["model", "model", "unknown"]


@pytest.mark.parametrize("make", [IALS, MostPopular, ItemKNN])
def test_pairs_are_scored_as_lists_are_whether_they_are_had_or_not(make):
    model = make(**({"dim": 3} if make is IALS else {})).fit(rows())
    lists = model.recommend(k=8, exclude_seen=False).drop_nulls()
    scored = model.score_pairs(lists["user"], lists["item"])
    np.testing.assert_allclose(scored["score"], lists["score"], rtol=1e-5)
    assert scored["user"].equals(lists["user"])
    assert scored.columns == ["user", "item", "score", "basis"]


def test_a_pair_that_is_unknown_has_no_score(als):
    with pytest.warns(SdgarWarning):
        frame = als.score_pairs(["u1", "eve", "u2"], ["i1", "i1", "zz"])
    assert frame["basis"].to_list() == ["model", "unknown", "unknown"]
    assert frame["score"].is_null().to_list() == [False, True, True]
    with pytest.warns(SdgarWarning):
        some = als.score_pairs(["u1", "eve", "u2"], ["i1", "i1", "zz"], fallback="skip")
    assert some.equals(frame[:1])
    one_user = als.score_pairs("u1", ["i1", "i2"])
    assert one_user["user"].to_list() == ["u1", "u1"]
    assert one_user["score"][0] == frame["score"][0]
    assert als.score_pairs(["u1", "u2"], "i1")["item"].to_list() == ["i1", "i1"]


def test_a_score_that_is_not_a_number_is_never_given_for_a_pair():
    data = rows()
    vectors = Factors(
        np.full((8, 1), np.nan, np.float32), np.ones((8, 1), np.float32), np.zeros(8, np.float32)
    )
    broken = Recommender(Artifact(vectors, data.users, data.items, data.history, {}))
    with pytest.raises(NumericalError):
        broken.score_pairs("u1", "i3")


@pytest.fixture(scope="module")
def run(als, tmp_path_factory) -> Path:
    return als.save(tmp_path_factory.mktemp("answers") / "run")


def saved(folder: Path, kind: type = IALS) -> Path:
    """A saved model of a system in an empty folder."""
    settings = {"dim": 2, "sweeps": 1} if kind is IALS else {}
    return kind(**settings).fit(rows()).save(folder / "run")


def queries(
    command: str, *words: object, file: str = "", text: str | bytes = "", kind: type = IALS
):
    """Query a saved model on the command line, next to a file."""

    def act(folder: Path) -> Done:
        model = saved(folder, kind)
        if file:
            content = text.encode() if isinstance(text, str) else text
            (folder / file).write_bytes(content)
        return sdgar(command, model, *words, cwd=folder)

    return act


def reported(**how):
    return lambda folder: IALS(dim=2, sweeps=1).fit(rows()).recommend(**how)


CASES: list[Case] = [
    Case("an unknown user is refused on request", 2, ("'eve'", "such as 'u0'"),
         queries("recommend", "--user", "u1", "--user", "eve", "--fallback", "error")),
    Case("an unknown item is excluded and that is refused on request", 2, ("'zz'", "'i0'"),
         queries("recommend", "--user", "u1", "--exclude", "zz", "--fallback", "error")),
    Case("none of the allowed items is known", 2, ("2 item ids", "'zz'"),
         queries("recommend", "--user", "u1", "--allow", "zz", "--allow", "yy")),
    Case("an unknown item of a history is refused on request", 2, ("'zz'",),
         queries("recommend", "--history", "i1,zz", "--fallback", "error")),
    Case("a fallback is misspelt", 2, ("'populer'", "Did you mean 'popular'"),
         queries("recommend", "--user", "u1", "--fallback", "populer")),
    Case("similar items have no fallback of lists", 2, ("'popular'", "mark, skip"),
         queries("similar", "--item", "i1", "--fallback", "popular")),
    Case("a fallback is a number in Python", 2, ("fallback 3",), reported(fallback=3)),
    Case("histories and users are both given", 2, ("not both",),
         reported(users=["u1"], histories={"a": ["i1"]})),
    Case("a file of users is not there", 2, ("nobody.txt",),
         queries("recommend", "--users", "nobody.txt")),
    Case("a file of users has only empty lines", 3, ("users.txt", "one id a line"),
         queries("recommend", "--users", "users.txt", file="users.txt", text="\n\n")),
    Case("a file of users is empty", 3, ("users.txt", "empty"),
         queries("recommend", "--users", "users.txt", file="users.txt")),
    Case("a file of users is not text", 3, ("users.txt", "UTF-8"),
         queries("recommend", "--users", "users.txt", file="users.txt", text=b"u1\n\xff\xfe\n")),
    Case("a table of users has no column of users", 2, ("a, b, c", "--user-column NAME"),
         queries("recommend", "--users", "u.csv", file="u.csv", text="a,b,c\n1,2,3\n")),
    Case("a table of users lacks the column that is named", 2, ("'who'", "--user-column", "user"),
         queries("recommend", "--users", "u.csv", "--user-column", "who",
              file="u.csv", text="user,b,c\n1,2,3\n")),
    Case("a table of users has two columns of users", 2, ("'user' and 'uid'", "--user-column NAME"),
         queries("recommend", "--users", "u.csv", file="u.csv", text="user,uid,b\n1,2,3\n")),
    Case("a table of users lacks a user", 3, ("'user'", "row 2"),
         queries("recommend", "--users", "u.csv", file="u.csv", text="user,b\nu1,2\n,3\n")),
    Case("users are fractions", 3, ("'user'", "Float64", "text or to integers"),
         queries("recommend", "--users", "u.jsonl", file="u.jsonl", text='{"user": 1.5}\n')),
    Case("a table of users has no header", 3, ("no header", "17, 3", "--columns user,item"),
         queries("recommend", "--users", "u.csv", file="u.csv", text="17,3\n18,4\n")),
    Case("a file of users has a name of no format", 2, (".xlsx", "Known"),
         queries("recommend", "--users", "u.xlsx", file="u.xlsx", text="u1\n")),
    Case("a file of histories has ratings and no threshold", 2, ("'stars'", "--min-rating 4"),
         queries("recommend", "--histories", "h.csv", file="h.csv",
         text="user,item,stars\na,i1,5\n")),
    Case("a file of histories has no column of items", 2, ("--item-column NAME",),
         queries("recommend", "--histories", "h.csv", file="h.csv", text="user,b,c\na,i1,5\n")),
    Case("new users have nothing that is known, and that is refused", 2, ("'zz'",),
         queries("recommend", "--histories", "h.csv", "--fallback", "error",
              file="h.csv", text="user,item\na,zz\n")),
    Case("a model without a rule for new users is given some", 2, ("no rule", "sdsoftmax"),
         queries("recommend", "--histories", "h.csv", file="h.csv", text="user,item\na,i1\n",
              kind=lambda: BPR(dim=2, epochs=1, early_stopping=False, engine="eager"))),
    Case("columns are named and no file is read", 2, ("--user-column", "--histories"),
         queries("recommend", "--user", "u1", "--user-column", "x")),
    Case("all users and a file of users are requested", 2, ("--users FILE", "--all"),
         queries("recommend", "--all", "--users", "u.txt")),
    Case("names are not there", 2, ("names.csv",),
         queries("recommend", "--user", "u1", "--names", "names.csv")),
    Case("names are in a column that is not there", 2, ("'titel'", "--name-column", "id, title"),
         queries("recommend", "--user", "u1", "--names", "n.csv", "--name-column", "titel",
              file="n.csv", text="id,title\ni1,One\n")),
    Case("the column of names is not known", 2, ("a, b", "--name-column NAME"),
         queries("similar", "--item", "i1", "--names", "n.csv",
              file="n.csv", text="id,a,b\ni1,One,Two\n")),
    Case("a column of names is named and no table", 2, ("--names TABLE",),
         queries("similar", "--item", "i1", "--name-column", "title")),
    Case("names of items are requested with users", 2, ("--names", "--item"),
         queries("similar", "--user", "u1", "--names", "n.csv")),
    Case("something is similar to nothing", 2, ("--item ID or --user ID",), queries("similar")),
    Case("items and users are similar to each other", 2, ("--item ID or --user ID",),
         queries("similar", "--item", "i1", "--user", "u1")),
    Case("similar users need vectors", 2, ("no user vectors", "bpr"),
         queries("similar", "--user", "u1", kind=MostPopular)),
    Case("similar users need user vectors", 2, ("no user vectors",),
         queries("similar", "--user", "u1", kind=ItemKNN)),
    Case("there are more users than items in pairs", 2, ("2 users and 1 items", "as many"),
         lambda folder: IALS(dim=2).fit(rows()).score_pairs(["u1", "u2"], ["i1"])),
    Case("a pair is refused on request", 2, ("'zz'",),
         lambda folder: IALS(dim=2).fit(rows()).score_pairs("u1", "zz", fallback="error")),
    Case("information is wanted of nothing", 4, ("nowhere", "is not a saved model"),
         lambda folder: sdgar("info", "nowhere", cwd=folder)),
    Case("information is wanted of a run that is not there", 2, ("no interrupted run",),
         lambda folder: sdgar("info", "nowhere.partial", cwd=folder)),
]  # fmt: skip


@table(CASES)
def test_a_question_that_cannot_be_answered_is_refused_with_its_cure(case, tmp_path):
    check(case, tmp_path)


def test_a_stranger_on_the_command_line_gets_what_is_popular_and_a_warning(run, popular_items):
    words = ("recommend", run, "--user", "eve", "--user", "u1", "-k", 2)
    shown = sdgar(*words)
    assert shown.returncode == 0
    assert "warning 1 user id is unknown to the model: 'eve'" in shown.stdout
    lines = map(str.split, shown.stdout.splitlines())
    ends = [words[-1] for words in lines if words and words[-1] in ("basis", "popular", "model")]
    assert ends == ["basis", "popular", "popular", "model", "model"]
    done = sdgar(*words, "--json")
    eve, known = result_of(done)["recommendations"]
    assert (eve["user"], eve["basis"], known["basis"]) == ("eve", "popular", "model")
    assert [entry["item"] for entry in eve["items"]] == popular_items[:2]
    assert "warning" in done.stderr
    [only] = result_of(sdgar(*words, "--json", "--fallback", "skip"))["recommendations"]
    assert only == known


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("users.txt", "u2\r\neve\r\n\r\nu1\r\nu2\r\n"),
        ("users.txt", "\ufeffu2\neve\nu1"),
        ("users.csv", "a,user_id\n1,u2\n2,eve\n3,u1\n4,u2\n"),
        ("users.csv", "user\nu2\neve\nu1\n"),
        ("users.jsonl", '{"user": "u2"}\n{"user": "eve"}\n{"user": "u1"}\n'),
    ],
)
def test_users_come_from_a_file_and_each_is_answered_once_in_its_order(run, tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode())
    answers = result_of(sdgar("recommend", run, "--users", tmp_path / name, "--json"))
    assert [one["user"] for one in answers["recommendations"]] == ["u2", "eve", "u1"]


def test_new_users_of_the_command_line_are_numbered_and_get_nothing_that_they_have(run):
    words = ("recommend", run, "--history", "i1,i2", "-k", 3, "--json")
    [only] = result_of(sdgar(*words))["recommendations"]
    assert (only["user"], len(only["items"])) == ("new", 3)
    assert not {"i1", "i2"} & {entry["item"] for entry in only["items"]}
    two = result_of(sdgar(*words, "--history", "i3"))["recommendations"]
    assert [answer["user"] for answer in two] == ["new 1", "new 2"]
    assert [e["item"] for e in two[0]["items"]] == [e["item"] for e in only["items"]]


def test_users_of_a_parquet_file_are_written_to_a_file(run, als, tmp_path):
    pl.DataFrame({"user": ["u3", "u1"]}).write_parquet(tmp_path / "users.parquet")
    words = ("--users", tmp_path / "users.parquet", "-k", 2, "-o", tmp_path / "out.parquet")
    done = sdgar("recommend", run, *words)
    assert "saved   4 rows" in done.stdout
    assert pl.read_parquet(tmp_path / "out.parquet").equals(als.recommend(["u3", "u1"], k=2))


def test_new_users_come_from_a_file_of_events(run, als, tmp_path, popular_items):
    events = "who,what,when\nal,i6,3\nbo,zz,1\nal,i5,2\nal,zz,1\n"
    (tmp_path / "new.csv").write_text(events)
    columns = ("--user-column", "who", "--item-column", "what", "--time-column", "when")
    words = ("recommend", run, "--histories", tmp_path / "new.csv", *columns, "-k", 3)
    done = sdgar(*words, "--json")
    al, bo = result_of(done)["recommendations"]
    wanted = als.recommend(history=["i5", "i6"], k=3)
    assert [entry["item"] for entry in al["items"]] == wanted["item"].to_list()
    assert (bo["user"], bo["basis"]) == ("bo", "popular")
    assert [entry["item"] for entry in bo["items"]] == popular_items[:3]
    assert "4 rows read = 4 kept" in done.stderr
    assert "1 new user has no item that the model contains: 'bo'" in done.stderr
    assert sdgar(*words, "-o", tmp_path / "out.csv").returncode == 0
    assert pl.read_csv(tmp_path / "out.csv")["user"].to_list() == ["al"] * 3 + ["bo"] * 3


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_all_users_are_written_in_pieces_as_if_at_once(run, als, tmp_path, kind, monkeypatch):
    whole = als.recommend(k=3)
    whole_file, file = tmp_path / f"whole.{kind}", tmp_path / f"lists.{kind}"
    write_table(whole, whole_file)
    monkeypatch.setattr(
        Recommender,
        "recommend_in_pieces",
        partialmethod(Recommender.recommend_in_pieces, rows=6),
    )
    assert sdgar("recommend", run, "--all", "-k", 3, "-o", file).returncode == 0
    if kind == "parquet":
        assert pl.read_parquet(file).equals(whole)
    else:
        assert file.read_bytes() == whole_file.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([file.name, whole_file.name])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_with_pieces_that_fail_is_absent(als, tmp_path, kind):
    def pieces():
        yield als.recommend(["u1"])
        raise NumericalError("not finite")

    with pytest.raises(NumericalError):
        write_pieces(pieces(), tmp_path / f"lists.{kind}")
    assert list(tmp_path.iterdir()) == []


def test_names_follow_ids_and_an_item_without_one_goes_by_its_id(run, als, tmp_path):
    (tmp_path / "items.csv").write_text("item_id,year,title\ni5,1999,Five [red]\ni6,2001,\n")
    words = ("--user", "u1", "-k", 8, "--include-seen", "--names", tmp_path / "items.csv")
    [only] = result_of(sdgar("recommend", run, *words, "--json"))["recommendations"]
    names = {entry["item"]: entry["name"] for entry in only["items"]}
    assert (names["i5"], names["i6"], names["i7"]) == ("Five [red]", "i6", "i7")
    shown = sdgar("recommend", run, *words).stdout
    assert "Five [red]" in shown
    assert sdgar("recommend", run, *words, "-o", tmp_path / "o.csv").returncode == 0
    frame = pl.read_csv(tmp_path / "o.csv")
    assert frame.columns == ["user", "rank", "item", "name", "score", "short", "basis"]
    words = ("similar", run, "--item", "i1", "-k", 8, "--names", tmp_path / "items.csv")
    [alike] = result_of(sdgar(*words, "--name-column", "year", "--json"))["similar"]
    assert {entry["item"]: entry["name"] for entry in alike["items"]}["i6"] == "2001"


def test_similar_users_are_found_on_the_command_line(run, als):
    done = sdgar("similar", run, "--user", "u1", "--user", "eve", "-k", 2, "--json")
    known, eve = result_of(done)["similar"]
    wanted = als.similar_users("u1", k=2)
    assert [entry["user"] for entry in known["users"]] == wanted["user"].to_list()
    assert eve == {"like": "eve", "users": [], "short": True, "basis": "unknown"}
    assert "unknown" in sdgar("similar", run, "--item", "zz").stdout


def test_information_says_what_a_model_is_and_can_do(run, als, tmp_path):
    found = result_of(sdgar("info", run, "--json"))
    assert (found["system"], found["finished"]) == ("ials", True)
    assert found["settings"]["dim"] == 3
    assert found["data"]["users"] == found["data"]["items"] == 8
    assert found["data"]["fingerprint"] == rows().fingerprint()
    assert found["can"] == {"fold_in": True, "similar_items": True, "similar_users": True}
    assert found["bytes"] > 1000
    assert found["test"] == {}
    shown = sdgar("info", f"{run}/").stdout
    assert "fold in yes" in shown
    assert "not measured" in shown
    weights = ItemKNN().fit(rows()).save(tmp_path / "knn")
    able = result_of(sdgar("info", weights, "--json"))["can"]
    assert able == {"fold_in": True, "similar_items": True, "similar_users": False}
    popular = MostPopular().fit(rows()).save(tmp_path / "popular")
    able = result_of(sdgar("info", popular, "--json"))["can"]
    assert able == {"fold_in": True, "similar_items": False, "similar_users": False}


def test_information_of_a_trained_run_has_its_metrics_and_of_a_partial_one_how_to_go_on(tmp_path):
    pl.DataFrame(
        {"user": rows().users.at(rows().users_E).tolist(),
         "item": rows().items.at(rows().items_E).tolist()}
    ).write_csv(tmp_path / "events.csv")  # fmt: skip
    out = tmp_path / "run"
    words = ("train", tmp_path / "events.csv", "--out", out, "--set", "dim=4", "--set", "epochs=2")
    assert sdgar(*words, "--system", "bpr").returncode == 0
    found = result_of(sdgar("info", out, "--json"))
    assert 0 <= found["test"]["ndcg@50"] <= 1
    assert "ndcg@50" in found["most_popular"]
    assert found["can"]["fold_in"] is False
    shown = sdgar("info", out).stdout
    assert "most popular" in shown
    assert found["definition"] in shown

    other = tmp_path / "other"
    stopped = sdgar(
        *words[:3], other, *words[4:], "--system", "bpr", "--set", "learning_rate=1e38",
        "--set", "epochs=20",
    )  # fmt: skip
    assert stopped.returncode == 6
    for place in (other, f"{other}.partial", f"{other}.partial/"):
        part = result_of(sdgar("info", place, "--json"))
        assert (part["system"], part["finished"]) == ("bpr", False)
        assert part["resume"] == f"sdgar train --resume {other}"
        assert part["epoch"] >= 1
    assert "--resume" in sdgar("info", other).stdout


def test_a_file_of_users_has_the_other_fields_of_their_contexts_too(tmp_path):
    fields = {"user": ["a", "a", "b"], "city": ["x", "y", "x"]}
    data = Interactions.from_contexts(fields, ["i1", "i2", "i3"])
    run = MostPopular().fit(data).save(tmp_path / "run")
    (tmp_path / "users.csv").write_text("city,user\ny,a\nx,b\nnowhere,b\n")
    words = ("recommend", run, "--users", tmp_path / "users.csv", "-k", 1, "--json")
    done = sdgar(*words)
    answers = result_of(done)["recommendations"]
    queried = [(one["user"], one["city"], one["basis"]) for one in answers]
    assert queried == [("a", "y", "model"), ("b", "x", "model"), ("b", "nowhere", "popular")]
    assert "has no city 'nowhere'" in done.stderr
    same = result_of(sdgar(*words, "--context", "city=x"))["recommendations"]
    assert [(one["user"], one["city"]) for one in same] == [("a", "x"), ("b", "x")]
    (tmp_path / "users.csv").write_text("user,other\na,1\n")
    refuses("no column 'city'", *words)
    with pytest.raises(UsageError, match="user, city"):
        load(run).similar_users("a")
