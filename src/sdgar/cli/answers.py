"""Lists of recommended or similar items, as a table for people and as a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from sdgar.recommend.lists import Lists


def show(
    screen: Screen,
    lists: Lists,
    keys: Sequence[str],
    titles: Mapping[str, str] | None = None,
) -> None:
    """Print a table for people; the first columns are what was asked about."""
    if screen.as_json:
        return
    frame, what = lists.frame(), lists.what
    others = set(frame["basis"]) - {"model"}
    cold = lists.cold_I is not None and bool(frame["cold"].any())
    rows = [
        (
            *(str(row[key]) for key in keys),
            "-" if row["rank"] is None else str(row["rank"]),
            _found(row, what),
            *(() if titles is None else (_title(titles, row[what]),)),
            "" if row["score"] is None else f"{row['score']:.4f}",
            *(("by features" if row["cold"] else "",) if cold else ()),
            *((_reason(row["because"], titles),) if "because" in row else ()),
            *((row["basis"],) if others else ()),
            *((row["rules"],) if "rules" in row else ()),
        )
        for row in frame.iter_rows(named=True)
    ]
    name = () if titles is None else ("name",)
    why = () if lists.why_TK is None else ("because of",)
    basis = ("basis",) if others else ()
    rules = () if lists.notes is None else ("rules",)
    known = ("known",) if cold else ()
    screen.table((*keys, "rank", what, *name, "score", *known, *why, *basis, *rules), rows)


def with_names(frame: pl.DataFrame, titles: Mapping[str, str] | None) -> pl.DataFrame:
    """Return the frame with a column of names behind the items, if there are names."""
    if titles is None:
        return frame
    import polars as pl

    if "name" in frame.columns:
        raise UsageError(
            "a context of this model has a field called 'name', so that names of items cannot "
            "stand beside it. Leave out --names.",
            code="bad_option",
        )
    found = [_title(titles, item) or None for item in frame["item"].to_list()]
    place = frame.columns.index("item") + 1
    return frame.insert_column(place, pl.Series("name", found, dtype=pl.String))


def _found(row: Mapping[str, Any], what: str) -> str:
    if row[what] is not None:
        return str(row[what])
    return "unknown" if row["basis"] == "unknown" else "nothing left"


def _reason(item: Any, titles: Mapping[str, str] | None) -> str:
    """Return what speaks most for an entry, or a dash."""
    return "-" if item is None else str(item) if titles is None else _title(titles, item)


def _title(titles: Mapping[str, str], item: Any) -> str:
    """Return what an item is called; one without a name goes by its id."""
    return "" if item is None else titles.get(str(item), str(item))


def write_answers(
    screen: Screen,
    pieces: Iterator[Lists],
    out: Path,
    titles: Mapping[str, str] | None,
    n_users: int,
) -> list[dict[str, Any]]:
    """Write one piece after the other; lists are returned only if JSON is to show them."""
    from sdgar.data.tables import write_pieces

    told: list[dict[str, Any]] = []
    rows = 0

    def frames(watched: Iterator[Lists]) -> Iterator[pl.DataFrame]:
        nonlocal rows
        for lists in watched:
            frame = lists.frame()
            rows += frame.height
            yield with_names(frame, titles)

    with screen.counting("users", n_users) as advance:
        write_pieces(frames(_watched(screen, pieces, titles, told, advance)), out)
    screen.say("saved", f"{rows:,} rows to {out}")
    return told


def write_run(
    screen: Screen,
    pieces: Iterator[Lists],
    out: Path,
    titles: Mapping[str, str] | None,
    n_users: int,
) -> list[dict[str, Any]]:
    """Write lists as a run of TREC, which has one id for each list."""
    from sdgar.data import trec

    told: list[dict[str, Any]] = []

    def entries(watched: Iterator[Lists]) -> Iterator[tuple[object, list[object]]]:
        for lists in watched:
            if len(lists.asked) > 1:
                raise UsageError(
                    f"a context of this model is {', '.join(lists.asked)}, and a run of TREC has "
                    "one id for each list. Use --out FILE.",
                    code="bad_context",
                )
            (asked,) = lists.asked.values()
            for user, items_K in zip(asked.tolist(), lists.items_TK, strict=True):
                yield user, lists.ids.at(items_K[items_K >= 0]).tolist()

    with screen.counting("users", n_users) as advance:
        rows = trec.write_run(entries(_watched(screen, pieces, titles, told, advance)), out)
    screen.say("saved", f"{rows:,} rows to {out}")
    return told


def _watched(
    screen: Screen,
    pieces: Iterator[Lists],
    titles: Mapping[str, str] | None,
    told: list[dict[str, Any]],
    advance: Callable[[int], None],
) -> Iterator[Lists]:
    """Yield lists one piece after the other, move the bar, and keep them if JSON shows them."""
    for lists in pieces:
        if screen.as_json:
            told.extend(lists.dicts(titles))
        yield lists
        advance(len(lists))
