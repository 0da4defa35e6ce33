"""Raw files that are not what they should be: pipes, bombs, archives in archives."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

from sdgar.lab.datasets import DATASETS

from ..cli.test_cli import Done, sdgar
from .cases import Case, check, table


def prepare(raw: Path, folder: Path, name: str = "citeulike") -> Done:
    return sdgar("data", "prepare", name, "--raw", raw, "--out", folder / "out")


def raw_case(
    name: str, exit_code: int, says: str, make: Callable[[Path], None], dataset: str = "citeulike"
) -> Case:
    def act(folder: Path) -> Done:
        make(folder / "raw")
        return prepare(folder / "raw", folder, dataset)

    return Case(name, exit_code, ("raw", says), act)


def zipped(members: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def holds(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


MEMBER = DATASETS["movielens"].member or ""
LINES = b"1 5\n" * 100

RAW_FILES = [
    raw_case("a pipe is named as a raw file", 2, "pipe", os.mkfifo),
    raw_case("a folder is named as a raw file", 2, "a folder", Path.mkdir),
    raw_case("a device is a raw file", 2, "a device", lambda p: p.symlink_to("/dev/zero")),
    raw_case("a link leads nowhere", 2, "no file", lambda p: p.symlink_to("nowhere")),
    raw_case("a link leads to itself", 2, "no file", lambda p: p.symlink_to(p)),
    raw_case("gzip in gzip", 3, "malformed", holds(gzip.compress(gzip.compress(LINES)))),
    raw_case("a bzip2 file", 3, "malformed", holds(b"BZh91AY&SY" + bytes(range(256)) * 4)),
    raw_case(
        "a zip archive without its file",
        3,
        "it has 'x'",
        holds(zipped({"x": LINES})),
        "movielens",
    ),
    raw_case(
        "a zip archive in place of a file",
        3,
        "plain file is expected",
        holds(zipped({"x": LINES})),
        "amazon",
    ),
]


@table(RAW_FILES)
def test_a_raw_file_that_is_none_is_refused_and_leaves_nothing(case, tmp_path):
    check(case, tmp_path)
    assert not (tmp_path / "out").exists()
