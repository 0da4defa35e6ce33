"""Folders that are damaged, edited, foreign or impossible: refused by name, and nothing is lost."""

from __future__ import annotations

import copy
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdgar.data.readers import ReadOptions
from sdgar.discriminators.sequence import Sequence
from sdgar.errors import ArtifactError, SdgarError, UsageError
from sdgar.lab.compare import finished_run, results_in
from sdgar.lab.paper import measurements
from sdgar.models.network import Encoder, rebuilt
from sdgar.recommend import artifact
from sdgar.recommend.recommender import Recommender
from sdgar.runs import workspace
from sdgar.runs.job import Job
from sdgar.runs.watching import Watch, Work, never
from sdgar.runs.workspace import Workspace
from sdgar.storage import sealed
from sdgar.training import checkpoint_file
from sdgar.training.checkpoint_file import as_json
from sdgar.training.records import EpochRecord

from ..cli.test_cli import Done, sdgar
from ..recommend.test_artifact import a_model, change_tensors, edit_manifest, same
from ..training.test_checkpoint import CPU, IDENTITY, a_checkpoint, kept_in, rewrite_loop
from .cases import Case, check, refused, table

Act = Callable[[Path], Any]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def events(folder: Path) -> Path:
    """A file of events that trains in no time."""
    rows = [f"u{u},i{i}" for u in range(8) for i in range(6) if (u + i) % 2]
    path = folder / "events.csv"
    path.write_text("user,item\n" + "\n".join(rows) + "\n")
    return path


def train(folder: Path, *words: object) -> Done:
    return sdgar("train", events(folder), "--system", "popular", "--split", "none", *words)


# Where a folder cannot be


def saved_to(place: Callable[[Path], str | Path], *, overwrite: bool = False) -> Act:
    return lambda folder: artifact.save(a_model(), place(folder), overwrite=overwrite)


def trained_to(place: Callable[[Path], str | Path], *words: object) -> Act:
    return lambda folder: train(folder, "--out", place(folder), *words)


def run_in(place: Callable[[Path], Path]) -> Act:
    def act(folder: Path) -> None:
        with Workspace(place(folder), {}):
            pytest.fail("the run has begun")

    return act


def loop_in(folder: Path) -> Path:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    return folder / "a"


def file_in(folder: Path) -> Path:
    (folder / "file").write_text("mine")
    return folder / "file"


def link_to_file(folder: Path) -> Path:
    (folder / "link").symlink_to(file_in(folder))
    return folder / "link"


PLACES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "an empty name": (lambda _: "", "cannot be a folder"),
    "the folder one works in": (lambda _: ".", "'.' cannot be a folder"),
    "a folder above": (lambda _: "..", "'..' cannot be a folder"),
    "the root": (lambda _: "/", "'/' cannot be a folder"),
    "250 characters": (lambda f: f / ("x" * 250), "bytes"),
    "300 characters": (lambda f: f / ("x" * 300), "cannot be a folder"),
    "a parent of 300 characters": (lambda f: f / ("x" * 300) / "model", "cannot be a folder"),
    "100 umlauts and more": (lambda f: f / ("ä" * 120), "bytes"),
    "a file for a parent": (lambda f: file_in(f) / "model", "is not a folder"),
    "a file for a grandparent": (lambda f: file_in(f) / "a" / "b", "is not a folder"),
    "a link that leads to itself": (loop_in, "leads back to itself"),
    "a link in the way that leads to itself": (lambda f: loop_in(f) / "model", "cannot be a"),
    "a file": (file_in, "is not a folder"),
    "a link to a file": (link_to_file, "is not a folder"),
}

CASES: dict[str, tuple[Any, ...]] = {
    **{f"a model is saved to {n}": (saved_to(p), s) for n, (p, s) in PLACES.items()},
    "a model is saved to a NUL": (saved_to(lambda f: f"{f}/a\0b"), "null"),
    "a model is saved to a number": (saved_to(lambda _: 5), "'5' cannot"),
    **{
        f"a run is begun in {name}": (run_in(lambda f, p=place: Path(p(f))), says)
        for name, (place, says) in PLACES.items()
    },
    **{
        f"a command trains to {name}": (trained_to(PLACES[name][0]), PLACES[name][1])
        for name in (
            "an empty name",
            "the root",
            "250 characters",
            "a link that leads to itself",
        )
    },
    "an attachment leads out of the folder": (
        lambda f: artifact.save(a_model(), f / "model", attachments={"../x": b""}),
        "'../x'",
    ),
    "an attachment has the name of a model": (
        lambda f: artifact.save(a_model(), f / "model", attachments={"model.safetensors": b""}),
        "'model.safetensors'",
    ),
}


