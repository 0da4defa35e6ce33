"""Recommended or similar items, as a table for people and as a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from sdgar.data.ids import Ids
    from sdgar.recommend.lists import RankedLists


def show(
    screen: Screen,
    lists: RankedLists,
    keys: Sequence[str],
    titles: Mapping[str, str] | None = None,
) -> None:
    """Print a table for people; the first columns are the users, or the items of the query."""
    if screen.as_json:
        return
    answers, what = lists.dicts(titles), lists.what
    rows = []
    for one in answers:
        empty = {what: "unknown" if one["basis"] == "unknown" else "nothing left"}
        for rank, entry in enumerate(one[f"{what}s"] or [empty], 1):
            is_empty = "score" not in entry
            rows.append(
                {
                    **{key: str(one[key]) for key in keys},
                    "rank": "-" if is_empty else str(rank),
                    what: str(entry[what]),
                    "name": entry.get("name"),
                    "score": entry.get("score"),
                    "known": "by features" if entry.get("cold") else None,
                    "because of": _reason(entry, titles) if lists.why_TK is not None else None,
                    "basis": one["basis"],
                    "rules": "; ".join(entry.get("rules", ())) or None,
                }
            )
    columns = [
        column
        for column in (rows[0] if rows else ())
        if any(row[column] is not None for row in rows)
        and (column != "basis" or any(one["basis"] != "model" for one in answers))
    ]
    screen.table(
        columns or [*keys, "rank", what, "score"],
        [[row[column] for column in columns] for row in rows],
    )


def with_names(frame: pl.DataFrame, titles: Mapping[str, str] | None) -> pl.DataFrame:
    """Return the frame with a column of names behind the items, if there are names."""
    if titles is None:
        return frame
    import polars as pl

    if "name" in frame.columns:
        raise UsageError(
            "a context of this model has a field called 'name', so that names of items cannot "
            "stand next to it. Leave out --names.",
            code="bad_option",
        )
    found = [_title(titles, item) or None for item in frame["item"].to_list()]
    place = frame.columns.index("item") + 1
    return frame.insert_column(place, pl.Series("name", found, dtype=pl.String))


def _reason(entry: Mapping[str, Any], titles: Mapping[str, str] | None) -> str:
    """Return the item that contributes most to the score of an entry, or a dash."""
    item = entry.get("because")
    return "-" if item is None else _title(titles or {}, item)


def _title(titles: Mapping[str, str], item: Any) -> str:
    """Return what an item is called; one without a name goes by its id."""
    return "" if item is None else titles.get(str(item), str(item))


def write_answers(
    screen: Screen,
    pieces: Iterator[RankedLists],
    out: Path,
    titles: Mapping[str, str] | None,
    n_users: int,
    *,
    as_trec: bool = False,
) -> list[dict[str, Any]]:
    """Write one piece after the other, as a table or a run of TREC; return lists for JSON.

    Nothing is returned if JSON is not to show them.
    """
    from sdgar.data import trec
    from sdgar.data.tables import write_pieces

    entries: list[dict[str, Any]] = []
    rows = 0
    with screen.counting("users", n_users) as advance:

        def frames() -> Iterator[pl.DataFrame]:
            nonlocal rows
            for lists in watched():
                frame = lists.frame()
                rows += frame.height
                yield with_names(frame, titles)

        def watched() -> Iterator[RankedLists]:
            for lists in pieces:
                entries.extend(lists.dicts(titles) if screen.as_json else ())
                yield lists
                advance(len(lists))

        if as_trec:
            lines = (
                one
                for lists in watched()
                for one in rankings(lists.queried, lists.items_TK, lists.ids)
            )
            rows = trec.write_run(lines, out)
        else:
            write_pieces(frames(), out)
    screen.say("saved", f"{rows:,} rows to {out}")
    return entries


def rankings(
    queried: Mapping[str, Any], items_TK: NDArray[np.integer[Any]], ids: Ids
) -> Iterator[tuple[object, list[object]]]:
    """Yield the user and the items of each list, as files of TREC have them."""
    if list(queried) != ["user"]:
        raise UsageError(
            f"a context of this model is {', '.join(queried)}, and files of TREC have one id for "
            "each list. Use --out FILE to recommend, or --per-user to evaluate.",
            code="bad_context",
        )
    for user, items_K in zip(queried["user"].tolist(), items_TK, strict=True):
        yield user, ids.at(items_K[items_K >= 0]).tolist()
