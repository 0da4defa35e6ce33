"""Write a model as SQL for PostgreSQL with the extension pgvector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from sdgar.data.ids import Ids
from sdgar.errors import DataError, UsageError
from sdgar.exports.export import Contents, Files

_TYPES = {"int64": "bigint", "uint64": "numeric(20)", "text": "text"}
"""The type of a column of ids by the kind of the ids."""
_MOST_NUMBERS = 16_000
"""The most numbers of a vector of pgvector."""
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})

_TABLES = """\
-- {about}
-- Load it with:  psql -v ON_ERROR_STOP=1 -f load.sql DATABASE
-- It makes the schema sdgar as a whole, or changes nothing where there is one already.
BEGIN;
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA sdgar;
CREATE TABLE sdgar.users (
    number integer PRIMARY KEY, id {user} UNIQUE NOT NULL, vector vector({numbers}) NOT NULL
);
CREATE TABLE sdgar.items (
    number integer PRIMARY KEY, id {item} UNIQUE NOT NULL, vector vector({numbers}) NOT NULL
);
CREATE TABLE sdgar.known (
    user_number integer NOT NULL, item_number integer NOT NULL, liked boolean NOT NULL,
    PRIMARY KEY (user_number, item_number)
);
"""
_WEIGHTS = """\
CREATE TABLE sdgar.weights (
    item_number integer NOT NULL, for_number integer NOT NULL, weight real NOT NULL,
    PRIMARY KEY (item_number, for_number)
);
"""
_BY_VECTORS = """\
-- s = u · v + b: vectors of users end with 1, vectors of items with their bias.
CREATE FUNCTION sdgar.recommend(for_user {user}, k integer)
RETURNS TABLE (item {item}, score double precision) LANGUAGE sql STABLE AS $$
    SELECT i.id, -(i.vector <#> u.vector)
    FROM sdgar.users u CROSS JOIN sdgar.items i
    WHERE u.id = for_user AND NOT EXISTS (
        SELECT FROM sdgar.known x WHERE x.user_number = u.number AND x.item_number = i.number
    )
    ORDER BY 2 DESC, i.number LIMIT k
$$;
"""
_BY_BOTH = """\
-- s = u · v + b + Σ w: vectors of users end with 1, vectors of items with their bias; the sum is
-- over the items that the user has.
CREATE FUNCTION sdgar.recommend(for_user {user}, k integer)
RETURNS TABLE (item {item}, score double precision) LANGUAGE sql STABLE AS $$
    WITH memory AS (
        SELECT w.for_number AS number, sum(w.weight::double precision) AS score
        FROM sdgar.users u
        JOIN sdgar.known h ON h.user_number = u.number AND h.liked
        JOIN sdgar.weights w ON w.item_number = h.item_number
        WHERE u.id = for_user GROUP BY w.for_number
    )
    SELECT i.id, -(i.vector <#> u.vector) + coalesce(m.score, 0)
    FROM sdgar.users u CROSS JOIN sdgar.items i LEFT JOIN memory m ON m.number = i.number
    WHERE u.id = for_user AND NOT EXISTS (
        SELECT FROM sdgar.known x WHERE x.user_number = u.number AND x.item_number = i.number
    )
    ORDER BY 2 DESC, i.number LIMIT k
$$;
"""
_QUERIES = """\
-- The ten best items of a user that the user does not have, best first:
SELECT * FROM sdgar.recommend({someone}, 10);

-- The ten nearest items to the vector of a user, as an index finds them without looking at all
-- items: only vectors and biases count here, and items that the user has are not left out.
-- CREATE INDEX ON sdgar.items USING hnsw (vector vector_ip_ops);
SELECT id, -(vector <#> (SELECT vector FROM sdgar.users WHERE id = {someone})) AS score
FROM sdgar.items
ORDER BY vector <#> (SELECT vector FROM sdgar.users WHERE id = {someone}) LIMIT 10;
"""


def write_pgvector(contents: Contents, folder: Path) -> Files:
    """Write tables with their rows and a function that recommends, and examples of queries."""
    users, items = contents.users, contents.items
    query_UE, item_IE = contents.with_biases()
    if item_IE.shape[1] > _MOST_NUMBERS:
        raise UsageError(
            f"vectors with their bias have {item_IE.shape[1]:,} numbers, and pgvector holds at "
            f"most {_MOST_NUMBERS:,}. Export as parquet or numpy.",
            code="cannot_export",
        )
    names = {"user": _TYPES[users.kind], "item": _TYPES[items.kind]}
    n_items = len(items)
    liked_E = np.isin(
        contents.known.users_E * n_items + contents.known.items_E,
        contents.history.users_E * n_items + contents.history.items_E,
    )
    with (folder / "load.sql").open("w", encoding="utf-8", newline="\n") as file:
        about = f"A model of {len(users):,} users and {n_items:,} items by sdgar."
        file.write(_TABLES.format(about=about, numbers=item_IE.shape[1], **names))
        _copy(file, "users (number, id, vector)", _entries(users, query_UE, "user"))
        _copy(file, "items (number, id, vector)", _entries(items, item_IE, "item"))
        pairs = zip(
            contents.known.users_E.tolist(), contents.known.items_E.tolist(), liked_E.tolist(),
            strict=True,
        )  # fmt: skip
        known = (f"{user}\t{item}\t{'t' if liked else 'f'}" for user, item, liked in pairs)
        _copy(file, "known (user_number, item_number, liked)", known)
        if contents.weight_II is not None:
            file.write(_WEIGHTS)
            _copy(file, "weights (item_number, for_number, weight)", _weights(contents.weight_II))
        body = _BY_VECTORS if contents.weight_II is None else _BY_BOTH
        file.write(body.format(**names) + "COMMIT;\n")
    someone = _literal(users.values[0]) if len(users) else "NULL"
    queries = _QUERIES.format(someone=someone)
    (folder / "queries.sql").write_text(queries, encoding="utf-8", newline="\n")
    return {
        "load.sql": "the tables users, items and known"
        + (" and weights" if contents.weight_II is not None else "")
        + " of the schema sdgar, and the function sdgar.recommend(user, k)",
        "queries.sql": "queries to begin with",
    }


def _copy(file: TextIO, table: str, rows: Iterable[str]) -> None:
    """Write rows as PostgreSQL reads them from a script."""
    file.write(f"COPY sdgar.{table} FROM stdin;\n")
    for row in rows:
        file.write(row + "\n")
    file.write("\\.\n")


def _entries(ids: Ids, vector_RE: NDArray[np.float32], what: str) -> Iterator[str]:
    for number, (raw, vector_E) in enumerate(zip(ids.values.tolist(), vector_RE, strict=True)):
        if "\0" in str(raw):
            raise DataError(
                f"the {what} id {raw!r} holds a NUL character, which PostgreSQL's texts cannot. "
                "Export as parquet instead.",
                code="nul_byte",
            )
        vector = ",".join(f"{x:.9g}" for x in vector_E.tolist())
        yield f"{number}\t{str(raw).translate(_ESCAPES)}\t[{vector}]"


def _weights(weight_II: Any) -> Iterator[str]:
    row_E = np.repeat(np.arange(weight_II.shape[0]), np.diff(weight_II.indptr))
    for item, other, weight in zip(
        row_E.tolist(), weight_II.indices.tolist(), weight_II.data.tolist(), strict=True
    ):
        yield f"{item}\t{other}\t{weight:.9g}"


def _literal(raw: Any) -> str:
    return "'" + str(raw).replace("'", "''") + "'" if isinstance(raw, str) else str(raw)
