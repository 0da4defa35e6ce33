"""Read a small file as one text, plain or compressed."""

from __future__ import annotations

from pathlib import Path

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.files import find_files, reading, unpacked
from sdgar.errors import DataError


def text_of(path: str | Path, separator: str, options: ReadOptions) -> tuple[str, str]:
    """Return the name of a file and its text; raise if it is not UTF-8."""
    file = find_files([path], separator, [])[0]
    with reading(file):
        content = b"".join(unpacked(file, options.unpack_limit, []))
    try:
        return file.name, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file.name} is not UTF-8 text ({error.reason} at byte {error.start:,}). Save it as "
            "UTF-8.",
            code="bad_encoding",
        ) from error