@table(refused(2, CASES))
def test_an_impossible_place_is_refused_before_any_work(case, tmp_path):
    check(case, tmp_path)
    assert not list(tmp_path.glob(".*"))
    assert not list(tmp_path.glob("*.partial"))
    if (tmp_path / "file").exists():
        assert (tmp_path / "file").read_text() == "mine"


# What is never replaced


def with_file(name: str, text: str = "years of work") -> Callable[[Path], Path]:
    """A model with a file of the user in its folder."""

    def make(folder: Path) -> Path:
        target = artifact.save(a_model(), folder / "model")
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text(text)
        return target

    return make


def holding(name: str, text: str = "years of work") -> Callable[[Path], Path]:
    """A file of the user where a model or a run would be."""

    def make(folder: Path) -> Path:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        return folder / Path(name).parts[0].removesuffix(".partial")

    return make


def in_partial(name: str) -> Callable[[Path], Path]:
    """An interrupted run with a file of the user in its folder."""

    def make(folder: Path) -> Path:
        with suppress(KeyError), Workspace(folder / "run", {}) as run:
            run.record("choose", EpochRecord(1, 0.5, 0.1))
            raise KeyError
        (run.folder / name).write_text("years of work")
        return folder / "run"

    return make


def comparison(folder: Path) -> Done:
    out = folder / "cmp"
    out.mkdir()
    (out / "results.jsonl").write_text('{"format": "mine", "text": "years of work"}\n')
    return sdgar("compare", events(folder), "--systems", "popular", "--out", out, "--overwrite")


def study(folder: Path) -> Done:
    line = {"op_code": 0, "worker_id": "years of work", "study_name": "thesis", "directions": [2]}
    (folder / "study.jsonl").write_text(json.dumps(line) + "\n")
    words = ("--study", folder / "study.jsonl", "--overwrite", "--trials", 1)
    return sdgar("tune", events(folder), "--system", "item-knn", *words)


def paper(folder: Path) -> Done:
    (folder / "out").mkdir()
    (folder / "out" / "table1.md").write_text("years of work")
    return sdgar("paper", "table1", "--quick", "--out", folder / "out")


def listed(folder: Path) -> Done:
    model = artifact.save(a_model(), folder / "model")
    (folder / "lists.csv").mkdir()
    (folder / "lists.csv" / "thesis.txt").write_text("years of work")
    return sdgar("recommend", model, "--all", "-o", folder / "lists.csv", "--overwrite")


OVER = {"overwrite": True}
FOREIGN: dict[str, tuple[Any, ...]] = {
    "notes lie in the folder of a model": (saved_to(with_file("notes.txt"), **OVER), "notes.txt"),
    "a folder lies in the folder of a model": (saved_to(with_file("mine/a"), **OVER), "'mine'"),
    "a hidden file lies there": (saved_to(with_file(".env"), **OVER), "'.env'"),
    "a command would replace notes": (
        trained_to(with_file("notes.txt"), "--overwrite"),
        "notes.txt",
        "Move that away",
    ),
    **{
        f"{name} has a manifest": (
            saved_to(holding("model/manifest.json", m), **OVER),
            "manifest.json",
        )
        for name, m in {
            "a browser extension": '{"manifest_version": 3, "of": "years of work"}',
            "a list of files": '["years of work"]',
            "something that is no JSON": "years of work",
            "another format": '{"format": "llm", "of": "years of work"}',
        }.items()
    },
    "notes lie in a partial run": (trained_to(in_partial("a.txt"), "--overwrite"), "'a.txt'"),
    "a copy of a checkpoint lies in a partial run": (
        trained_to(in_partial("checkpoint-best"), "--overwrite"),
        "'checkpoint-best'",
    ),
    "a folder has a name of ours": (
        trained_to(holding("run.partial/thesis.txt"), "--overwrite"),
        "run.json",
    ),
    "a file has a name of ours": (trained_to(holding("run.partial"), "--overwrite"), "run.partial"),
    "results are not ours": (comparison, "results.jsonl"),
    "a study is not ours": (study, "study.jsonl", "not a study of sdgar"),
    "a table is not ours": (paper, "table1.md"),
    "a folder has the name of a file": (listed, "lists.csv"),
}


