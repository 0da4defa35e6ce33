"""Files of interactions and of features: whatever is in them is read right or refused.

Right means: every row is accounted for, ids are found again, and what was written undamaged comes
out as it went in.
"""

from __future__ import annotations

import gzip
import json
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sdgar.data.features import Features
from sdgar.data.interactions import Interactions
from sdgar.data.readers import ReadOptions, read_files
from sdgar.data.readers.tables import read_features
from sdgar.data.tables import events, write_table

from .mutations import mutated, mutated_json
from .target import Files, Target

Columns = dict[str, list[Any]]
_OPTIONS = "options.json"
_TEXTS = ["ann", "bob", "é", "e\u0301", "7", "007", "a,b", 'q"q', "two\nlines", " x ", "NaN", "-0"]


def _columns(random: Random) -> Columns:
    """Some rows of events; ids are integers or text."""
    n = random.choice((1, 3, 8, 8, 30, 200))
    users: list[Any] = [random.choice((0, 7, -3, 2**31, 2**53 + 1, 2**63 - 1)) for _ in range(n)]
    items: list[Any] = [random.randrange(9) for _ in range(n)]
    if random.random() < 0.4:
        users = [random.choice(_TEXTS) for _ in range(n)]
    if random.random() < 0.2:
        items = [f"item {item}" for item in items]
    found: Columns = {"user": users, "item": items}
    if random.random() < 0.5:
        found["weight"] = [random.choice((1.0, 2.0, 2.5, 1e-3)) for _ in range(n)]
    if random.random() < 0.5:
        found["timestamp"] = [1_700_000_000 + random.randrange(10**6) for _ in range(n)]
    if random.random() < 0.3:
        found["city"] = [random.choice(("Oslo", "Rome", "São Paulo")) for _ in range(n)]
    if random.random() < 0.2:
        found["rating"] = [random.choice((1.0, 3.5, 5.0)) for _ in range(n)]
    return found


def _options(columns: Columns, random: Random) -> dict[str, Any]:
    """Ways to read these columns, for the most part such that nothing is refused from the start."""
    options: dict[str, Any] = {
        "allow_bad_rows": random.random() < 0.7,
        "duplicates": random.choice(("sum", "sum", "max", "last", "error")),
        "min_rating": random.choice((None, None, 3)) if "rating" in columns else None,
        "max_uncompressed": 64 << 20,
    }
    fields = [f for f, of in (("city", "city"), ("hour", "timestamp")) if of in columns]
    if fields and random.random() < 0.4:
        options["context"] = ["user", random.choice(fields)]
    return options


def _case(name: str, data: bytes, options: dict[str, Any], rows: int | None) -> Files:
    """A file of a case with how it is read, and how many rows it has, if it is undamaged."""
    return {name: data, _OPTIONS: json.dumps({"options": options, "rows": rows}).encode()}


def _packed(name: str, data: bytes, random: Random) -> tuple[str, bytes]:
    match random.randrange(5):
        case 0:
            return f"{name}.gz", gzip.compress(data, mtime=0)
        case 1:
            return f"{name}.zst", bytes(pa.Codec("zstd").compress(data, asbytes=True))
    return name, data


def _damaged(name: str, data: bytes, random: Random) -> tuple[str, bytes, bool]:
    """The file, damaged before it is packed, after, both, or not at all."""
    before, after = random.choice(
        ((True, False), (True, False), (True, True), (False, True), (False, False))
    )
    data = mutated(data, random) if before else data
    name, data = _packed(name, data, random)
    return name, mutated(data, random) if after else data, not (before or after)


def _delimited(random: Random) -> Files:
    columns = _columns(random)
    ending, mark = random.choice(
        ((".csv", ","), (".tsv", "\t"), (".dat", "::"), (".data", "|"), (".inter", "\t"))
    )
    names = list(columns)
    if ending == ".inter":
        kinds = {"user": "token", "item": "token", "city": "token"}
        names = [f"{n}:{kinds.get(n, 'float')}" for n in names]
    quote = random.random() < 0.3 or ending == ".csv"
    lines = [names, *([str(v) for v in row] for row in zip(*columns.values(), strict=True))]
    end = random.choice(("\n", "\n", "\r\n", "\r"))
    plain = end.join(mark.join(_field(text, mark, quote) for text in line) for line in lines)
    name, data, whole = _damaged("x" + ending, (plain + end).encode(), random)
    options = _options(columns, random)
    if ending == ".inter" and "context" in options:
        options["context"] = ["user", *(f"{f}:token" for f in options["context"] if f == "city")]
    # Only a CSV is quoted where it must be, so only there the number of rows is known.
    return _case(name, data, options, len(lines) - 1 if whole and quote else None)


