"""Raw files that are not what they should be: pipes, links, archives in archives."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

from ..cli.test_cli import Done, sdgar
from .cases import check, refused, table


def raw(make: Callable[[Path], object]) -> Callable[[Path], Done]:
    """Prepare a data set from what is made as its raw file."""

    def act(folder: Path) -> Done:
        make(folder / "raw")
        words = ("--raw", folder / "raw", "--out", folder / "out")
        return sdgar("data", "prepare", "citeulike", *words)

    return act


def holds(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


LINES = b"1 5\n" * 100

NO_FILES = {
    "a pipe is named as a raw file": (raw(os.mkfifo), "raw", "pipe"),
    "a folder is named as a raw file": (raw(Path.mkdir), "raw", "a folder"),
    "a device is a raw file": (raw(lambda p: p.symlink_to("/dev/zero")), "raw", "a device"),
    "a link leads nowhere": (raw(lambda p: p.symlink_to("nowhere")), "raw", "no file"),
    "a link leads to itself": (raw(lambda p: p.symlink_to(p)), "raw", "no file"),
}
FILES = {
    "gzip in gzip": (raw(holds(gzip.compress(gzip.compress(LINES)))), "raw", "malformed"),
    "a bzip2 file": (raw(holds(b"BZh91AY&SY" + bytes(range(256)) * 4)), "raw", "malformed"),
}


@table([*refused(2, NO_FILES), *refused(3, FILES)])
def test_a_raw_file_that_is_none_is_refused_and_leaves_nothing(case, tmp_path):
    check(case, tmp_path)
    assert not (tmp_path / "out").exists()