@table(refused(2, FOREIGN))
def test_what_sdgar_did_not_write_is_never_replaced(case, tmp_path):
    before: dict[str, bytes] = {}
    act = case.act

    def watched(folder: Path) -> object:
        try:
            return act(folder)
        finally:
            before.update(contents(folder))

    check(Case(case.name, case.exit_code, case.says, watched), tmp_path)
    assert sum(b"years of work" in data for data in before.values()) == 1
    assert not list(tmp_path.rglob("*.tmp*"))


def test_everything_that_sdgar_wrote_is_replaced_on_request(tmp_path):
    target = tmp_path / "model"
    attachments = {"log.jsonl": b"", "mine.txt": b"given to save"}
    artifact.save(a_model(0), target, attachments=attachments)
    (target / "training.png").write_bytes(b"drawn by sdgar demo")
    artifact.save(a_model(1), target, overwrite=True)
    assert same(artifact.load(target), a_model(1))
    assert len(contents(target)) == 4


def test_a_damaged_model_of_ours_is_replaced_on_request(tmp_path):
    target = artifact.save(a_model(0), tmp_path / "model")
    (target / "model.safetensors").write_bytes(b"")
    manifest = (target / "manifest.json").read_text()
    (target / "manifest.json").write_text(manifest.replace('"seed": 0', '"seed": 9'))
    artifact.save(a_model(1), target, overwrite=True)
    assert same(artifact.load(target), a_model(1))


def test_notes_in_a_partial_run_outlive_the_run(tmp_path):
    out = in_partial("notes.txt")(tmp_path)
    with Workspace(out, {}, resume=True):
        pass
    assert [p.name for p in (tmp_path / "run.partial").iterdir()] == ["notes.txt"]
    with pytest.raises(UsageError, match="no interrupted run"):
        workspace.read_run(out)


def test_a_users_copy_of_a_checkpoint_is_neither_taken_up_nor_removed(tmp_path):
    store = kept_in(tmp_path)
    store.write(a_checkpoint(1))
    shutil.copytree(tmp_path / "checkpoint-000003", tmp_path / "checkpoint-best")
    (tmp_path / ".checkpoint-notes").write_text("mine")
    for epoch in (2, 3, 4):
        store.write(a_checkpoint(epoch))
    assert kept_in(tmp_path).resume()[-1] == "resuming after epoch 4 of pass 'final'"
    assert (tmp_path / "checkpoint-best" / "loop.json").exists()
    assert (tmp_path / ".checkpoint-notes").exists()


def test_a_million_epochs_come_after_the_999999_before_them(tmp_path):
    for n in (999_999, 1_000_000):
        (tmp_path / f"checkpoint-{n:06d}").mkdir()
    found = [path.name for path in kept_in(tmp_path)._folders()]
    assert found == ["checkpoint-1000000", "checkpoint-999999"]


def test_overwriting_a_comparison_leaves_the_studies_of_other_systems_and_files_of_others(tmp_path):
    words = ("--systems", "popular", "--out", tmp_path / "cmp")
    assert sdgar("compare", events(tmp_path), *words).returncode == 0
    studies = tmp_path / "cmp" / "studies"
    studies.mkdir()
    line = {"op_code": 0, "worker_id": "w", "study_name": "sdgar", "directions": [2]}
    (studies / "bpr.jsonl").write_text(json.dumps(line) + "\n")
    (studies / "thesis.jsonl").write_text('{"years": "of work"}\n')
    (studies / "notes.txt").write_text("years of work")
    done = sdgar("compare", events(tmp_path), *words, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in studies.iterdir()) == ["bpr.jsonl", "notes.txt", "thesis.jsonl"]


# Links


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "model")
    return tmp_path


def test_a_link_that_leads_nowhere_yet_is_followed(elsewhere):
    artifact.save(a_model(0), elsewhere / "link")
    assert (elsewhere / "link").is_symlink()
    assert [p.name for p in (elsewhere / "disk").iterdir()] == ["model"]
    assert same(artifact.load(elsewhere / "link"), a_model(0))