def _field(text: str, mark: str, quote: bool) -> str:
    if quote and (mark in text or any(c in text for c in '"\n\r')):
        return '"' + text.replace('"', '""') + '"'
    return text


def _json_lines(random: Random) -> Files:
    columns = _columns(random)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    whole = random.random() < 0.6
    if not whole:
        at = random.randrange(len(rows))
        rows[at] = mutated_json(rows[at], random)
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    ending = random.choice((".jsonl", ".json", ".ndjson"))
    name, data, unchanged = _damaged("x" + ending, text, random)
    return _case(name, data, _options(columns, random), len(rows) if whole and unchanged else None)


def _parquet(random: Random) -> Files:
    columns = _columns(random)
    data = _parquet_bytes(columns, random)
    damaged = random.random() < 0.95
    rows = None if damaged else len(columns["user"])
    data = mutated(data, random) if damaged else data
    return _case("x.parquet", data, _options(columns, random), rows)


def _parquet_bytes(columns: dict[str, Any], random: Random) -> bytes:
    """A Parquet file by one of two writers, with one of many ways to lay out and pack values."""
    sink = BytesIO()
    rows = random.choice((None, 3, 50))
    if random.random() < 0.4:
        pl.DataFrame(columns | _dates(columns, random)).write_parquet(
            sink,
            compression=random.choice(("uncompressed", "snappy", "gzip", "zstd", "lz4")),
            statistics=random.choice((True, False, "full")),
            row_group_size=rows,
            data_page_size=random.choice((None, 64)),
        )
        return sink.getvalue()
    more: dict[str, Any] = {"use_dictionary": random.random() < 0.5}
    if not more["use_dictionary"] and random.random() < 0.7:
        more["column_encoding"] = {name: _encoding(v, random) for name, v in columns.items()}
    pq.write_table(
        pa.table(columns),
        sink,
        compression=random.choice(("none", "snappy", "gzip", "zstd", "lz4", "brotli")),
        data_page_version=random.choice(("1.0", "2.0")),
        row_group_size=rows,
        write_statistics=random.random() < 0.5,
        write_page_index=random.random() < 0.2,
        data_page_size=random.choice((None, 64)),
        store_schema=random.random() < 0.5,
        **more,
    )
    return sink.getvalue()


