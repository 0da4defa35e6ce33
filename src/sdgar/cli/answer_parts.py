"""Lists as a folder of Parquet files, one for each worker: it is whole or absent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.answers import with_names
from sdgar.cli.console import Screen
from sdgar.scale.commands.workers import several
from sdgar.storage import folders
from sdgar.storage.whole_files import disk_error

if TYPE_CHECKING:
    import polars as pl

    from sdgar.recommend.lists import Lists
    from sdgar.scale.workers import Workers

_NAME = re.compile(r"part-\d{4,}\.parquet")


def require_free(place: Path, *, overwrite: bool) -> Path:
    """Refuse a folder that is taken; only one that has nothing but parts is ever replaced."""

    def own(folder: Path) -> set[str]:
        return {file.name for file in folder.iterdir() if _NAME.fullmatch(file.name)}

    return folders.require_free(place, overwrite=overwrite, own=own, what="lists in parts")


def write_parts(
    screen: Screen,
    lists_of: Callable[..., Iterator[Lists]],
    place: Path,
    titles: Mapping[str, str] | None,
    n_users: int,
    workers: int,
    *,
    overwrite: bool,
    identity: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the lists, each worker the part of its number, and return what was written.

    The parts one after the other are the rows of one process, in the order of users.
    """
    from sdgar.machine import cores

    with several(workers) as together:
        together.cure = "Nothing was written: run the command again."
        write = _Writing(lists_of, titles, together)
        each = max(1, cores.threads() // together.here)
        with together.working(identity), cores.torch_threads(each):
            if not together.leads:
                while (told := together.receive()) != {"do": "end"}:
                    write.part(Path(told["folder"]), lambda count: None)
                    together.meet()
                return {}
            place = require_free(place, overwrite=overwrite)
            try:
                with folders.whole(place, replace=overwrite) as temporary:
                    together.send(do="write", folder=str(temporary))
                    with screen.counting("users", n_users) as advance:
                        write.part(temporary, lambda count: advance(count * together.count))
                        together.meet()
                    rows = _rows(temporary)
            except OSError as error:
                raise disk_error(place, error) from error
    names = [name_of(number) for number in range(together.count)]
    screen.say("saved", f"{rows:,} rows to {place}, as {names[0]} to {names[-1]}")
    return {"parts": names, "rows": rows}


def name_of(number: int) -> str:
    """Return the name of the file of a worker."""
    return f"part-{number:04d}.parquet"


class _Writing:
    """Writes the part of one worker."""

    def __init__(
        self,
        lists_of: Callable[..., Iterator[Lists]],
        titles: Mapping[str, str] | None,
        workers: Workers,
    ) -> None:
        self._lists_of, self._titles, self._workers = lists_of, titles, workers

    def part(self, folder: Path, advance: Callable[[int], None]) -> None:
        """Write the file of this worker."""
        from sdgar.data.tables import write_pieces

        def frames() -> Iterator[pl.DataFrame]:
            for lists in self._lists_of(part=(self._workers.number, self._workers.count)):
                yield with_names(lists.frame(), self._titles)
                advance(len(lists))

        write_pieces(frames(), folder / name_of(self._workers.number))


def _rows(folder: Path) -> int:
    import polars as pl

    return int(pl.scan_parquet(folder / "*.parquet").select(pl.len()).collect().item())