def test_a_model_behind_a_link_is_replaced_only_on_request_and_the_link_stays(elsewhere):
    artifact.save(a_model(0), elsewhere / "disk" / "model")
    with pytest.raises(UsageError, match="--overwrite"):
        artifact.save(a_model(1), elsewhere / "link")
    artifact.save(a_model(1), elsewhere / "link", overwrite=True)
    assert same(artifact.load(elsewhere / "disk" / "model"), a_model(1))
    assert (elsewhere / "link").is_symlink()
    assert sorted(p.name for p in elsewhere.iterdir()) == ["disk", "link"]
    assert [p.name for p in (elsewhere / "disk").iterdir()] == ["model"]


def test_a_command_trains_to_where_a_link_leads(elsewhere):
    for words in ((), ("--overwrite",)):
        done = train(elsewhere, "--out", elsewhere / "link", *words)
        assert done.returncode == 0, done.stderr
    assert sdgar("recommend", elsewhere / "link", "--all").returncode == 0
    assert (elsewhere / "link").is_symlink()
    assert [p.name for p in (elsewhere / "disk").iterdir()] == ["model"]


def test_a_list_is_written_to_where_a_link_leads(tmp_path):
    model = artifact.save(a_model(), tmp_path / "model")
    (tmp_path / "lists.csv").symlink_to(tmp_path / "real.csv")
    done = sdgar("recommend", model, "--all", "-o", tmp_path / "lists.csv")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "lists.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("user,")


def test_names_with_the_signs_of_patterns_are_taken_as_they_are(tmp_path):
    for name in ("model[1]", "*", "a?b", "ä b"):
        artifact.save(a_model(0), tmp_path / name)
        artifact.save(a_model(1), tmp_path / name, overwrite=True)
        assert same(artifact.load(tmp_path / name), a_model(1))
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("writer", ["99999999999999999999", "²", "-1", "x"])
def test_a_temporary_folder_of_nobody_is_left_alone(tmp_path, writer):
    strange = tmp_path / f".model.tmp-{writer}-abcd"
    strange.mkdir()
    artifact.save(a_model(), tmp_path / "model")
    assert strange.exists()


# What is read


def saved(folder: Path) -> Path:
    return artifact.save(a_model(text=False), folder / "model")


def resealed(table: dict[str, Any]) -> str:
    """A table as text, with the seal that it should have."""
    return json.dumps(sealed.with_seal({k: v for k, v in table.items() if k != "seal"}))


def loaded(change: Callable[[Path], object]) -> Act:
    def act(folder: Path) -> object:
        target = saved(folder)
        change(target)
        return artifact.load(target)

    return act


