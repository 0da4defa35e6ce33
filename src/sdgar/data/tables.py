"""Write and return tables: Polars by default, pandas for callers who use pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from sdgar.data.interactions import Interactions
from sdgar.errors import ResourceError, UsageError
from sdgar.storage.files import make_parent, replacing_all

_TYPES: dict[str, Any] = {
    "int64": pl.Int64,
    "uint64": pl.UInt64,
    "float64": pl.Float64,
    "bool": pl.Boolean,
    "text": pl.String,
    "vector": pl.List(pl.Float32),
}


def to_table(
    columns: dict[str, Any], *, types: Mapping[str, str] | None = None, like: object = None
) -> Any:
    """Return a Polars frame of the columns, or a pandas frame if ``like`` is a pandas object.

    ``types`` has the types that Polars could not infer from empty columns.
    """
    if type(like).__module__.partition(".")[0] == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    schema = {name: _TYPES[kind] for name, kind in (types or {}).items()}
    return pl.DataFrame(columns, schema_overrides=schema)


def events(interactions: Interactions) -> pl.DataFrame:
    """Return the columns user, item and, if known, weight and timestamp, sorted by user and item.

    A context of several fields is a column for each of them.
    """
    users_E, fields = interactions.users_E, interactions.fields
    if fields is None:
        columns = {"user": pl.Series(interactions.users.values.tolist()).gather(users_E)}
    else:
        columns = {
            name: pl.Series(ids.values.tolist()).gather(fields.index_UF[users_E, f])
            for f, (name, ids) in enumerate(zip(fields.names, fields.values, strict=True))
        }
    columns["item"] = pl.Series(interactions.items.values.tolist()).gather(interactions.items_E)
    if interactions.weight_E is not None:
        columns["weight"] = pl.Series(interactions.weight_E)
    if interactions.time_E is not None:
        columns["timestamp"] = pl.Series(interactions.time_E).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame(columns)


FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""The endings that the name of a table can have."""


def require_format(path: Path) -> None:
    """Raise if the format of a table cannot be found from its name."""
    if path.suffix not in FORMATS:
        raise UsageError(
            f"cannot find a format from {path.name!r}. Name it .csv, .tsv, .jsonl or .parquet.",
            code="unknown_format",
        )


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write CSV, TSV, JSONL or Parquet by the name of the file, complete or not at all."""
    write_tables({path: [frame]})


def write_pieces(frames: Iterable[pl.DataFrame], path: Path) -> None:
    """Write frames of the same columns as one table, with one frame in memory at a time."""
    write_tables({path: frames})


def write_tables(tables: Mapping[Path, Iterable[pl.DataFrame]]) -> None:
    """Write several tables, each of frames of the same columns, all complete or none at all."""
    for path in tables:
        require_format(path)
        make_parent(path)
    with replacing_all(list(tables)) as temporaries:
        for (path, frames), temporary in zip(tables.items(), temporaries, strict=True):
            try:
                if path.suffix == ".parquet":
                    _write_parquet(frames, temporary)
                else:
                    _write_text(frames, temporary, path.suffix)
            except pl.exceptions.ComputeError as error:  # what Polars makes of a full disk
                raise ResourceError(
                    f"{path} cannot be written ({error}). Free some space or choose another "
                    "folder.",
                    code="disk_full",
                ) from error


def _write_text(frames: Iterable[pl.DataFrame], target: Path, kind: str) -> None:
    with target.open("wb") as file:
        for number, frame in enumerate(frames):
            if kind in (".csv", ".tsv"):
                separator = "\t" if kind == ".tsv" else ","
                frame.write_csv(file, separator=separator, include_header=number == 0)
            else:
                frame.write_ndjson(file)


def _write_parquet(frames: Iterable[pl.DataFrame], target: Path) -> None:
    """Write each frame to a file and copy them into one: Parquet cannot be appended to."""
    with TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as folder:
        parts = []
        for number, frame in enumerate(frames):
            parts.append(Path(folder) / f"{number:06d}.parquet")
            frame.write_parquet(parts[-1])
        if len(parts) == 1:
            parts[0].replace(target)
        else:
            pl.scan_parquet(parts).sink_parquet(target)
