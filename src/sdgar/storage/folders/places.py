"""Check where a folder for results may lie, before any work is spent on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path

from sdgar.errors import ResourceError, UsageError

_MAX_NAME_BYTES = 255 - len(".") - len(".tmp-4194304-01234567.old")
"""The most bytes of a name that a file system allows, less what a temporary name adds."""


def place_of(path: str | Path) -> Path:
    """Return where a folder of this name lies or would lie; links are followed.

    Raise if no folder can have this name, or none can be made in that place. The folder is
    replaced as a whole, so it cannot be the one the process works in.
    """
    try:
        place = Path(path).resolve()
        links = [one for one in (place, *place.parents) if one.is_symlink()]
        above = next(one for one in place.parents if one.exists())
        long = len(os.fsencode(place.name)) > _MAX_NAME_BYTES
    except (OSError, StopIteration, TypeError, ValueError) as error:
        raise _bad_place(path, str(error) or "it names no folder") from error
    except RuntimeError as error:  # what some versions of Python make of such a link
        raise _bad_place(path, "a link leads back to itself") from error
    if links:
        raise _bad_place(path, "a link leads back to itself")
    if long:
        raise _bad_place(path, f"its name has more than {_MAX_NAME_BYTES} bytes")
    if _works_in(place):
        raise _bad_place(path, f"it is the folder {place}, which this process works in")
    if not above.is_dir():
        raise _bad_place(path, f"{above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ResourceError(
            f"cannot write to {above}, where {place} would lie. Change its permissions, or choose "
            "another place.",
            code="unwritable",
        )
    return place


def _bad_place(path: object, why: str) -> UsageError:
    return UsageError(
        f"{str(path)!r} cannot be a folder for results: {why}. Choose another place.",
        code="bad_out",
    )


def _works_in(place: Path) -> bool:
    try:
        return Path.cwd().is_relative_to(place)
    except FileNotFoundError:  # the process works in a folder that is gone
        return False


def in_the_way(place: Path, names: list[str], what: str) -> UsageError:
    """Build the error for a folder that would be replaced, but holds files that are not ours."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return UsageError(
        f"{place} holds {', '.join(map(repr, names[:3]))}{more}, which {what}, so nothing there is "
        "replaced. Move that away, or choose another place.",
        code="out_foreign",
    )


def require_free(
    path: str | Path, *, overwrite: bool, own: Callable[[Path], Collection[str]], what: str
) -> Path:
    """Refuse a place that is taken, before any work is spent on it, and return where it is.

    ``own`` names what sdgar wrote into a folder, and only a folder with nothing else is ever
    replaced; ``what`` says what such a folder is.
    """
    target = place_of(path)
    if not target.exists():
        return target
    if not target.is_dir():
        raise UsageError(
            f"{target} exists and is not a folder. Choose another --out.", code="out_exists"
        )
    found = sorted(entry.name for entry in target.iterdir())
    if found and not overwrite:
        raise UsageError(
            f"{target} exists and is not empty. Choose another place, or replace it with "
            "--overwrite (overwrite=True in Python).",
            code="out_exists",
        )
    if foreign := [name for name in found if name not in own(target)]:
        raise in_the_way(target, foreign, f"is not part of {what} of sdgar")
    return target
