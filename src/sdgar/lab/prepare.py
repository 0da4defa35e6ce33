"""Prepare a data set from its published raw file, as the paper does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sdgar.data.building import RowAccount
from sdgar.data.ids import Ids
from sdgar.data.interactions import Interactions
from sdgar.data.tables import events, write_table
from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.lab.datasets import Dataset, find
from sdgar.lab.raw_files import FORMATS, numbered_lines, read_blocks
from sdgar.storage import folders, sealed
from sdgar.storage.files import digest, disk_error, replacing

_TABLE, _DESCRIPTION = "interactions.parquet", "dataset.json"
_SHOWN_BAD_LINES = 20
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Prepared:
    """A data set as the paper prepares it."""

    dataset: Dataset
    """The entry of the catalogue."""
    interactions: Interactions
    """The rows that are left."""
    source: Path
    """The raw file."""
    sha256: str
    """The SHA-256 of the raw file."""
    notes: tuple[str, ...]
    """Sentences for people: how the data compares with the paper, and what was left out."""


def prepare(name: str, raw: Path, *, allow_bad_rows: bool = False) -> Prepared:
    """Read a raw file, plain or packed as published, and filter it as the paper does.

    A malformed line is an error; with ``allow_bad_rows`` it is left out and counts as rejected.
    """
    dataset = find(name)
    read = _read(dataset, raw)
    if read.n_bad and not allow_bad_rows:
        raise DataError(
            f"{raw}: {read.n_bad:,} lines are malformed; a line is "
            f"{FORMATS[dataset.format].layout}. {read.bad}. Get the file again, or "
            "leave such lines out with --allow-bad-rows (allow_bad_rows=True in Python).",
            code="bad_rows",
        )
    interactions = at_least(
        _interactions(dataset, raw, read),
        users=dataset.min_user_interactions,
        items=dataset.min_item_interactions,
    )
    sha256 = digest(raw, "sha256")
    notes = [*_against_paper(dataset, interactions), *dataset.notes]
    if dataset.sha256 not in (None, sha256):
        notes.append(f"The raw file is not the one we know: its SHA-256 is {sha256}.")
    if read.n_bad:
        notes.append(f"{read.n_bad:,} malformed lines were left out. {read.bad}.")
    return Prepared(dataset, interactions, raw, sha256, tuple(notes))


def write_prepared(prepared: Prepared, out_dir: Path, *, overwrite: bool = False) -> Path:
    """Write ``interactions.parquet`` and ``dataset.json`` to a new folder; return it.

    ``dataset.json`` is written last, so that the interactions are whole if it exists.
    """
    out_dir = require_free(out_dir, overwrite=overwrite)
    description, table = out_dir / _DESCRIPTION, out_dir / _TABLE
    new = out_dir / f".{os.getpid()}.{_TABLE}"
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        write_table(events(prepared.interactions), new)
        description.unlink(missing_ok=True)
        new.replace(table)
    except OSError as error:
        raise disk_error(out_dir, error) from error
    finally:
        new.unlink(missing_ok=True)
    with replacing(description) as temporary:
        text = json.dumps(_description(prepared), indent=2, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")
    return out_dir


def require_free(out_dir: Path, *, overwrite: bool) -> Path:
    """Return the folder with links followed; raise if no data set can be written to it.

    Only the two files of a data set that was prepared before are ever replaced.
    """
    place = folders.place_of(out_dir)
    if not place.exists():
        return place
    if not place.is_dir():
        raise UsageError(f"{place} exists and is not a folder. Choose another.", code="not_empty")
    if any(place.iterdir()) and not overwrite:
        raise UsageError(
            f"{place} is not empty. Choose a new folder, or replace what is there with "
            "--overwrite (overwrite=True in Python).",
            code="not_empty",
        )
    taken = [name for name in (_DESCRIPTION, _TABLE) if (place / name).exists()]
    if taken and not _is_prepared(place / _DESCRIPTION):
        raise folders.in_the_way(place, taken, "is not of a data set that sdgar prepared")
    return place


def _is_prepared(description: Path) -> bool:
    try:
        found = sealed.read_table(description)
    except ArtifactError:
        return False
    return {"name", "preparation", "fingerprint"} <= set(found)


@dataclass(frozen=True, slots=True)
class _Read:
    """The contents of a raw file."""

    rows: pl.DataFrame
    """The good rows with a high enough score."""
    n_low: int
    """The number of good rows with too low a score."""
    n_bad: int
    """The number of malformed lines."""
    bad: str
    """The first malformed lines, quoted, and how many more there are."""


def _read(dataset: Dataset, raw: Path) -> _Read:
    bad: list[tuple[Any, ...]] = []
    kept, n_good, n_bad = [], 0, 0
    for lines in numbered_lines(read_blocks(raw, dataset.member)):
        parsed = FORMATS[dataset.format].parse(lines)
        n_good += parsed.good.height
        n_bad += parsed.bad.height
        # Low scores go at once, and few bad lines stay: a block is small, the file is not.
        rows = parsed.good
        if dataset.min_score is not None:
            rows = rows.filter(pl.col("score") > dataset.min_score).drop("score")
        kept.append(rows)
        bad += parsed.bad.head(_SHOWN_BAD_LINES - len(bad)).rows()
    if not kept:
        raise DataError(f"{raw} is empty. Get the file again.", code="empty_input")
    positive = pl.concat(kept)
    quoted = "; ".join(f"line {number}: {line[:_SHOWN_CHARACTERS]!a}" for number, line in bad)
    quoted += f"; and {n_bad - len(bad):,} more" if n_bad > len(bad) else ""
    return _Read(rows=positive, n_low=n_good - positive.height, n_bad=n_bad, bad=quoted)


def _interactions(dataset: Dataset, raw: Path, read: _Read) -> Interactions:
    rows = read.rows
    account = RowAccount(
        read=rows.height + read.n_low + read.n_bad,
        kept=rows.height,
        filtered={f"score_at_most_{dataset.min_score:g}": read.n_low} if read.n_low else {},
        rejected={"malformed": read.n_bad} if read.n_bad else {},
    )
    if rows.height == 0:
        raise DataError(f"{raw}: no row is left. {account.sentence()}.", code="no_rows")
    users, users_E = _index(rows["user"])
    items, items_E = _index(rows["item"])
    return Interactions.from_indices(
        users,
        items,
        users_E,
        items_E,
        weight_E=rows["weight"].to_numpy() if "weight" in rows.columns else None,
        time_E=rows["timestamp"].to_numpy() if "timestamp" in rows.columns else None,
        duplicates="sum",  # the only weights are play counts, and counts add up
        account=account,
    )


def _index(ids: pl.Series) -> tuple[Ids, NDArray[np.integer[Any]]]:
    """Return the distinct ids in ascending order, and the index among them of each row's id."""
    distinct = ids.unique().sort()
    if ids.dtype == pl.String:
        index = ids.cast(pl.Enum(distinct)).to_physical().to_numpy()
    else:
        index = np.searchsorted(distinct.to_numpy(), ids.to_numpy())
    return Ids.of(distinct.to_numpy()), index


