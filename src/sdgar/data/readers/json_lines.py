"""Read JSON Lines files with Python's parser, which keeps integers exact: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.chunks import Chunk, id_column, is_id, value_column
from sdgar.data.readers.delimited import check_encoding
from sdgar.data.readers.files import BLOCK_BYTES, SourceFile, unpacked
from sdgar.data.readers.problems import ProblemLog, RowPlace, shown
from sdgar.data.readers.text_scan import BOM, MAX_LINE, Broken, blocks
from sdgar.errors import DataError

_LOOKED_AT = 1000


class JsonLinesFile:
    """A file of JSON objects; its columns are the keys of the first of them."""

    def __init__(self, file: SourceFile, options: ReadOptions) -> None:
        self._file = file
        self._limit = options.unpack_limit
        head, _ = next(blocks(unpacked(file, self._limit), BLOCK_BYTES))
        check_encoding(head, file.name)
        self.names = _keys(head, file.name)

    def chunks(
        self, used: dict[str, str], log: ProblemLog, block_size: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the used columns: ids as integers or text, everything else as text."""
        first_line = 1
        for block, _ in blocks(unpacked(self._file, self._limit), block_size or BLOCK_BYTES):
            lines = _lines(block)
            objects = _objects(lines, first_line, self._file.name, log)
            columns = []
            for role, name in used.items():
                made = id_column if is_id(role) else value_column
                values = [found.get(name) for found in objects.values()]
                columns.append(made(values, name, self._file.name).alias(role))
            rows = np.fromiter(objects, np.int64, len(objects))
            yield Chunk(self._file.name, pl.DataFrame(columns), rows)
            first_line += len(lines)


def _objects(
    lines: list[bytes], first_line: int, source: str, log: ProblemLog
) -> dict[int, dict[str, Any]]:
    """Return the object of each line; lines without one go to the log."""
    found = {}
    for number, line in enumerate(lines, first_line):
        try:
            if line.strip():
                found[number] = _object(line)
        except Broken as broken:
            log.add(
                broken.code, [RowPlace(source, number, "line", None, shown(line), broken.detail)]
            )
    return found


def _keys(head: bytes, source: str) -> tuple[str, ...]:
    """Return the keys of the first objects, in the order met."""
    first = list(islice(filter(bytes.strip, _lines(head)), _LOOKED_AT))
    if not first:
        raise DataError(f"{source} has nothing but blank lines.", code="empty_input")
    objects = _objects(first, 1, source, ProblemLog()).values()
    names = dict.fromkeys(key for found in objects for key in found)
    if not names:
        raise DataError(
            f"the first lines of {source} have no JSON object with keys: {shown(first[0])}. "
            'Every line must be an object such as {"user": 1, "item": 2}.',
            code="bad_json",
        )
    return tuple(names)


def _lines(block: bytes) -> list[bytes]:
    return block.removeprefix(BOM).splitlines()


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise Broken("line_too_long")
    try:
        found = json.loads(line.decode())
        if b"\\u" in line:
            json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except UnicodeDecodeError as error:
        raise Broken("bad_encoding", f"byte 0x{line[error.start]:02x}") from error
    except (ValueError, RecursionError) as error:
        raise Broken("bad_json", str(error)[:80]) from error
    if not isinstance(found, dict):
        raise Broken("bad_json", f"a {type(found).__name__}, not an object")
    return found
