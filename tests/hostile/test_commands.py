"""What people type and what programs hand in: every mistake is reported, and nothing is ignored."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import numpy as np
import polars as pl
import pytest

import sdgar as package
from sdgar.cli.commands import command_of, registered
from sdgar.cli.console import Screen
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import PRESETS
from sdgar.errors import SdgarWarning, UsageError
from sdgar.lab.datasets import DATASETS
from sdgar.parts import DISCRIMINATORS, OBJECTIVES, SAMPLERS
from sdgar.settings import types_of
from sdgar.show.printed import command, visible
from sdgar.systems.bpr import BPR
from sdgar.systems.ease import EASE
from sdgar.systems.names import SYSTEMS
from sdgar.systems.neighbours import ItemKNN
from sdgar.systems.solver import MostPopular

from ..cli.test_cli import Done, result_of, sdgar
from .cases import Case, check, table

EVIL = "$(touch pwned)"
ESCAPE = "\x1b[31mred\x07"
BIDI = "abc\u202efed"
LONG = "item-" + "x" * 150
ROOT = Path(__file__).parents[2]


def rows(**more) -> Interactions:
    """Eight users who each have half of ten items."""
    users, items = np.nonzero((np.add.outer(np.arange(8), np.arange(10)) % 4) < 2)
    return Interactions.from_arrays(
        np.array([f"u{u}" for u in users], object), np.array([f"i{i}" for i in items], object),
        time=np.arange(len(users)), **more,
    )  # fmt: skip


def frame_of(data: Interactions) -> pl.DataFrame:
    return pl.DataFrame(
        {"user": data.users.at(data.users_E).tolist(), "item": data.items.at(data.items_E).tolist()}
    )


def events(folder: Path) -> Path:
    frame_of(rows()).write_csv(folder / "events.csv")
    return folder / "events.csv"


def model(folder: Path) -> Path:
    return ItemKNN(device="cpu").fit(rows()).save(folder / "model")


def train(*words: object):
    return lambda folder: sdgar("train", events(folder), "--out", folder / "run", *words)


def run(*words: object):
    """A command; EVENTS, MODEL, FILE and FOLDER in it are made before."""

    def act(folder: Path) -> Done:
        (folder / "file").write_text("mine")
        made = {
            "EVENTS": lambda: events(folder),
            "MODEL": lambda: model(folder),
            "FILE": lambda: folder / "file",
            "FOLDER": lambda: folder,
            "IN-FILE": lambda: folder / "file" / "run",
        }
        done = sdgar(*(made[w]() if w in made else w for w in words), cwd=folder)
        assert (folder / "file").read_text() == "mine"
        return done

    return act


def setting(text: str, *words: object):
    return train("--set", text, "--device", "cpu", *words)


def module(text: str):
    def act(folder: Path) -> Done:
        (folder / "broken_parts.py").write_text(text)
        sdgar("systems", cwd=folder)
        assert str(folder) not in sys.path  # which commands without --import leave as it is
        try:
            return sdgar("--import", "broken_parts", "doctor", cwd=folder)
        finally:
            sys.path.remove(str(folder))

    return act


def lists(**how):
    return lambda folder: ItemKNN(device="cpu").fit(rows()).recommend(**how)


def folded(histories: object):
    return lambda folder: ItemKNN(device="cpu").fit(rows()).fold_in(histories)


def fitted(*, estimator=BPR, **how):
    return lambda folder: estimator(**how).fit(rows())


def evaluated(*of, **how):
    return lambda folder: MostPopular().fit(rows()).recommender_.evaluate(*of, **how)


def raw(make: Callable[[Path], object]):
    """Prepare a data set from what is made as its raw file."""

    def act(folder: Path) -> Done:
        make(folder / "raw")
        words = ("--raw", folder / "raw", "--out", folder / "run")
        return sdgar("data", "prepare", "citeulike", *words)

    return act


NAME_250 = "n" * 250
CASES = [
    Case("train is given test rows and a rule to split some off", 2, ("--split time", "--test"),
         train("--test", "x.csv", "--split", "time")),
    Case("compare is given test rows and a rule to split some off", 2, ("--split paper", "--test"),
         run("compare", "EVENTS", "--test", "x.csv", "--split", "paper")),
    Case("tune is given test rows and a rule to split some off", 2, ("--split time", "--test"),
         run("tune", "EVENTS", "--test", "x.csv", "--split", "time")),
    Case("the paper's protocol is given validation rows", 2, ("--valid", "--protocol paper"),
         train("--protocol", "paper", "--valid", "x.csv")),
    Case("the paper's protocol is given a number of epochs", 2, ("--set epochs", "75"),
         train("--protocol", "paper", "--set", "epochs=3")),
    Case("most popular is given an engine", 2, ("--engine", "popular", "Leave it out"),
         train("--system", "popular", "--engine", "eager")),
    Case("most popular is given a device", 2, ("--device", "popular"),
         train("--system", "popular", "--device", "cpu")),
    Case("what has no epochs is to be kept between them", 2, ("--checkpoint-every", "ease"),
         train("--system", "ease", "--checkpoint-every", "3")),
    Case("no compared system has an engine", 2, ("--engine", "popular, ease"),
         run("compare", "EVENTS", "--systems", "popular,ease", "--engine", "eager")),
    Case("a model is evaluated with contexts that are not its own", 2, ("user,city", "Leave it"),
         run("evaluate", "MODEL", "--test", "EVENTS", "--context", "user,city")),
    Case("one row of each user is held out, and a share of them", 2, ("0.3", "leave-last-out"),
         run("data", "split", "EVENTS", "--out", "o", "--rule", "leave-last-out", "--share", ".3")),
    Case("a model is in a file", 2, ("is not a folder", "another place"),
         run("train", "EVENTS", "--out", "IN-FILE")),
    Case("the demo is this folder", 2, ("'.' cannot be a folder",), run("demo", "--out", ".")),
    Case("a comparison has no name", 2, ("''",), run("compare", "EVENTS", "--out", "")),
    Case("a comparison is a file", 2, ("a folder is needed",),
         run("compare", "EVENTS", "--out", "FILE")),
    Case("the name of a comparison is too long", 2, ("250 bytes",),
         run("compare", "EVENTS", "--out", NAME_250)),
    Case("lists have no name", 2, ("''",), run("recommend", "MODEL", "--all", "-o", "")),
    Case("lists are a folder", 2, ("is a folder", "lists.parquet"),
         run("recommend", "MODEL", "--all", "-o", "FOLDER")),
    Case("the name of lists is too long", 2, ("too long",),
         run("recommend", "MODEL", "--all", "-o", f"{NAME_250}.csv")),
    Case("lists have no format, which is reported before the model is loaded", 2, (".parquet",),
         run("recommend", "no-model", "--all", "-o", "lists.xlsx")),
    Case("synthetic events are the root", 2, ("'/'",), run("data", "synthetic", "demo", "-o", "/")),
    Case("synthetic events have no format", 2, (".parquet",),
         run("data", "synthetic", "demo", "-o", "e.doc")),
    Case("an imported module is a file", 2, ("./x.py", "not ./parts.py"),
         run("--import", "./x.py", "doctor")),
    Case("an imported module is relative", 2, (".x", "names no module"),
         run("--import", ".x", "doctor")),
    Case("an imported module has no name", 2, ("''", "names no module"),
         run("--import", "", "doctor")),
    Case("an imported module raises", 2, ("ZeroDivisionError", "line 2", "Correct it"),
         module("x = 1\n1 / 0\n")),
    Case("an imported module ends the process", 2, ("SystemExit", "Correct it"),
         module("import sys\nsys.exit(0)\n")),
    Case("an imported module is not Python", 2, ("SyntaxError",), module("def\n")),
    Case("lists have no places", 2, ("'0'", "at least 1"), train("--k", "0")),
    Case("lists have a number of places without end", 2, ("digits",), train("--k", "9" * 5000)),
    Case("fewer than no items are to be recommended", 2, ("got -1",),
         run("recommend", "MODEL", "--all", "-k", "-1")),
    Case("fewer than no similar items are wanted", 2, ("got -1",),
         run("similar", "MODEL", "--item", "i1", "-k", "-1")),
    Case("two and a half items are to be recommended", 2, ("-k", "'2.5'"),
         run("recommend", "MODEL", "--all", "-k", "2.5")),
    Case("vectors are longer than anything", 2, ("dim", "2,147,483,647"), setting(f"dim={2**40}")),
    Case("vectors are longer than memory", 5, ("needs at least", "smaller dim"),
         setting(f"dim={2**30}")),
    Case("the length of vectors is no number", 2, ("dim", "'nan'"), setting("dim=nan")),
    Case("the length of vectors is written as a float", 2, ("'1e3'", "written as 32"),
         setting("dim=1e3")),
    Case("a batch is larger than anything", 2, ("batch_size",), setting(f"batch_size={2**70}")),
    Case("the negatives of a batch are more than memory", 5, ("needs at least", "n_negatives"),
         setting(f"n_negatives={2**31 - 1}")),
    Case("the generator has more states than memory", 5, ("needs at least", "states"),
         setting(f"sampler__states={2**31 - 1}")),
    Case("a composed generator has more states than memory", 5, ("needs at least", "states"),
         setting(f"sampler__states={2**31 - 1}", "--sampler", "decomposable")),
    Case("the vectors of iALS are longer than memory", 5, ("ials needs at least", "GiB"),
         setting("dim=3000000", "--system", "ials")),
    Case("a switch is neither on nor off", 2, ("'maybe'", "true or false"),
         setting("similarity__bias=maybe")),
    Case("there are more seeds than anyone has time for", 2, ("10,000",),
         run("compare", "EVENTS", "--seeds", 10**12)),
    Case("the paper has more seeds than anyone has time for", 2, ("10,000",),
         run("paper", "table1", "--out", "o", "--seeds", 10**12)),
    Case("an option is misspelt", 2, ("--sytem", "sdgar train --help"), train("--sytem", "bpr")),
    Case("a command lacks a word", 2, ("FILE", "--help"), run("data", "stats")),
    Case("k is not whole", 2, ("2.5",), lists(k=2.5)),
    Case("k is text", 2, ("'3'",), lists(k="3")),
    Case("k is true", 2, ("True",), lists(k=True)),
    Case("a user is a float", 2, ("users", "3.5"), lists(users=3.5)),
    Case("a user is bytes", 2, ("users", "b'u1'"), lists(users=b"u1")),
    Case("items left out are a number with a point", 2, ("exclude", "1.5"), lists(exclude=1.5)),
    Case("items allowed are lists", 2, ("items", "[['i1']]"), lists(items=[["i1"]])),
    Case("a history is true", 2, ("True", "text or an integer"), lists(history=[True])),
    Case("nothing is similar to nothing", 2, ("items", "None"),
         lambda folder: ItemKNN(device="cpu").fit(rows()).similar_items(None)),
    Case("histories are nothing", 2, ("None", "[['a', 'b']]"), folded(None)),
    Case("histories are a number", 2, ("3", "[['a', 'b']]"), folded(3)),
    Case("histories are one list", 2, ("1", "[['a', 'b']]"), folded([1, 2])),
    Case("a history is a number", 2, ("3", "[['a', 'b']]"), folded({"a": 3})),
    Case("a history has nothing as an item", 2, ("None", "text or an integer"),
         folded({"a": ["i1", None]})),
    Case("a history has lists as items", 2, ("['i1']", "text or an integer"), folded([[["i1"]]])),
    Case("histories are a frame", 2, ("sdgar.read",), folded(pl.DataFrame({"user": ["a"]}))),
    Case("a model learns from nothing", 2, ("train", "None", "sdgar.read"),
         lambda folder: BPR().fit(None)),
    Case("a model learns from a frame", 2, ("DataFrame", "sdgar.read"),
         lambda folder: MostPopular().fit(frame_of(rows()))),
    Case("validation rows are a number", 2, ("valid", "3"), lambda folder: EASE().fit(rows(), 3)),
    Case("vectors have a length of text", 2, ("dim", "'8'"), fitted(dim="8")),
    Case("vectors have a length that is not whole", 2, ("dim", "2.5"), fitted(dim=2.5)),
    Case("vectors have a length that is no number", 2, ("dim", "nan"), fitted(dim=float("nan"))),
    Case("a model is measured on nothing", 2, ("test", "None"), evaluated(None)),
    Case("lists have one length that is no list", 2, ("5", "(10, 50)"), evaluated(rows(), ks=5)),
    Case("lists have a length of text", 2, ("'a'",), evaluated(rows(), ks=("a",))),
    Case("known rows are a number", 2, ("seen", "3"), evaluated(rows(), seen=3)),
    Case("nothing is split", 2, ("data", "None", "sdgar.read"), lambda folder: package.split(None)),
    Case("a share is text", 2, ("'x'", "between 0 and 1"),
         lambda folder: package.split(rows(), "paper", share="x")),
    Case("nothing is loaded", 2, ("path", "None"), lambda folder: package.load(None)),
    Case("a number is loaded", 2, ("path", "3"), lambda folder: package.load(3)),
    Case("a path without a name is loaded", 2, ("path", "''"), lambda folder: package.load("")),
    Case("a model is saved without a name", 2, ("path", "''"),
         lambda folder: MostPopular().fit(rows()).save("")),
    Case("a recommender is made of nothing", 2, ("Artifact", "sdgar.load"),
         lambda folder: package.Recommender(None)),
    Case("nothing is compared", 2, ("Report", "evaluate(test)"),
         lambda folder: package.compare(None, None, "ndcg@10")),
    Case("synthetic data have no name", 2, ("None", "demo"),
         lambda folder: package.synthetic(None)),
    Case("a raw file is a pipe", 2, ("raw", "pipe"), raw(os.mkfifo)),
    Case("a raw file is a folder", 2, ("raw", "a folder"), raw(Path.mkdir)),
    Case("a raw file is a device", 2, ("raw", "a device"),
         raw(lambda path: path.symlink_to("/dev/zero"))),
    Case("a raw file is a link that leads nowhere", 2, ("raw", "no file"),
         raw(lambda path: path.symlink_to("nowhere"))),
    Case("a raw file is gzip in gzip", 3, ("raw", "malformed"),
         raw(lambda path: path.write_bytes(gzip.compress(gzip.compress(b"1 5\n" * 100))))),
    Case("a raw file is bzip2", 3, ("raw", "malformed"),
         raw(lambda path: path.write_bytes(b"BZh91AY&SY" + bytes(range(256)) * 4))),
]  # fmt: skip


@table(CASES)
def test_a_mistake_is_reported_with_its_cure_and_ends_with_the_right_code(case, tmp_path):
    check(case, tmp_path)
    assert not (tmp_path / "run").exists()


def test_test_rows_that_are_training_rows_are_counted_and_reported_everywhere(tmp_path):
    file, run = events(tmp_path), tmp_path / "run"
    said = "warning 40 of 40 held-out rows are training rows"
    words = (file, "--test", file, "--json")
    done = sdgar("train", *words, "--system", "popular", "--out", run)
    assert result_of(done)["test_counts"]["known_rows"] == 40
    assert done.stderr.count(said) == 1
    assert said in sdgar("evaluate", run, "--test", file).stdout
    done = sdgar("compare", *words, "--systems", "popular,ease")
    assert done.stderr.count(said) == 1
    assert result_of(done)["counts"]["known_rows"] == 40
    assert said in sdgar("tune", *words, "--system", "ease", "--trials", "1").stderr
    with pytest.warns(SdgarWarning, match="40 of 40 held-out rows are training rows"):
        report = package.load(run).evaluate(rows())
    assert report.as_dict()["warning"] == report.warning


def test_test_rows_that_training_did_not_see_give_no_warning(tmp_path):
    train, test = package.split(rows(), "paper")
    report = MostPopular().fit(train).evaluate(test)
    assert report.counts.known_rows == 0
    assert report.warning is None


def test_validation_rows_that_are_training_rows_are_reported():
    with pytest.warns(SdgarWarning, match="40 of 40 held-out rows are training rows"):
        BPR(epochs=1, engine="eager").fit(rows(), rows())


@pytest.mark.parametrize("name", ["popular", "item-knn", "ease", "quick"])
def test_systems_that_do_not_use_weights_say_so(name, tmp_path):
    weighted = rows(weight=np.arange(40) + 1.0)
    with pytest.warns(SdgarWarning, match=f"{name} does not use the weights of rows"):
        SYSTEMS[name]().fit(weighted)
    frame_of(weighted).with_columns(weight=weighted.weight_E).write_csv(tmp_path / "w.csv")
    words = ("train", tmp_path / "w.csv", "--split", "none", "--out", tmp_path / "run")
    chosen = ("--fast",) if name == "quick" else ("--system", name)
    done = sdgar(*words, *chosen, "--weight-column", "weight")
    assert f"warning {name} does not use the weights of rows" in done.stdout


def test_systems_that_use_weights_give_other_models_with_them():
    for name, settings in (("ials", {}), ("bpr", {"epochs": 2, "engine": "eager"})):
        with_weights, without = (
            SYSTEMS[name](**settings, **({"early_stopping": False} if settings else {}))
            .fit(rows(**more)).recommend(k=3)["score"].to_list()
            for more in ({"weight": np.arange(40) + 1.0}, {})
        )  # fmt: skip
        assert with_weights != without


def test_weights_of_new_users_are_reported_as_unused():
    model = ItemKNN(device="cpu").fit(rows())
    plain = model.fold_in({"a": ["i1", "i2"]}).recommend(k=3)
    with pytest.warns(SdgarWarning, match="fold_in does not use the weights"):
        folded = model.fold_in({"a": {"i1": 3.0, "i2": 1.0}})
    assert folded.recommend(k=3).equals(plain)
    with pytest.warns(SdgarWarning, match="fold_in does not use the weights"):
        model.fold_in(rows(weight=np.ones(40)))


def test_nobody_is_recommended_nothing():
    model = ItemKNN(device="cpu").fit(rows())
    for frame, key in ((model.recommend([]), "user"), (model.similar_items([]), "like")):
        assert frame.height == 0
        assert frame.columns == [key, "rank", "item", "score", "short", "basis"]


def test_metrics_of_lists_longer_than_the_catalogue_are_those_of_all_items(tmp_path):
    train, test = package.split(rows(), "paper")
    model = MostPopular().fit(train)
    means = model.evaluate(test, ks=(10, 10**11)).means()
    assert means["recall@100000000000"] == means["recall@10"] == 1
    assert means["ndcg@100000000000"] == means["ndcg@10"]
    assert means["precision@100000000000"] == pytest.approx(means["precision@10"] / 10**10)
    model.save(tmp_path / "model")
    frame_of(test).write_csv(tmp_path / "test.csv")
    words = ("evaluate", tmp_path / "model", "--test", tmp_path / "test.csv", "--k", 10**11)
    assert result_of(sdgar(*words, "--json"))["test"]["recall@100000000000"] == 1


@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_every_sampler_trains_from_the_command_line(sampler, tmp_path):
    objective = {"hardest": "bpr", "adaptive": "bpr", "first-violation": "warp"}
    words = ("--sampler", sampler, "--objective", objective.get(sampler, "sdsoftmax"))
    words += ("--discriminator", "factorization", "--engine", "eager")
    words += ("--set", "epochs=2", "--set", "early_stopping__every=1")
    done = train(*words, "--set", "n_negatives=1", "--set", "dim=4", "--verbose")(tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("of the 10 best" in done.stdout) == (sampler == "search")


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> Path:
    """A model whose ids are a danger to shells and terminals, and one that is long."""
    users = [EVIL, "-dash", ESCAPE, BIDI, "two\nlines", "a b'c"]
    data = Interactions.from_arrays([*users, EVIL], [LONG, ESCAPE, LONG, BIDI, LONG, BIDI, "i"])
    return ItemKNN(device="cpu").fit(data).save(tmp_path_factory.mktemp("odd") / "model")


def test_ids_come_out_whole_in_a_pipe_and_in_a_narrow_terminal(odd, monkeypatch):
    for columns in ("20", "80"):
        monkeypatch.setenv("COLUMNS", columns)
        screen = Screen()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", out := io.StringIO())
            screen.table(("user", "item"), [("ann", LONG), ("bob", LONG)])
        assert out.getvalue().count(LONG) == 2
        assert "…" not in out.getvalue()
    assert LONG in sdgar("recommend", odd, "--all", "--include-seen").stdout


def test_what_has_no_shape_is_escaped_for_people_and_exact_for_machines(odd):
    shown = sdgar("recommend", odd, "--all", "--include-seen")
    for hidden in ("\x1b", "\x07", "\u202e", "two\nlines"):
        assert hidden not in shown.stdout
    for escaped in (r"\x1b[31mred\x07", r"abc\u202efed", r"two\nlines"):
        assert escaped in shown.stdout
    answers = result_of(sdgar("recommend", odd, "--all", "--json"))["recommendations"]
    assert {ESCAPE, BIDI, "two\nlines"} <= {answer["user"] for answer in answers}


def test_errors_and_warnings_are_escaped_too(tmp_path):
    for words in (
        ("recommend", f"no{ESCAPE}", "--all"),
        ("train", f"no{ESCAPE}.csv", "--out", tmp_path / "o"),
        ("train", "x.csv", "--out", tmp_path / "o", f"--{ESCAPE}"),
        ("data", "prepare", ESCAPE, "--raw", "x", "--out", tmp_path / "o"),
    ):
        done = sdgar(*words, "--json")
        assert done.returncode in (2, 4)
        assert "\x1b" not in done.stderr
        assert r"\x1b[31mred" in done.stderr
    (tmp_path / "broken_parts.py").write_text(f"raise ValueError({ESCAPE!r})")
    done = sdgar("--import", "broken_parts", "doctor", cwd=tmp_path)
    sys.path.remove(str(tmp_path))
    assert r"\x1b[31mred" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_bug_is_reported_as_a_bug_escaped_and_as_json(monkeypatch):
    monkeypatch.setattr("sdgar.engines.choose.ENGINES", None)
    done = sdgar("doctor", "--json")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert (error["code"], error["exit_code"]) == ("bug", 1)


def test_memory_that_torch_cannot_have_is_a_missing_resource(monkeypatch):
    def greedy() -> None:
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes")

    monkeypatch.setattr("sdgar.cli.systems._version", lambda package: greedy())
    done = sdgar("doctor")
    assert done.returncode == 5
    assert "you tried to allocate 9 bytes" in done.stderr
    assert "smaller dim" in done.stderr


def test_file_names_that_are_not_utf8_are_shown_and_in_json(tmp_path):
    name = os.fsdecode(b"ev\xffents.csv")
    events(tmp_path).rename(tmp_path / name)
    done = sdgar("data", "stats", tmp_path / name, "--json")
    assert result_of(done)["users"] == 8
    assert r"ev\udcffents.csv: 8 users" in done.stderr
    done = sdgar("train", tmp_path / name, "--system", "popular", "--out", tmp_path / f"o{name}")
    assert done.returncode == 0, done.stderr
    assert rf"$'{tmp_path}/oev\377ents.csv'" in done.stdout
    done = sdgar("train", f"no-{name}", "--out", tmp_path / "o", "--json")
    assert "no-ev" in json.loads(done.stdout)["error"]["message"]
    done.stderr.encode()


def next_words(done: Done) -> list[str]:
    """What a shell makes of the command that is printed as the next."""
    assert done.returncode == 0, done.stderr
    line = re.findall(r"^next +(.*)$", done.stdout + done.stderr, re.MULTILINE)[-1]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True
    ).stdout
    return [os.fsdecode(word) for word in words.split(b"\0")[:-1]]


@pytest.mark.parametrize("user", [EVIL, "-dash", ESCAPE, BIDI, "a b'c", "`id`", "~root", "é"])
def test_the_next_command_names_the_very_user(user, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = frame_of(rows()).with_columns(user=pl.col("user").replace({"u0": user}))
    frame.filter((pl.col("user") == user) | (pl.col("user") > user)).write_parquet("e v;.parquet")
    out = Path("run $(touch pwned)")
    words = ("e v;.parquet", "--out", out, "--system", "popular", "--split", "none")
    words = next_words(sdgar("train", *words))
    assert words == ["sdgar", "recommend", str(out), "--user", user]
    assert sdgar(*words[1:]).returncode == 0
    assert not Path("pwned").exists()


def test_commands_that_follow_on_data_and_searches_are_quoted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = events(tmp_path).rename("-$(touch pwned).csv")
    words = next_words(sdgar("data", "split", f"./{file}", "--out", "a b", "--rule", "paper"))
    assert words[:5] == ["sdgar", "train", "a b/train.parquet", "--test", "a b/test.parquet"]
    search = ("tune", f"./{file}", "--split", "none", "--trials", "1", "--system", "ease")
    words = next_words(sdgar(*search))
    assert words[:3] == ["sdgar", "train", f"./{file}"]
    assert sdgar(*words[1:]).returncode == 0
    compared = ("compare", f"./{file}", "--split", "paper", "--systems", "popular,ease")
    words = next_words(sdgar(*compared, "--device", "cpu"))
    done = sdgar(*(word if word != "RUN" else "RUN2" for word in words[1:]))
    assert done.returncode == 0, done.stderr  # also without the device, which popular has not
    done = sdgar("train", "--resume", "no $(run)")
    assert "--out 'no $(run)'" in done.stderr
    assert not Path("pwned").exists()


def test_a_command_is_shown_so_that_it_can_be_pasted():
    words = ["sdgar", Path("-x"), "-x", "a'b\\\x1b", "\udcff", "naïve", ""]
    line = command(*words)
    assert visible(line) == line
    said = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True).stdout
    assert [os.fsdecode(word) for word in said.split(b"\0")[:-1]] == [
        "sdgar", "./-x", "-x", "a'b\\\x1b", "\udcff", "naïve", "",
    ]  # fmt: skip


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which sdgar is this one, without pytest's streams."""
    python = shlex.quote(sys.executable)
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; sdgar() {{ {python} -m sdgar "$@"; }}; {line}'],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | environment,
        capture_output=True,
        text=True,
    )


