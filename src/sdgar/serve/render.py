"""Rendering: from ranked items and entries of the store to JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sdgar.recommend.by_index import RankedItems
from sdgar.serve.snapshot import Snapshot

if TYPE_CHECKING:
    from sdgar.data.ids import Ids
    from sdgar.serve.store import Entry


def entries_as_json(
    snapshot: Snapshot, found: RankedItems, ids: Sequence[Any], entries: dict[str, Entry] | None
) -> list[dict[str, Any]]:
    """Return the entries of a ranked list; with ``entries`` also names, pictures, categories."""
    cold_I = snapshot.model.cold_I
    rows: list[dict[str, Any]] = []
    for place, (item, score) in enumerate(zip(ids, found.scores, strict=True)):
        row: dict[str, Any] = {"item": item, "score": score, "rank": place + 1}
        if cold_I is not None and cold_I[found.items[place]]:
            row["cold"] = True
        if entries is not None:
            row |= details_of(entries.get(str(item)))
        if found.because is not None:
            row["because"] = [
                reason if entries is None else reason | details_of(entries.get(str(reason["item"])))
                for reason in found.because[place]
            ]
        if found.notes is not None and found.notes[place]:
            row["rules"] = list(found.notes[place])
        rows.append(row)
    return rows


def details_of(entry: Entry | None) -> dict[str, Any]:
    """Return the name, picture and categories of an entry of the store."""
    if entry is None:
        return {"name": None, "picture": None, "categories": []}
    return {"name": entry.name, "picture": entry.picture, "categories": list(entry.categories)}


def model_ids(ids: Ids, raw: Sequence[str]) -> list[Any]:
    """Return the model's spelling of ids; unknown ids stay as they are."""
    index_T = ids.index_of(raw)
    known = ids.at(index_T.clip(min=0)).tolist() if len(ids) else list(raw)
    return [own if at >= 0 else one for own, one, at in zip(known, raw, index_T, strict=True)]


def unknown_ids(ids: Ids, raw: Sequence[Any]) -> list[Any]:
    """Return the ids that the model does not know."""
    if not raw:
        return []
    return [one for one, at in zip(raw, ids.index_of(raw), strict=True) if at < 0]
