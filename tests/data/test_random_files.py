"""Random files: nothing is lost, nothing is added, and the fast path equals the slow one."""

from __future__ import annotations

import csv
import io
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers import LoadedRows, delimited, read_files
from sdgar.data.readers.chunks import Table
from sdgar.data.readers.files import find_files
from sdgar.data.readers.problems import ProblemLog
from sdgar.data.readers.text_scan import MAX_LINE, blocks
from sdgar.errors import SdgarError

from .conftest import as_of_many_rows

ALLOW = ReadOptions(user="user", item="item", weight="plays", allow_bad_rows=True, duplicates="sum")

fields = st.one_of(
    st.sampled_from(["", "7", "007", "NaN", "a,b", 'q"q', '"', "two\nlines", "\r", "é", "\ufeff"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
    st.integers(0, 99).map(str),
)
weights = st.sampled_from(["1", "2.5", "0", "-1", "x", "", "nan"])
rows = st.one_of(
    st.tuples(fields, fields, weights).map(list),
    st.lists(fields, min_size=2, max_size=5),
)


def read(content: bytes, name: str = "x.csv") -> LoadedRows:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return read_files([path], ALLOW)


def oracle(content: str) -> tuple[dict[tuple[str, str], float], Counter[str]]:
    """What the csv module finds: the weight of each good pair, and the fate of all rows."""
    kept: dict[tuple[str, str], float] = {}
    fate: Counter[str] = Counter()
    for row in list(csv.reader(io.StringIO(content, newline="")))[1:]:
        if not row:
            continue
        fate["read"] += 1
        if len(row) != 3:
            fate["field_count"] += 1
            continue
        user, item, plays = row
        if not user or not item:
            fate["missing_item" if user else "missing_user"] += 1
        elif plays in ("x", "", "nan", "-1") or not plays.replace(".", "").isdigit():
            fate["bad"] += 1
        elif float(plays) == 0:
            fate["zero_weight"] += 1
        else:
            pair = user, item
            fate["duplicates" if pair in kept else "kept"] += 1
            kept[pair] = kept.get(pair, 0) + float(plays)
    return kept, fate


@settings(max_examples=4 * settings.default.max_examples)
@given(
    st.lists(rows, max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_the_csv_module_finds_the_same_rows(table: list[list[str]], end: str, quoting: int) -> None:
    weighted = [
        r if len(r) != 3 else [*r[:2], r[2] if r[2] in "1 2.5 0 -1 x nan" else "1"] for r in table
    ]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerows([["user", "item", "plays"], *weighted])
    expected, fate = oracle(text.getvalue())
    try:
        found = read(text.getvalue().encode()).interactions
    except SdgarError as error:
        assert error.code == "no_rows"  # noqa: PT017
        assert not expected
        return
    users = found.users.values[found.users_E].tolist()
    items = found.items.values[found.items_E].tolist()
    weight = found.weight_E
    assert weight is not None
    pairs = zip(map(str, users), map(str, items), strict=True)
    assert dict(zip(pairs, weight.tolist(), strict=True)) == expected
    account = found.account
    rejected = Counter(account.rejected)
    assert (account.read, account.kept, account.duplicates) == (
        fate["read"],
        fate["kept"],
        fate["duplicates"],
    )
    assert account.filtered.get("zero_weight", 0) == fate["zero_weight"]
    for reason in ("field_count", "missing_user", "missing_item"):
        assert rejected.pop(reason, 0) == fate[reason]
    assert sum(rejected.values()) == fate["bad"]


snippets = [b"1", b"a", b",", b"\n", b"\r\n", b"\r", b'"', b'""', b"\xff", b"\0", b"\xc3", b" "]
snippets += [b"-7", b"-0", b"-", b"007", b"999999999999999999", b"9223372036854775808"]
snippets += [b"1,2,3\n", b'"1","2","3"\n', b'4,"x\ny",5\n', b"\xef\xbb\xbf", b"\n\n", b",,"]
noise = st.lists(st.sampled_from(snippets), max_size=40).map(b"".join)


def raw_rows(content: bytes, block_size: int) -> tuple[list[tuple[object, ...]], dict[str, int]]:
    """Rows with their lines, read in blocks of a size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_bytes(b"user,item,plays\n" + content)
        log = ProblemLog()
        (file,) = find_files([path], None)
        source = delimited.DelimitedFile(file, ALLOW, n_bytes=1 << 20)
        used = {"user": "user", "item": "item", "weight": "plays"}
        chunks = list(source.chunks(used, log, block_size))  # type: ignore[arg-type]
        lines = np.concatenate([np.asarray(chunk.rows) for chunk in chunks]).tolist()
        values = Table(chunks, untyped=True).frame.cast(pl.String).fill_null("").rows()
    return [(n, *row) for n, row in zip(lines, values, strict=True)], log.counts


lines = st.lists(st.tuples(*[st.sampled_from(snippets[:14])] * 3).map(b",".join), min_size=1)


@settings(max_examples=4 * settings.default.max_examples)
@given(noise | lines.map(lambda rows: b"\n".join(rows) + b"\n"), st.integers(1, 30))
def test_fast_and_slow_and_any_block_size_agree_on_noise(content: bytes, block_size: int) -> None:
    whole = raw_rows(content, 1 << 20)
    assert raw_rows(content, block_size) == whole
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited.RegularBlocks, "frame", lambda *_: None)
        assert raw_rows(content, 1 << 20) == whole
    with as_of_many_rows():
        assert raw_rows(content, 1 << 20) == whole
        assert raw_rows(content, block_size) == whole


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
@pytest.mark.parametrize("cut", [-1, 0, 1, 2], ids="cut at {}".format)
def test_a_line_after_an_overlong_one_is_not_lost(end: bytes, cut: int) -> None:
    content = b"a" * (MAX_LINE + 9) + end + b"1,2" + end
    at = MAX_LINE + 9 + cut
    made = list(blocks([content[: at - 4], content[at - 4 : at], content[at:]], size=1))
    lines = b"".join(block for block, _ in made).splitlines()
    assert [len(line) > MAX_LINE for line in lines] == [True, False]
    assert lines[1] == b"1,2"


@settings(max_examples=2 * settings.default.max_examples)
@given(noise, st.sampled_from(["x.csv", "x.jsonl", "x.parquet", "x.tsv"]), st.booleans())
def test_noise_raises_nothing_but_our_errors(content: bytes, name: str, headed: bool) -> None:
    try:
        rows = read(
            b"user,item,plays\n" + content if headed else content, name
        ).interactions.account
    except SdgarError as error:
        assert str(error)  # noqa: PT017
    else:
        assert rows.read >= rows.kept > 0