def test_a_closed_pipe_ends_quietly(tmp_path):
    file = shlex.quote(str(events(tmp_path)))
    for line in (f"sdgar data stats {file} | head -1", "sdgar train --help | head -1"):
        done = shell(f"{line}; echo $?")
        assert done.stdout.splitlines()[-1] == "0"
        assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_reported_on_stderr():
    for line in ("sdgar --version > /dev/full", "sdgar train --help > /dev/full"):
        done = shell(line)
        assert done.returncode == 5
        assert "error: standard output cannot be written: No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
    done = shell("sdgar --version 2> /dev/full; sdgar no-command 2> /dev/full")
    assert (done.returncode, done.stdout.split()) == (2, ["sdgar", package.__version__])


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_letters_that_a_terminal_lacks_are_escaped(environment):
    done = shell("sdgar train --help; sdgar recomend ·é >&2; sdgar --help; true", **environment)
    assert done.stdout.isascii()
    assert r"postgresql://\u2026" in done.stdout
    assert "Traceback" not in done.stderr


def test_closed_streams_are_no_reason_to_fail():
    done = shell("sdgar --version >&-; echo $?; sdgar --version 2>&-; echo $?")
    assert done.stdout.split() == ["0", "sdgar", package.__version__, "0"]


@pytest.fixture
def heard() -> Iterator[None]:
    """Interrupts are heard here and in children, also where the shell has them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_an_interrupt_during_imports_is_one_line(tmp_path):
    # The first import of the command line, and one that turns an interrupt into something else.
    for body in ("", "\nexcept KeyboardInterrupt:\n    raise ImportError('half done')"):
        pause = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    [0] * 1"
        ending = body or "\nfinally:\n    pass"
        (tmp_path / "typer.py").write_text(pause + ending)
        done = shell(f"cd {shlex.quote(str(tmp_path))}; sdgar doctor")
        assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.usefixtures("heard")
def test_an_interrupt_inside_a_command_is_one_line(tmp_path):
    (tmp_path / "slow_parts.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)")
    done = sdgar("--import", "slow_parts", "doctor", cwd=tmp_path)
    sys.path.remove(str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_doctor_knows_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = result_of(sdgar("doctor", "--json"))["extras"]
    assert set(found) == set(extras["optional-dependencies"])
    assert found["ann"] is True


def commands() -> dict[str, Any]:
    """Every command with its words, as ``data split``."""
    named = {name: one.place for name, one in registered().items() if ":" not in name}
    return {name: command_of(name) for name, place in named.items() if place is not None}


def helps(name: str, option: str) -> str:
    return next(p.help for p in commands()[name].params if option in (*p.opts, p.name))


def listed(text: str) -> set[str]:
    words = (
        word.strip(" .") for word in re.split(r",| or ", text.partition("  [")[0].split(":")[-1])
    )
    return {word for word in words if word}


@pytest.mark.parametrize(
    ("name", "option", "known"),
    [
        ("train", "--system", set(SYSTEMS)),
        ("train", "--discriminator", set(DISCRIMINATORS)),
        ("train", "--sampler", set(SAMPLERS)),
        ("train", "--objective", set(OBJECTIVES)),
        ("data synthetic", "preset", set(PRESETS)),
        ("data prepare", "name", set(DATASETS)),
        ("train", "--duplicates", {"error", "sum", "max", "last"}),
    ],
)
def test_help_lists_exactly_the_names_there_are(name, option, known):
    assert listed(helps(name, option)) == known


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_commands_and_options_that_there_are(document):
    blocks = re.findall(r"^```\w*\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    text, known = re.sub(r"\\\n\s*", " ", "\n".join(blocks)), commands()
    for line in re.findall(r"^sdgar (\S.*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        words = words[2:] if words[0] == "--import" else words
        name = next(n for n in (" ".join(words[:2]), words[0]) if n in known)
        options = {option for p in known[name].params for option in p.opts}
        given = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}
        assert given <= options, line


WRONG = {float: (None, "x", []), bool: (None, "x", 2), str: (None, 3, []), dict: (None, "x", 3)}


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_every_parameter_of_another_type_is_refused_by_its_name(name):
    kind = SYSTEMS[name]
    for field, wanted in types_of(kind).items():
        rule = NoneType in get_args(wanted)
        of = float if rule else get_origin(wanted) or wanted
        for value in WRONG.get(of, (None, "x", 2.5)):
            if value is None and rule:
                continue  # left to a rule
            with pytest.raises(UsageError, match=field.rpartition("__")[2]):
                kind(**{field: value}).fit(rows())
