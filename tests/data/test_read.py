from __future__ import annotations

import polars as pl
import pytest

import sdgar
from sdgar.errors import UsageError

FRAME = pl.DataFrame({"user_id": ["a", "b"], "item_id": ["x", "y"]})


def test_a_path_several_paths_and_a_frame_read_the_same(tmp_path):
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    FRAME[:1].write_csv(first)
    FRAME[1:].write_csv(second)
    FRAME.write_parquet(tmp_path / "both.parquet")
    prints = {
        sdgar.read(source).fingerprint()
        for source in ([first, second], str(tmp_path / "both.parquet"), FRAME, FRAME.lazy())
    }
    assert len(prints) == 1


def test_options_go_through_and_misspelt_ones_are_named():
    frame = FRAME.with_columns(n=pl.Series([1.0, 2.0]))
    assert sdgar.read(frame, weight="n").weight_E.tolist() == [1.0, 2.0]
    with pytest.raises(UsageError, match="Did you mean 'weight'"):
        sdgar.read(frame, wieght="n")


def test_what_a_person_should_know_is_a_warning(tmp_path):
    path = tmp_path / "bom.csv"
    path.write_bytes(b"\xef\xbb\xbfuser,item\na,x\n")
    with pytest.warns(UserWarning, match="BOM|byte order mark"):
        sdgar.read(path)
