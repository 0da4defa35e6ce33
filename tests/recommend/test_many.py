"""Lists for all users of a large model: mapped from its files, in parts, in bounded memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdgar
from sdgar.cli import recommend as commands
from sdgar.data.ids import Ids
from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.ranking import sweep
from sdgar.recommend import artifact, recommender
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.ranking import pieces_of, require_ram

from ..cli.test_cli import sdgar as command
from ..evaluation.problems import model_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Save a model of vectors with item-item weights."""
    model, history = model_of(np.random.default_rng(0), 40, 30, 4)
    users = Ids(np.array([f"u{n:02d}" for n in range(40)], object))
    own = Artifact(model, users, Ids(np.arange(30)), history, {"system": "test"})
    return artifact.save(own, tmp_path_factory.mktemp("model") / "run")


def is_mapped(array):
    """Return whether an array lies in a mapped file."""
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


def run(*words):
    return command(*words).returncode


def test_a_mapped_model_is_that_of_its_files(saved):
    read, mapped = (sdgar.load(saved, mapped=one) for one in (False, True))
    users_B = np.arange(40)
    assert np.array_equal(read.model.score_all(users_B), mapped.model.score_all(users_B))
    assert mapped.users.values.tolist() == read.users.values.tolist()
    assert mapped.version == read.version
    assert is_mapped(mapped.model.second.weight_II.column_E)
    assert not is_mapped(read.model.second.weight_II.column_E)
    mapped.model.first.bias_I[:] = 0  # what changes a mapped array does not change the file
    assert np.array_equal(sdgar.load(saved).model.first.bias_I, read.model.first.bias_I)


@pytest.mark.parametrize("spoil", ["byte", "cut", "missing"])
def test_a_damaged_file_is_not_mapped(saved, tmp_path, spoil):
    folder = shutil.copytree(saved, tmp_path / "run")
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.unlink() if spoil == "missing" else file.write_bytes(data[:-9] if spoil == "cut" else data)
    with pytest.raises(ArtifactError, match=r"model\.safetensors is damaged"):
        sdgar.load(folder, mapped=True)


@given(st.integers(0, 50), st.integers(1, 30), st.integers(1, 7), st.integers(1, 9))
def test_parts_one_after_the_other_are_the_whole(count, rows, each, of):
    whole = list(pieces_of(count, rows, each, (0, 1)))
    parts = [list(pieces_of(count, rows, each, (number, of))) for number in range(of)]
    assert all(parts)
    full = [one for part in parts for one in part if range(count)[one]]
    assert full == [one for one in whole if range(count)[one]]
    assert [u for one in full for u in range(count)[one]] == list(range(count))


def test_a_large_catalogue_is_swept_and_gives_the_same_lists(saved, monkeypatch):
    model = sdgar.load(saved)
    before = model.recommend(k=5)
    monkeypatch.setattr(sweep, "_LARGE", 30)
    monkeypatch.setattr(sweep, "_FROM_USERS", 40)
    with patch.object(sweep.Sweep, "top_k", autospec=True, side_effect=sweep.Sweep.top_k) as used:
        swept = model.recommend(k=5)
    assert used.call_count == 1
    assert swept["item"].to_list() == before["item"].to_list()
    assert swept["score"].to_list() == pytest.approx(before["score"].to_list(), rel=1e-4, abs=1e-4)


def test_two_parts_are_the_rows_of_one_process(saved):
    model = sdgar.load(saved)
    parts = [model.lists_in_pieces(None, 3, rows=15, part=(n, 2)) for n in range(2)]
    frames = [lists.frame() for part in parts for lists in part]
    assert len(frames) == 8
    assert pl.concat(frames).equals(model.recommend(k=3))


@pytest.mark.exhaustive
def test_workers_write_the_rows_of_one_process(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    words = ["recommend", saved, "--all", "-k", "3", "--parts", tmp_path / "lists"]
    words += ["--workers", "2", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "sdgar", *map(str, words)], capture_output=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    said, names = json.loads(done.stdout), ["part-0000.parquet", "part-0001.parquet"]
    assert (said["parts"], said["rows"]) == (names, 120)
    assert sorted(file.name for file in (tmp_path / "lists").iterdir()) == names
    assert [file.name for file in tmp_path.iterdir()] == ["lists"]
    frames = [pl.read_parquet(tmp_path / "lists" / name) for name in names]
    assert pl.concat(frames).equals(sdgar.load(saved).recommend(k=3))


def test_one_worker_writes_one_part(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(recommender, "PIECE", 7)
    words = ["recommend", saved, "--sample", "9", "-k", "2", "--parts", tmp_path / "lists"]
    assert run(*words) == 0
    frame = pl.read_parquet(tmp_path / "lists" / "part-0000.parquet")
    users = frame["user"].unique(maintain_order=True).to_list()
    assert len(users) == 9
    assert users == sorted(users)
    assert users != [f"u{n:02d}" for n in range(9)]
    (tmp_path / "lists" / "mine.txt").write_text("kept")
    assert run(*words) == 2
    assert run(*words, "--overwrite") == 2  # as a file is there that is no part
    (tmp_path / "lists" / "mine.txt").unlink()
    assert run(*words, "--overwrite") == 0


def test_what_goes_wrong_leaves_no_folder(saved, tmp_path, monkeypatch):
    def fails(frames, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sdgar.data.tables.write_pieces", fails)
    assert run("recommend", saved, "--all", "--parts", tmp_path / "lists") == 5
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_too_large_to_be_read_is_mapped(saved):
    size = sum(file.stat().st_size for file in saved.glob("*.safetensors"))
    for allowed, mapped in ((4 * size, False), (4 * size - 1, True)):
        model = sdgar.load(saved, ram=allowed).model
        assert is_mapped(model.second.weight_II.column_E) == mapped


def test_lists_that_take_too_much_memory_are_refused_before_they_are_made(saved):
    model = sdgar.load(saved)
    require_ram(4 << 30, model.users, model.items, 40, 10)
    with pytest.raises(ResourceError, match=r"the lists of 40 users take about .* MiB of memory"):
        require_ram(300 << 20, model.users, model.items, 40, 10)
    assert run("recommend", saved, "--all", "--ram", "300MiB") == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--all", "--workers", "2"], "--workers goes with --parts FOLDER"),
        (["--all", "--parts", "a", "--out", "b.csv"], "--out and --parts name two places"),
        (["--sample", "41"], "--sample must be from 1 to 40"),
        (["--sample", "0"], "--sample must be from 1 to 40"),
        (["--sample", "2", "--all"], "say one of"),
    ],
)
def test_options_that_do_not_go_together_are_refused(saved, words, said):
    done = command("recommend", saved, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_sample_is_always_the_same(saved):
    model = sdgar.load(saved)
    assert commands._drawn(model, 5) == commands._drawn(model, 5)
    assert commands._drawn(model, 40) == model.users.values.tolist()
    with pytest.raises(UsageError):
        commands._drawn(model, -1)