def instead(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """A file of a folder that is something else now."""

    def change(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return change


def text_of(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """A file of a folder whose text was edited."""

    def edit(folder: Path) -> None:
        path = folder / name
        text = path.read_text()
        assert change(text) != text
        path.write_text(change(text))

    return edit


def manifest_text(change: Callable[[str], str]) -> Act:
    return loaded(text_of("manifest.json", change))


def resealed_manifest(**changes: Any) -> Act:
    """An edited manifest with the right seal."""
    return loaded(lambda target: edit_manifest(target, **changes))


def mixed_up(side: str, order: list[int]) -> Act:
    return loaded(
        lambda target: change_tensors(
            target, "ids.safetensors", lambda t: t.update({side: t[side][order]})
        )
    )


NETWORK = {"dim": 4, "blocks": 2, "heads": 2, "length": 5}


def network(**settings: Any) -> Act:
    def act(_: Path) -> Encoder:
        tensors = Sequence(5, 6, **NETWORK).state_dict()
        return rebuilt(Encoder, "sequence", NETWORK | settings, (5, 6), tensors)

    return act


MANY = {"users": 10**12, "items": 6, "interactions": 10, "dim": 3}
THINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "a pipe"),
    "a folder": (Path.mkdir, "a folder"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "a link to nowhere": (lambda path: path.symlink_to("nowhere"), "missing"),
}
FILES = ("manifest.json", "model.safetensors", "ids.safetensors", "history.safetensors")

READ: dict[str, tuple[Any, ...]] = {
    **{
        f"{file} is {name}": (loaded(instead(file, make)), file, says)
        for file in FILES
        for name, (make, says) in THINGS.items()
    },
    "a digit is changed": (manifest_text(lambda t: t.replace(": 0", ": 1")), "seal"),
    "a name is changed": (manifest_text(lambda t: t.replace("test", "rest")), "seal"),
    "an entry is added": (manifest_text(lambda t: '{"x": 1,' + t[1:]), "seal"),
    "a seal is misspelt": (manifest_text(lambda t: t.replace('"seal"', '"seel"')), "seal"),
    "a key occurs twice": (manifest_text(lambda t: '{"ids": 1,' + t[1:]), "twice"),
    "a number is NaN": (manifest_text(lambda t: t.replace(": 0", ": NaN")), "NaN"),
    "a number is 1e999": (manifest_text(lambda t: t.replace(": 0", ": 1e999")), "1e999"),
    "a number is endless": (manifest_text(lambda t: t.replace(": 0", ": " + "9" * 5000)), "JSON"),
    "a manifest is nested deeply": (manifest_text(lambda t: '{"a":' * 50000), "JSON"),
    "a manifest is 65 MiB": (manifest_text(lambda t: t + " " * (65 << 20)), "at most"),
    "user ids are out of order": (
        mixed_up("users", [1, 0, 2, 3, 4]),
        "must be distinct and ascend",
    ),
    "item ids are backwards": (
        mixed_up("items", [5, 4, 3, 2, 1, 0]),
        "must be distinct and ascend",
    ),
    "item ids occur twice": (mixed_up("items", [0, 0, 2, 3, 4, 5]), "twice"),
    "there should be 10^12 users": (resealed_manifest(sizes=MANY), "indptr_U1"),
    "there should be 10^12 dims": (
        resealed_manifest(sizes=MANY | {"users": 5, "dim": 10**12}),
        "user_UD",
    ),
    "a size is text": (resealed_manifest(sizes=MANY | {"more": "x"}), "a size"),
    "a size is negative": (resealed_manifest(sizes=MANY | {"dim": -1}), "a size"),
    "fields have no names": (resealed_manifest(about={"context": []}), "context"),
    "fields are a number": (resealed_manifest(about={"context": 5}), "context"),
    "a network has 10^4 blocks": (network(blocks=10**4), "parameters"),
    "a network has 10^9 blocks": (network(blocks=10**9), "parameters"),
    "a network has 10^4 dims": (network(dim=10**4), "numbers"),
    "a network has 10^12 dims": (network(dim=10**12), "numbers"),
    "a network has 10^12 places": (network(length=10**12), "numbers"),
    "a network has no heads": (network(heads=0), "heads"),
    "a network has dims in words": (network(dim="many"), "sequence"),
    "a network has settings of another": (network(depth=3), "depth"),
}


@table(refused(4, READ))
def test_a_model_that_is_not_what_was_saved_is_refused_at_once(case, tmp_path):
    check(case, tmp_path)


def test_a_seal_does_not_depend_on_how_a_manifest_is_laid_out(tmp_path):
    target = saved(tmp_path)
    manifest = json.loads((target / "manifest.json").read_text())
    backwards = dict(reversed(manifest.items()))
    (target / "manifest.json").write_text(json.dumps(backwards, indent=7))
    assert same(artifact.load(target), a_model(text=False))


def test_keys_that_are_numbers_are_sealed_as_they_are_read_back(tmp_path):
    model = a_model()
    model.about["by_k"] = {10: 0.5, 9: 0.25, 100: 1.0}
    assert artifact.load(artifact.save(model, tmp_path / "model")).about["by_k"]["9"] == 0.25


def test_every_flipped_bit_of_a_manifest_is_noticed(tmp_path):
    target = saved(tmp_path)
    good = (target / "manifest.json").read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(good), 300):
        bad = bytearray(good)
        bad[at] ^= 1 << rng.integers(0, 8)
        (target / "manifest.json").write_bytes(bytes(bad))
        with pytest.raises(ArtifactError):
            artifact.load(target)


ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**12, 10**40, "", "x", "\0", [], [1], [[]], {}, {"x": 1}, [None],
)  # fmt: skip


def edits(table: Any) -> Iterator[Any]:
    """The table with each of its values replaced by odd ones, or left out, one at a time."""
    for key in table:
        for odd in ODD:
            yield {**table, key: odd}
        yield {name: value for name, value in table.items() if name != key}
        if isinstance(table[key], dict):
            for inner in edits(table[key]):
                yield {**table, key: inner}