def _against_paper(dataset: Dataset, interactions: Interactions) -> Iterator[str]:
    for what, ours, papers in (
        ("users", interactions.n_users, dataset.shape.users),
        ("items", interactions.n_items, dataset.shape.items),
        ("interactions", len(interactions), dataset.shape.interactions),
    ):
        if ours == papers:
            yield f"{ours:,} {what}, equal to the paper's Table 1."
        else:
            yield f"{ours:,} {what}, differs by {ours - papers:+,} from the paper's {papers:,}."


def _description(prepared: Prepared) -> dict[str, Any]:
    dataset, interactions = prepared.dataset, prepared.interactions
    return {
        "name": dataset.name,
        "title": dataset.title,
        "source": {
            "file": prepared.source.name,
            "sha256": prepared.sha256,
            "url": dataset.url,
            "citation": dataset.citation,
            "terms": dataset.terms,
        },
        "preparation": {
            "min_score_exclusive": dataset.min_score,
            "min_user_interactions": dataset.min_user_interactions,
            "min_item_interactions": dataset.min_item_interactions,
        },
        "rows": interactions.account.as_dict(),
        "statistics": interactions.stats(),
        "fingerprint": interactions.fingerprint(),
        "notes": list(prepared.notes),
    }


def at_least(interactions: Interactions, *, users: int = 0, items: int = 0) -> Interactions:
    """Keep users with at least ``users`` items, and items with at least ``items`` users.

    With both, each pass can undo the other, so they alternate until nothing changes. What is
    left does not depend on the order; with equal numbers it is the k-core.
    """
    users_E, items_E = interactions.users_E, interactions.items_E
    keep_E = np.ones(len(interactions), np.bool_)
    by_user_E = np.zeros(len(interactions), np.bool_)
    while True:
        few_E = keep_E & (_counts(users_E[keep_E], interactions.n_users)[users_E] < users)
        keep_E, by_user_E = keep_E & ~few_E, by_user_E | few_E
        rare_E = keep_E & (_counts(items_E[keep_E], interactions.n_items)[items_E] < items)
        keep_E = keep_E & ~rare_E
        if not rare_E.any():
            break
    if not keep_E.any():
        raise DataError(
            f"nothing is left of {len(interactions):,} interactions when users need at least "
            f"{users} items and items at least {items} users. Ask for less.",
            code="no_rows",
        )
    left = _without(interactions, by_user_E, f"user_below_{users}")
    return _without(left, ~keep_E[~by_user_E], f"item_below_{items}")


def _counts(index_E: NDArray[np.integer[Any]], size: int) -> NDArray[np.intp]:
    return np.bincount(index_E, minlength=size)


def _without(interactions: Interactions, drop_E: NDArray[np.bool_], reason: str) -> Interactions:
    return interactions.subset(~drop_E, reason) if drop_E.any() else interactions
