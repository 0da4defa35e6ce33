"""Recommended or similar items, as a table for people and as a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

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
    others = any(one["basis"] != "model" for one in answers)
    cold = any(entry.get("cold") for one in answers for entry in one[f"{what}s"])
    rows: list[tuple[str, ...]] = []
    for one in answers:
        for rank, entry in enumerate(one[f"{what}s"] or [None], 1):
            rows.append(
                (
                    *(str(one[key]) for key in keys),
                    *_cells(entry, rank, one["basis"], what, titles),
                    *(("by features" if entry and entry["cold"] else "",) if cold else ()),
                    *((_reason(entry, titles),) if lists.why_TK is not None else ()),
                    *((one["basis"],) if others else ()),
                    *(("; ".join((entry or {}).get("rules", ())),) if lists.notes else ()),
                )
            )
    name = () if titles is None else ("name",)
    why = () if lists.why_TK is None else ("because of",)
    basis = ("basis",) if others else ()
    rules = ("rules",) if lists.notes else ()
    known = ("known",) if cold else ()
    screen.table((*keys, "rank", what, *name, "score", *known, *why, *basis, *rules), rows)


def _cells(
    entry: Mapping[str, Any] | None,
    rank: int,
    basis: str,
    what: str,
    titles: Mapping[str, str] | None,
) -> tuple[str, ...]:
    """Return the rank, the id, the name and the score; of an empty answer, why it is empty."""
    named = titles is not None
    if entry is None:
        return "-", "unknown" if basis == "unknown" else "nothing left", *([""] * named), ""
    name = [str(entry["name"])] if named else []
    return str(rank), str(entry[what]), *name, f"{entry['score']:.4f}"


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


def _reason(entry: Mapping[str, Any] | None, titles: Mapping[str, str] | None) -> str:
    """Return the item that contributes most to the score of an entry, or a dash."""
    item = None if entry is None else entry["because"]
    return "-" if item is None else str(item) if titles is None else _title(titles, item)


def _title(titles: Mapping[str, str], item: Any) -> str:
    """Return what an item is called; one without a name goes by its id."""
    return "" if item is None else titles.get(str(item), str(item))


def write_answers(
    screen: Screen,
    pieces: Iterator[RankedLists],
    out: Path,
    titles: Mapping[str, str] | None,
    n_users: int,
) -> list[dict[str, Any]]:
    """Write one piece after the other; lists are returned only if JSON is to show them."""
    from sdgar.data.tables import write_pieces

    entries: list[dict[str, Any]] = []
    rows = 0

    def frames(watched: Iterator[RankedLists]) -> Iterator[pl.DataFrame]:
        nonlocal rows
        for lists in watched:
            frame = lists.frame()
            rows += frame.height
            yield with_names(frame, titles)

    with screen.counting("users", n_users) as advance:
        write_pieces(frames(_watched(screen, pieces, titles, entries, advance)), out)
    screen.say("saved", f"{rows:,} rows to {out}")
    return entries


def write_run(
    screen: Screen,
    pieces: Iterator[RankedLists],
    out: Path,
    titles: Mapping[str, str] | None,
    n_users: int,
) -> list[dict[str, Any]]:
    """Write lists as a run of TREC, which has one id for each list."""
    from sdgar.data import trec

    entries: list[dict[str, Any]] = []

    def rankings(watched: Iterator[RankedLists]) -> Iterator[tuple[object, list[object]]]:
        for lists in watched:
            if len(lists.queried) > 1:
                raise UsageError(
                    f"a context of this model is {', '.join(lists.queried)}, and a run of TREC has "
                    "one id for each list. Use --out FILE.",
                    code="bad_context",
                )
            (ids_T,) = lists.queried.values()
            for user, items_K in zip(ids_T.tolist(), lists.items_TK, strict=True):
                yield user, lists.ids.at(items_K[items_K >= 0]).tolist()

    with screen.counting("users", n_users) as advance:
        rows = trec.write_run(rankings(_watched(screen, pieces, titles, entries, advance)), out)
    screen.say("saved", f"{rows:,} rows to {out}")
    return entries


def _watched(
    screen: Screen,
    pieces: Iterator[RankedLists],
    titles: Mapping[str, str] | None,
    entries: list[dict[str, Any]],
    advance: Callable[[int], None],
) -> Iterator[RankedLists]:
    """Yield lists one piece after the other, move the bar, and keep them if JSON shows them."""
    for lists in pieces:
        if screen.as_json:
            entries.extend(lists.dicts(titles))
        yield lists
        advance(len(lists))