def test_no_edit_of_a_manifest_ends_in_a_traceback(tmp_path):
    """With a seal each is noticed; with a new seal a model is right or refused."""
    model = a_model()
    model.about.update(context=["user"], hyper_parameters={"tau": 0.1}, report={"test": {"a": 1.0}})
    target = artifact.save(model, tmp_path / "model")
    path = target / "manifest.json"
    good = json.loads(path.read_text())
    n = 0
    for edited in edits(good):
        if edited == good:
            continue
        path.write_text(json.dumps(edited))
        if "seal" in edited:
            with pytest.raises(ArtifactError):
                artifact.load(target)
        path.write_text(resealed(edited))
        with suppress(ArtifactError):
            Recommender(artifact.load(target)).recommend(k=1)
        n += 1
    assert n > 300


# A run in progress


def a_job() -> dict[str, Any]:
    reading = {name: getattr(ReadOptions(), name) for name in ReadOptions.__dataclass_fields__}
    return {
        "files": ["events.csv"], "test": [], "valid": [], "reading": reading, "system": "popular",
        "settings": {}, "seed": 0, "engine": "auto", "device": "auto", "protocol": "validated",
        "split": "none", "ks": [10], "overwrite": False, "checkpoint_every": 30.0,
    }  # fmt: skip


def a_run(folder: Path) -> Path:
    """An interrupted run, as a command leaves it."""
    events(folder)
    job = a_job() | {"files": [str(folder / "events.csv")]}
    with suppress(KeyError), Workspace(folder / "run", {"seed": 0}, command=job) as run:
        run.record("choose", EpochRecord(1, 0.5, 0.1))
        raise KeyError
    return folder / "run"


def resumed(change: Callable[[Path], object]) -> Act:
    def act(folder: Path) -> Done:
        out = a_run(folder)
        change(folder / "run.partial")
        return sdgar("train", "--resume", out)

    return act


def text_of_run(change: Callable[[str], str]) -> Act:
    return resumed(text_of("run.json", change))


def resealed_run(change: Callable[[dict[str, Any]], object]) -> Act:
    """An edited run.json with the right seal."""

    def edit(text: str) -> str:
        described = json.loads(text)
        change(described)
        return resealed(described)

    return text_of_run(edit)


def reopened(name: str) -> Act:
    """A run that is taken up although a file in it has become a pipe."""

    def act(folder: Path) -> None:
        out = a_run(folder)
        (folder / "run.partial" / name).unlink()
        os.mkfifo(folder / "run.partial" / name)
        with Workspace(out, {"seed": 0}, resume=True):
            pytest.fail("the run resumes")

    return act


RUNS: dict[str, tuple[Any, ...]] = {
    "a digit of a run is changed": (text_of_run(lambda t: t.replace("30.0", "31.0")), "seal"),
    "run.json is empty": (text_of_run(lambda t: ""), "run.json"),
    "run.json is a list": (text_of_run(lambda t: "[]"), "run.json"),
    "run.json is cut": (text_of_run(lambda t: t[:-5]), "run.json"),
    "run.json is of tomorrow": (
        text_of_run(lambda t: t.replace('version": 1', 'version": 2')),
        "it is no run of format version 1",
    ),
    **{
        f"run.json is {name}": (resumed(instead("run.json", make)), "run.json", says)
        for name, (make, says) in THINGS.items()
    },
    **{f"{name} is a pipe": (reopened(name), name) for name in ("lock", "log.jsonl")},
    "a command is missing": (resealed_run(lambda d: d.pop("command")), "run began"),
    "a command is text": (resealed_run(lambda d: d.update(command="x")), "run began"),
    "a run has no number": (resealed_run(lambda d: d.update(run_id=5)), "run began"),
    "files are a number": (resealed_run(lambda d: d["command"].update(files=5)), "'files'"),
    "lengths are text": (resealed_run(lambda d: d["command"].update(ks="10")), "'ks'"),
    "a setting is unknown": (resealed_run(lambda d: d["command"].update(more=1)), "'more'"),
    "a column is a list": (
        resealed_run(lambda d: d["command"]["reading"].update(user=[1])),
        "'user'",
    ),
}


