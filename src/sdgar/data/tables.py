"""Tables out: Polars by default, pandas for those who came with pandas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from sdgar.errors import ResourceError, UsageError


def to_table(columns: dict[str, Any], *, like: object = None) -> Any:
    """A Polars frame of the columns; a pandas frame if ``like`` is a pandas object."""
    if type(like).__module__.partition(".")[0] == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    return pl.DataFrame(columns)


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write CSV, TSV, JSONL or Parquet by the name of the file, complete or not at all."""
    writers: dict[str, Callable[[Path], object]] = {
        ".csv": frame.write_csv,
        ".tsv": lambda file: frame.write_csv(file, separator="\t"),
        ".jsonl": frame.write_ndjson,
        ".ndjson": frame.write_ndjson,
        ".parquet": frame.write_parquet,
    }
    if path.suffix not in writers:
        raise UsageError(
            f"cannot tell a format from {path.name!r}. Name it .csv, .tsv, .jsonl or .parquet.",
            code="unknown_format",
        )
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writers[path.suffix](temporary)
        temporary.replace(path)
    except OSError as error:
        raise ResourceError(f"could not write {path}: {error}.", code="save_failed") from error
    finally:
        temporary.unlink(missing_ok=True)
