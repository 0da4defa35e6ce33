from __future__ import annotations

import errno

import pandas as pd
import polars as pl
import pytest

from sdgar.data.tables import to_table, write_table, write_tables
from sdgar.errors import ResourceError, UsageError

FRAME = pl.DataFrame({"user": ["a", "b"], "rank": [1, 2]})
READERS = {
    "csv": pl.read_csv,
    "tsv": lambda p: pl.read_csv(p, separator="\t"),
    "jsonl": pl.read_ndjson,
    "ndjson": pl.read_ndjson,
    "parquet": pl.read_parquet,
}


@pytest.mark.parametrize("ending", sorted(READERS))
def test_a_table_is_written_in_the_format_of_its_name(ending, tmp_path):
    path = tmp_path / "new" / f"lists.{ending}"
    write_table(FRAME, path)
    assert READERS[ending](path).equals(FRAME)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_of_several_tables_none_is_written_if_the_disk_is_full(tmp_path):
    def cut_off():
        yield FRAME
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "train.csv").write_text("as it was")
    with pytest.raises(ResourceError, match="disk is full"):
        write_tables({tmp_path / "train.csv": [FRAME], tmp_path / "test.csv": cut_off()})
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]
    assert (tmp_path / "train.csv").read_text() == "as it was"


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"\.csv, \.tsv, \.jsonl or \.parquet"):
        write_table(FRAME, tmp_path / "lists.xlsx")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="Check the path"):
        write_table(FRAME, tmp_path / "file" / "lists.csv")


def test_tables_come_in_the_kind_that_was_given():
    assert isinstance(to_table({"a": [1]}), pl.DataFrame)
    assert isinstance(to_table({"a": [1]}, like=pd.Series([1])), pd.DataFrame)
    assert isinstance(to_table({"a": [1]}, like=["x"]), pl.DataFrame)