@table(refused(4, RUNS))
def test_a_run_that_is_not_as_it_was_left_is_refused_and_kept(case, tmp_path):
    check(case, tmp_path)
    assert (tmp_path / "run.partial").is_dir()


def test_no_edit_of_a_run_ends_in_a_traceback(tmp_path):
    out = a_run(tmp_path)
    path = tmp_path / "run.partial" / "run.json"
    good = json.loads(path.read_text())
    for edited in edits(good):
        if edited == good:
            continue
        path.write_text(json.dumps(edited))
        if "seal" in edited:
            with pytest.raises(ArtifactError):
                workspace.read_run(out)
        path.write_text(resealed(edited))
        with suppress(SdgarError):
            command = workspace.read_run(out)["command"]
            job = sealed.read_record(path, Job, command)
            sealed.read_record(path, ReadOptions, job.reading)
            assert all(isinstance(file, str) for file in (*job.files, *job.test, *job.valid))


def test_no_edit_of_a_checkpoint_ends_in_a_traceback(tmp_path):
    folder = kept_in(tmp_path).write(a_checkpoint())
    identity = as_json(IDENTITY)
    manifest = json.loads((folder / "manifest.json").read_text())
    for edited in edits(manifest):
        if edited != manifest and "seal" in edited:
            (folder / "manifest.json").write_text(json.dumps(edited))
            with pytest.raises(sealed.DamagedError):
                checkpoint_file.read(folder, identity, CPU)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    loop = json.loads((folder / "loop.json").read_text())
    (record, *_), final = loop["log"], loop["finished"]
    tried = [*edits({k: v for k, v in loop.items() if k != "log"})]
    tried += [{"log": [odd]} for odd in (*ODD, *edits(record))] + [{"log": odd} for odd in ODD]
    tried += [{"finished": odd} for odd in (*ODD, *edits(final))]
    for edited in tried:
        rewrite_loop(folder, **copy.deepcopy(loop) | edited)
        with suppress(ArtifactError):
            found = checkpoint_file.read(folder, identity, CPU)
            assert found.epochs >= 0
            assert all(isinstance(one.loss, float | int) for one in found.log)
            assert math.isfinite(found.seconds)


# Results that a command resumes from


def a_comparison(folder: Path) -> tuple[Path, Callable[[], Done]]:
    """A finished comparison, and the command that reads it again."""
    out = folder / "cmp"
    words = ("compare", events(folder), "--systems", "popular", "--out", out)
    assert sdgar(*words).returncode == 0
    return out / "results.jsonl", lambda: sdgar(*words)


def test_a_changed_digit_of_a_result_is_noticed(tmp_path):
    path, again = a_comparison(tmp_path)
    line = json.loads(path.read_text())
    line["run"]["seconds"] += 1
    path.write_text(json.dumps(line) + "\n")
    done = again()
    assert done.returncode == 4
    assert "results.jsonl is damaged: it does not fit its seal" in done.stderr
    path.write_text(resealed(line) + "\n")
    assert again().returncode == 0


def test_no_edit_of_a_result_ends_in_a_traceback(tmp_path):
    path, _ = a_comparison(tmp_path)
    good = json.loads(path.read_text())
    for edited in edits(good):
        path.write_text(resealed(edited) + "\n")
        with suppress(SdgarError), results_in(path.parent) as results:
            found = finished_run(results, ("popular", None, 0), good["identity"])
            assert found is None or isinstance(found.metrics, dict)


@pytest.mark.parametrize("name", ["key", "values", "seconds", "made_on"])
def test_a_measurement_of_the_paper_that_was_edited_is_refused(tmp_path, name):
    path, work = tmp_path / "time.jsonl", Work(Watch(), never, "")
    piece = measurements.Piece(key={"a": 1}, measure=lambda _: {"value": 0.25})

    def measured() -> list[dict[str, Any]]:
        return measurements.measured([piece], path, "cpu", work)

    measured()
    path.write_text(path.read_text().replace("0.25", "0.35"))
    with pytest.raises(sealed.DamagedError, match="seal"):
        measured()
    line = json.loads(path.read_text())
    path.write_text(resealed(line) + "\n")
    assert measured()[0]["value"] == 0.35
    path.write_text(resealed(line | {name: "x"}) + "\n")
    with pytest.raises(sealed.DamagedError, match="does not describe a measurement"):
        measured()
