"""Files of many rows, which kernels read, sort and number, give what others give."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sdgar import kernels
from sdgar.data.interactions import Interactions
from sdgar.data.readers import ReadOptions, read_files, read_options
from sdgar.data.readers.files import find_files
from sdgar.data.readers.inputs import open_files
from sdgar.data.readers.problems import ProblemLog
from sdgar.errors import SdgarError
from sdgar.scale.shards.build import shard_files

from .conftest import as_of_many_rows

N = 3000


def column(make: Callable[[np.random.Generator], Any]) -> list[Any]:
    """Return the values of a column, the same ones each time."""
    return np.asarray(make(np.random.default_rng(5))).tolist()


NEAR = column(lambda generator: generator.integers(-20, 300, N))
FAR = column(lambda generator: generator.integers(-(2**63), 2**63 - 1, 400)[NEAR])
UNSIGNED = column(lambda generator: generator.integers(2**63, 2**63 + 99, N, np.uint64))
SHORT = [f"ü{n}" for n in NEAR]
LONG = [f"a text of more bytes than Polars holds in place {n}" for n in NEAR]
MIXED = [*map(str, NEAR[:-1]), "seven"]
ITEMS = column(lambda generator: generator.permutation(N) % 70)
TIMES = column(lambda generator: generator.integers(10**9, 10**9 + 50, N))
WEIGHTS = column(lambda generator: generator.integers(1, 5, N))
DECIMALS = [weight / 4 for weight in WEIGHTS]


def found(paths: list[Path], **options: Any) -> tuple[Any, ...]:
    """Return all that a reading finds, or the error that it raises."""
    try:
        loaded = read_files(paths, read_options(duplicates="sum", **options))
    except SdgarError as error:
        return error.code, str(error)
    data = loaded.interactions
    return data.fingerprint(), astuple(data.account), loaded.notes, loaded.facts


def require_alike(paths: list[Path], **options: Any) -> tuple[Any, ...]:
    """Raise if many rows are read otherwise than few; return what is found."""
    few = found(paths, **options)
    with as_of_many_rows():
        assert found(paths, **options) == few
    return few


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    "users",
    [NEAR, FAR, UNSIGNED, SHORT, LONG, MIXED],
    ids=["near", "far", "unsigned", "short", "long", "mixed"],
)
def test_ids_of_any_kind_are_read_alike(form, users, tmp_path):
    frame = pl.DataFrame({"user": users, "item": ITEMS, "time": TIMES, "weight": DECIMALS})
    path = tmp_path / f"x.{form}"
    getattr(frame, f"write_{form}")(path, **({"row_group_size": 700} if form == "parquet" else {}))
    assert len(require_alike([path], weight="weight")) == 4


@pytest.mark.parametrize("role", ["time", "weight", "rating"])
def test_numbers_of_any_part_are_read_alike(role, tmp_path):
    values = {"time": TIMES, "weight": WEIGHTS, "rating": WEIGHTS}[role]
    path = tmp_path / "x.csv"
    pl.DataFrame({"user": NEAR, "other": SHORT, "item": ITEMS, role: values}).write_csv(path)
    options = {"time": {}, "weight": {"weight": "weight"}, "rating": {"min_rating": 3}}[role]
    assert len(require_alike([path], **options)) == 4


def test_a_kind_that_spells_a_number_is_text(tmp_path):
    path = tmp_path / "x.csv"
    pl.DataFrame({"user": NEAR, "item": ITEMS, "kind": WEIGHTS}).write_csv(path)
    assert len(require_alike([path], kind="kind", kinds=("1", "3"))) == 4


@pytest.mark.parametrize(
    "odd", ["7,,3", ",7,3", "7,8,", "007,8,3", "7,8", '"7",8,3', "7,8,x", "7,\0,3", f"7,{9:0300},3"]
)
def test_an_odd_line_is_reported_in_the_same_words(odd, tmp_path):
    text = io.StringIO()
    pl.DataFrame({"user": NEAR, "item": ITEMS, "time": TIMES}).write_csv(text)
    lines = text.getvalue().splitlines()
    path = tmp_path / "x.csv"
    path.write_text("\n".join([*lines[:900], odd, *lines[900:]]) + "\n")
    require_alike([path])
    require_alike([path], allow_bad_rows=True)


@pytest.mark.parametrize("mark", ["-", "7", ";", "tab", "::"])
def test_any_delimiter_is_read_alike(mark, tmp_path):
    path = tmp_path / "x.csv"
    frame = pl.DataFrame({"user": NEAR, "item": ITEMS, "time": TIMES}).cast(pl.String)
    text = "\n".join(map(("\t" if mark == "tab" else mark).join, [frame.columns, *frame.rows()]))
    path.write_text(text)
    require_alike([path], delimiter=mark, allow_bad_rows=True)


def test_one_odd_line_changes_no_integer(tmp_path):
    frame = pl.DataFrame({"user": NEAR, "item": ITEMS, "time": TIMES})
    lines = frame.write_csv().splitlines()
    path = tmp_path / "x.csv"
    path.write_text("\n".join([*lines, '"8",,"9"', *lines[1:]]))
    require_alike([path], allow_bad_rows=True)


def test_many_rows_in_small_files_are_many_rows(monkeypatch, tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        pl.DataFrame({"user": NEAR, "item": ITEMS}).write_csv(path)
    files = find_files(paths, None)
    monkeypatch.setattr(kernels, "MANY_ROWS", sum(file.status.st_size for file in files) // 16)
    kinds = []
    for together in (files[:1], files):
        source = open_files(together, ReadOptions())[0]
        (chunk,) = source.chunks({"user": "user", "item": "item"}, ProblemLog())
        kinds.append(chunk.frame.dtypes)
    assert kinds == [[pl.String] * 2, [pl.Int64] * 2]


def test_a_column_that_is_text_in_one_of_two_files_is_text(tmp_path):
    for name, users in (("a.csv", NEAR), ("b.csv", SHORT)):
        pl.DataFrame({"user": users, "item": ITEMS}).write_csv(tmp_path / name)
    data = require_alike([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert len(data) == 4


def test_shards_of_many_rows_are_those_of_few(tmp_path):
    path = tmp_path / "x.csv"
    pl.DataFrame({"user": NEAR, "item": MIXED, "time": TIMES}).write_csv(path)
    few = shard_files([path], tmp_path / "few", n_shards=2)
    with as_of_many_rows():
        many = shard_files([path], tmp_path / "many", n_shards=2)
    names = sorted(p.name for p in (tmp_path / "few").rglob("*") if p.is_file())
    assert names == sorted(p.name for p in (tmp_path / "many").rglob("*") if p.is_file())
    assert few.interactions().fingerprint() == many.interactions().fingerprint()


def test_arrays_of_many_rows_are_those_of_few():
    few = Interactions.from_arrays(FAR, ITEMS, time=TIMES, duplicates="last").fingerprint()
    with as_of_many_rows():
        many = Interactions.from_arrays(FAR, ITEMS, time=TIMES, duplicates="last")
    assert many.fingerprint() == few


def test_many_rows_are_read_without_torch(tmp_path):
    """It takes longer to import than ten million rows take to be read."""
    pl.DataFrame({"user": SHORT, "item": ITEMS, "time": TIMES}).write_csv(tmp_path / "x.csv")
    code = """
import sys
from sdgar.data.readers import read_files
from sdgar import kernels
kernels.MANY_ROWS = 0
read_files([sys.argv[1]])
assert {"sdgar.kernels.numba." + one for one in ("fields", "pairs")} <= set(sys.modules)
assert not {"torch", "pandas", "pyarrow"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.csv")], check=True)
