"""Read one expected file out of a plain, gzip or zip file, as a stream of blocks.

Nothing is ever unpacked under a name that an archive chose: the caller says which member it
expects, and an archive that holds anything suspicious is refused as a whole.
"""

from __future__ import annotations

import errno
import gzip
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PureWindowsPath
from typing import IO, cast

from sdgar.errors import DataError, UsageError
from sdgar.storage.folders import NotAFileError, open_file
from sdgar.storage.whole_files import disk_error, replacing

MAX_UNPACKED_BYTES = 8 << 30
"""The most bytes that a file may unpack to: more than twice those of Echonest, the largest one."""
MAX_RATIO = 200
"""The most bytes that a packed byte may become; published text files stay below 10."""
MAX_MEMBERS = 10_000

_BLOCK_BYTES = 16 << 20
_RATIO_COUNTS_FROM_BYTES = 1 << 20  # a few repetitive kilobytes are no bomb
_PACKED_STARTS = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ\0": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstandard file",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a rar archive",
}
_TAR_MARK, _TAR_MARK_AT = b"ustar", 257
_ENCRYPTED_FLAGS = 0x1 | 0x40
_BROKEN = (
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""The errors that gzip and zipfile raise on damaged bytes."""


def read_blocks(raw: Path, member: str | None = None) -> Iterator[bytes]:
    """Yield the content of a file, unpacked; magic bytes, not its name, say how it is packed.

    ``member`` is the only file of a zip archive that is read.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(open_file(raw))
            stream, packed_bytes = _unpacked(file, raw, member, stack)
            yield from _capped(stream, packed_bytes, raw)
    except _BROKEN as error:
        raise _damaged(raw, error) from error
    except FileNotFoundError as error:
        raise UsageError(f"{raw}: there is no such file.", code="no_such_file") from error
    except NotAFileError as error:
        raise UsageError(
            f"{raw} is not what the publisher offers: {error}. Name the raw file itself.",
            code="not_a_file",
        ) from error
    except OSError as error:
        # zipfile goes to any offset that a damaged directory names, even before the start.
        damaged = error.errno == errno.EINVAL
        raise (_damaged if damaged else disk_error)(raw, error) from error


def extract(raw: Path, target: Path, member: str | None = None) -> Path:
    """Write the unpacked content of ``raw`` to ``target``, a name that the caller chooses."""
    with replacing(target) as temporary, temporary.open("wb") as out:
        for block in read_blocks(raw, member):
            out.write(block)
    return target


def _unpacked(
    file: IO[bytes], raw: Path, member: str | None, stack: ExitStack
) -> tuple[IO[bytes], int]:
    """Return a stream of the content, and the number of packed bytes it comes from."""
    magic = file.read(4)
    file.seek(0)
    if magic in (b"PK\x03\x04", b"PK\x05\x06"):
        archive = stack.enter_context(zipfile.ZipFile(file))
        info = _expected_member(archive, raw, member)
        return stack.enter_context(archive.open(info)), info.compress_size
    size = raw.stat().st_size
    if magic[:2] == b"\x1f\x8b":
        unzipped = gzip.open(file)  # noqa: SIM115  (the stack closes it)
        stack.callback(unzipped.close)
        return cast("IO[bytes]", unzipped), size
    return file, size


def _capped(stream: IO[bytes], packed_bytes: int, raw: Path) -> Iterator[bytes]:
    total = 0
    while block := stream.read(_BLOCK_BYTES):
        if total == 0:
            _refuse_packed(block, raw)
        total += len(block)
        _refuse_bomb(total, packed_bytes, raw)
        yield block


def _refuse_packed(start: bytes, raw: Path) -> None:
    """Raise if an archive begins where lines should: one in another, or of a kind not read here."""
    kinds = [kind for magic, kind in _PACKED_STARTS.items() if start.startswith(magic)]
    if start[_TAR_MARK_AT:].startswith(_TAR_MARK):
        kinds.append("a tar archive")
    if kinds:
        raise _refused(
            raw, f"its content is {kinds[0]}, not lines of text. Unpack it and name the file in it"
        )


def _expected_member(archive: zipfile.ZipFile, raw: Path, member: str | None) -> zipfile.ZipInfo:
    """Return the one member to read, after every check that its header allows."""
    if member is None:
        raise _refused(raw, "a plain file is expected here. Unpack it and name the file in it")
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise _refused(raw, f"it has {len(infos):,} members, more than {MAX_MEMBERS:,}")
    _refuse_hostile_names(infos, raw)
    found = [info for info in infos if info.filename == member]
    if not found:
        raise _refused(raw, f"it has no member {member!r}, only {_some(infos)}")
    (info,) = found
    _refuse_odd_member(info, raw)
    return info


def _refuse_hostile_names(infos: list[zipfile.ZipInfo], raw: Path) -> None:
    for info in infos:
        # ``filename`` ends at the first NUL, so two different names could look the same there.
        name = info.orig_filename
        path = PureWindowsPath(name)  # takes both slashes and drive letters for what they are
        if path.anchor or ".." in path.parts or "\0" in name:
            raise _refused(raw, f"its member {name!r} points outside the archive")
    clashes = [
        name for name, n in Counter(info.filename.casefold() for info in infos).items() if n > 1
    ]
    if clashes:
        raise _refused(raw, f"it has more than one member {clashes[0]!r}")


def _refuse_odd_member(info: zipfile.ZipInfo, raw: Path) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.is_dir() or kind not in (0, stat.S_IFREG):
        raise _refused(raw, f"its member {info.filename!r} is not a regular file")
    if info.flag_bits & _ENCRYPTED_FLAGS:
        raise _refused(raw, f"its member {info.filename!r} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _refused(raw, f"its member {info.filename!r} is packed by an unusual method")


def _refuse_bomb(unpacked_bytes: int, packed_bytes: int, raw: Path) -> None:
    if unpacked_bytes > MAX_UNPACKED_BYTES:
        raise _refused(raw, f"it unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
    if unpacked_bytes > max(_RATIO_COUNTS_FROM_BYTES, MAX_RATIO * packed_bytes):
        raise _refused(raw, f"it unpacks to more than {MAX_RATIO} times its size")


def _refused(raw: Path, why: str) -> DataError:
    return DataError(
        f"{raw}: the archive is refused: {why}. Check where it came from.", code="unsafe_archive"
    )


def _damaged(raw: Path, error: Exception) -> DataError:
    return DataError(
        f"{raw}: the archive is damaged or cut short ({error}). Download it again.",
        code="bad_archive",
    )


def _some(infos: list[zipfile.ZipInfo]) -> str:
    names = ", ".join(repr(info.filename) for info in infos[:5]) or "nothing"
    return names + (", …" if len(infos) > 5 else "")
