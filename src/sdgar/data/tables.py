"""Tables out: Polars by default, pandas for those who came with pandas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from sdgar.data.interactions import Interactions
from sdgar.data.whole_files import disk_error, replacing
from sdgar.errors import ResourceError, UsageError


def to_table(columns: dict[str, Any], *, like: object = None) -> Any:
    """A Polars frame of the columns; a pandas frame if ``like`` is a pandas object."""
    if type(like).__module__.partition(".")[0] == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    return pl.DataFrame(columns)


def events(interactions: Interactions) -> pl.DataFrame:
    """Columns user, item and, where known, weight and timestamp, sorted by user and item.

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
"""How the name of a table can end."""


def require_format(path: Path) -> None:
    """Refuse a name that tells no format, before any work is spent on it."""
    if path.suffix not in FORMATS:
        raise UsageError(
            f"cannot tell a format from {path.name!r}. Name it .csv, .tsv, .jsonl or .parquet.",
            code="unknown_format",
        )


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write CSV, TSV, JSONL or Parquet by the name of the file, complete or not at all."""
    writers: dict[str, Callable[[Path], object]] = {
        ".csv": frame.write_csv,
        ".tsv": lambda file: frame.write_csv(file, separator="\t"),
        ".jsonl": frame.write_ndjson,
        ".ndjson": frame.write_ndjson,
        ".parquet": frame.write_parquet,
    }
    require_format(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(path.parent, error) from error
    with replacing(path) as temporary:
        try:
            writers[path.suffix](temporary)
        except pl.exceptions.ComputeError as error:  # what Polars makes of a full disk
            raise ResourceError(
                f"{path} cannot be written ({error}). Free some space or choose another folder.",
                code="disk_full",
            ) from error