def _dates(columns: Columns, random: Random) -> dict[str, pl.Series]:
    """Times as dates of some unit, among them the first and the last that there are."""
    if "timestamp" not in columns or random.random() < 0.5:
        return {}
    unit = random.choice((pl.Datetime("ms"), pl.Datetime("us"), pl.Datetime("ns"), pl.Date()))
    most = 2**31 - 1 if unit == pl.Date else 2**63 - 1
    odd = random.choice((0, most, -most, most // 1000))
    counts = [min(n, most // 2) for n in columns["timestamp"]]
    return {"timestamp": pl.Series([*counts[1:], odd], dtype=unit)}


def _encoding(values: list[Any], random: Random) -> str:
    if any(isinstance(value, str) for value in values):
        return random.choice(("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"))
    if any(isinstance(value, float) for value in values):
        return random.choice(("PLAIN", "BYTE_STREAM_SPLIT"))
    return random.choice(("PLAIN", "DELTA_BINARY_PACKED"))


def _try_reading(folder: Path) -> None:
    said = json.loads((folder / _OPTIONS).read_bytes())
    options = dict(said["options"])
    if "context" in options:
        options["context"] = tuple(options["context"])
    path = next(one for one in folder.iterdir() if one.name.startswith("x."))
    found = read_files([path], ReadOptions(**options)).interactions
    require_sound(found)
    if said["rows"] is not None:
        rows = said["rows"]
        assert found.account.read == rows, f"{found.account.read} of {rows} rows were read"
    elif path.name.endswith((".jsonl", ".json", ".ndjson")):
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
        rows = sum(bool(line.strip()) for line in lines)
        assert found.account.read == rows, f"{found.account.read} of {rows} lines were read"
    _require_same_again(found, folder)


def require_sound(found: Interactions) -> None:
    """Whatever came out of a reader is whole: nothing is lost, and every id is found again."""
    assert found.account.kept == len(found) > 0
    left_out = sum(found.account.filtered.values()) + sum(found.account.rejected.values())
    assert found.account.read == found.account.kept + found.account.duplicates + left_out
    assert found.indptr_U1[0] == 0
    assert found.indptr_U1[-1] == len(found)
    fewest = np.diff(found.indptr_U1).min()
    rated_low = any(reason.startswith("rating_below") for reason in found.account.filtered)
    assert fewest > 0 or (fewest == 0 and rated_low)
    assert 0 <= found.items_E.min() <= found.items_E.max() < found.n_items
    for ids in (found.users, found.items):
        values = ids.values.tolist()
        assert len(set(values)) == len(values)
        assert all(type(value) in (int, str) for value in values)
        assert (ids.index_of(ids.values) == np.arange(len(ids))).all()
        assert (ids.index_of([str(value) for value in values]) == np.arange(len(ids))).all()
    if found.weight_E is not None:
        assert np.isfinite(found.weight_E).all()
        assert (found.weight_E > 0).all()
    if found.fields is not None:
        assert found.fields.index_UF.shape == (found.n_users, len(found.context))


def _require_same_again(found: Interactions, folder: Path) -> None:
    """What was read can be written and read again, and is the same."""
    path = folder / "again.parquet"
    write_table(events(found), path)
    options = ReadOptions(
        context=found.context, weight=None if found.weight_E is not None else "none",
        time=None if found.time_E is not None else "none", user="user", item="item",
    )  # fmt: skip
    again = read_files([path], options).interactions
    path.unlink()
    has_rows_U = np.diff(found.indptr_U1) > 0
    assert again.users.values.tolist() == found.users.values[has_rows_U].tolist()
    assert again.items.values.tolist() == found.items.values.tolist()
    assert (again.items_E == found.items_E).all()
    assert (np.diff(again.indptr_U1) == np.diff(found.indptr_U1)[has_rows_U]).all()
    for mine, theirs in ((found.weight_E, again.weight_E), (found.time_E, again.time_E)):
        assert (mine is None) == (theirs is None)
        assert mine is None or theirs is None or (mine == theirs).all()


def _features(random: Random) -> Files:
    n = random.choice((1, 4, 20))
    ids: list[Any] = [*range(n)]
    if random.random() < 0.5:
        ids = [f"item {i}" for i in ids]
    cells = [random.choice(("drama", "drama|comedy", "", "7", None)) for _ in range(n)]
    lists = [random.choice(([], ["a"], ["a", "b"])) for _ in range(n)]
    match random.randrange(3):
        case 0:
            columns = zip(ids, cells, lists, strict=True)
            rows = [{"item": i, "genre": c, "tags": t} for i, c, t in columns]
            if random.random() < 0.5:
                rows[0] = mutated_json(rows[0], random)
            name, data = "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode()
        case 1:
            lines = [f"{i},{c or ''},{i}" for i, c in zip(ids, cells, strict=True)]
            name, data = "x.csv", "\n".join(["item,genre,year", *lines]).encode()
        case _:
            table = pl.DataFrame({"item": ids, "genre": cells, "tags": lists})
            sink = BytesIO()
            table.write_parquet(sink, compression=random.choice(("uncompressed", "zstd")))
            data = mutated(sink.getvalue(), random)
            return _case("x.parquet", data, {}, None)
    name, data, _ = _damaged(name, data, random)
    return _case(name, data, {}, None)


def _try_features(folder: Path) -> None:
    path = next(one for one in folder.iterdir() if one.name.startswith("x."))
    found: Features = read_features(path, max_uncompressed=64 << 20)
    n = len(found.ids)
    assert (found.ids.index_of(found.ids.values) == np.arange(n)).all()
    assert (np.diff(found.start_R1) >= 0).all()
    assert found.start_R1[-1] == len(found.feature_E)
    assert len(set(found.names)) == found.n_features
    start_R1, feature_E = found.of(found.ids.values)
    assert (start_R1 == found.start_R1).all()
    assert (feature_E == found.feature_E).all()
    assert len(found.digest()) == 32


TARGETS = {
    "delimited": Target(_delimited, _try_reading),
    "json lines": Target(_json_lines, _try_reading),
    "parquet": Target(_parquet, _try_reading),
    "features": Target(_features, _try_features),
}
