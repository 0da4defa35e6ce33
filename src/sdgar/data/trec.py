"""Files of TREC: a run has lists that some system made, and qrels have what they were to find.

    run      USER Q0 ITEM RANK SCORE NAME
    qrels    USER 0 ITEM RELEVANCE

Columns stand apart by blanks, so that an id cannot have one. Ids are text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.tables import text_of
from sdgar.errors import DataError
from sdgar.storage.files import make_parent, replacing

_NAME = "sdgar"
Lists = dict[str, list[str]]
"""The items of each user, best first."""


def read_run(path: str | Path) -> Lists:
    """Read lists from a run: by score, and where scores are equal by rank."""
    entries: dict[str, list[tuple[float, float, str]]] = {}
    for where, line in _lines(path, 6, "USER Q0 ITEM RANK SCORE NAME"):
        user, _, item, rank, score, _ = line
        at = _number(rank, "rank", where), _number(score, "score", where)
        entries.setdefault(user, []).append((-at[1], at[0], item))
    lists = {user: [item for *_, item in sorted(found)] for user, found in entries.items()}
    for user, items in lists.items():
        if twice := [item for item, n in Counter(items).items() if n > 1]:
            raise DataError(
                f"the run {path} has item {twice[0]!r} twice in the list of user {user!r}. Keep "
                "one of the lines.",
                code="duplicate_items",
            )
    return lists


def read_qrels(path: str | Path) -> dict[str, set[str]]:
    """Read the relevant items of each user, which are those whose relevance is above 0."""
    found: dict[str, set[str]] = {}
    for where, (user, _, item, relevance) in _lines(path, 4, "USER 0 ITEM RELEVANCE"):
        if _number(relevance, "relevance", where) > 0:
            found.setdefault(user, set()).add(item)
    if not found:
        raise DataError(f"the qrels {path} have no relevant item.", code="no_rows")
    return found


def write_run(lists: Iterable[tuple[object, Sequence[object]]], path: Path) -> int:
    """Write lists of items as a run and return the number of lines.

    The score of an entry is minus its rank, so that every tool keeps the order of the list, also
    where a model scores two items alike.
    """
    return _write(
        (
            f"{_id(user)} Q0 {_id(item)} {rank} {-rank} {_NAME}"
            for user, items in lists
            for rank, item in enumerate(items, 1)
        ),
        path,
    )


def write_qrels(rows: Iterable[tuple[object, object]], path: Path) -> int:
    """Write pairs of user and item as qrels and return the number of lines."""
    return _write((f"{_id(user)} 0 {_id(item)} 1" for user, item in rows), path)


def _write(lines: Iterable[str], path: Path) -> int:
    count = 0
    make_parent(path)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count


def _id(value: object) -> str:
    text = str(value)
    if len(text.split()) != 1 or text.split()[0] != text:
        raise DataError(
            f"the id {text!r} cannot stand in a file of TREC, whose columns stand apart by blanks. "
            "Write another format, such as .parquet.",
            code="bad_id",
        )
    return text


def _lines(path: str | Path, n: int, columns: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the columns of each line, and where it stands; empty lines are passed over."""
    name, text = text_of(path, " ", ReadOptions())
    lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1)]
    if not any(found for _, found in lines):
        raise DataError(f"{name} has no lines: {columns}.", code="no_rows")
    for number, found in lines:
        if len(found) not in (0, n):
            raise DataError(
                f"line {number:,} of {name} has {len(found)} columns, and {n} are needed: "
                f"{columns}. It is {' '.join(found)[:60]!r}.",
                code="bad_table",
            )
        if found:
            yield f"line {number:,} of {name}", found


def _number(text: str, what: str, where: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise DataError(
            f"{where} has {text[:40]!r} as its {what}, which is no number.", code="bad_table"
        )
    return found
