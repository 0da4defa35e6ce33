"""``sdgar recommend --parts``: a folder of Parquet files, one for each process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from sdgar.cli.answers import with_names
from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.values import folder_for_files
from sdgar.errors import UsageError
from sdgar.scale.commands.workers import follows, several
from sdgar.storage import folders
from sdgar.storage.files import disk_error

if TYPE_CHECKING:
    import polars as pl

    from sdgar.recommend.lists import RankedLists
    from sdgar.scale.workers import Workers

_NAME = re.compile(r"part-\d{4,}\.parquet")


@dataclass(frozen=True, kw_only=True)
class PartOfAnswerOptions:
    """Options of an answer in parts."""

    panel: ClassVar[str] = "Several processes"

    parts: Annotated[Path | None, Option(metavar="FOLDER", parse=folder_for_files)] = None
    """Write the answer into this new folder, as one .parquet file for each process."""
    workers: int = 1
    """Rank for --parts by so many processes of this machine; for several machines, start the
    command with torchrun instead."""


class AnswerInParts:
    """Writes recommendations by several processes; the folder is complete or absent."""

    options: ClassVar[type] = PartOfAnswerOptions

    def place(self, options: PartOfAnswerOptions) -> tuple[str, Path | None]:
        """Return the option that names the place of the answer, and the place."""
        if options.workers != 1 and options.parts is None:
            raise UsageError(
                "--workers goes with --parts FOLDER, where each of them writes a file.",
                code="unused_option",
            )
        return "--parts", options.parts

    def require_free(self, options: PartOfAnswerOptions, *, overwrite: bool) -> None:
        """Refuse a folder that is taken."""
        if options.parts is not None and not follows():  # the leading process checks and writes
            _require_free(options.parts, overwrite=overwrite)

    def write(
        self,
        screen: Screen,
        lists_of: Callable[..., Iterator[RankedLists]],
        options: PartOfAnswerOptions,
        titles: Mapping[str, str] | None,
        n_users: int,
        *,
        overwrite: bool,
        identity: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Write the recommendations, each process its part, and return what was written.

        The parts one after the other are the rows of one process, in the order of users.
        """
        from sdgar.machine import cores

        assert options.parts is not None
        place = options.parts
        with several(options.workers) as together:
            together.cure = "Nothing was written: run the command again."
            write = _Writing(lists_of, titles, together)
            each = max(1, cores.threads() // together.here)
            with together.working(identity), cores.torch_threads(each):
                if not together.leads:
                    while (message := together.receive()) != {"do": "end"}:
                        write.part(Path(message["folder"]), lambda count: None)
                        together.meet()
                    return {}
                place = _require_free(place, overwrite=overwrite)
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


PARTS = AnswerInParts()
"""The extension ``recommend:parts``."""


def _require_free(place: Path, *, overwrite: bool) -> Path:
    """Refuse a folder that is taken; only one that has nothing but parts is ever replaced."""

    def own(folder: Path) -> set[str]:
        return {file.name for file in folder.iterdir() if _NAME.fullmatch(file.name)}

    return folders.require_free(place, overwrite=overwrite, own=own, what="lists in parts")


def name_of(number: int) -> str:
    """Return the name of the file of a process."""
    return f"part-{number:04d}.parquet"


class _Writing:
    """Writes the part of one process."""

    def __init__(
        self,
        lists_of: Callable[..., Iterator[RankedLists]],
        titles: Mapping[str, str] | None,
        workers: Workers,
    ) -> None:
        self._lists_of, self._titles, self._workers = lists_of, titles, workers

    def part(self, folder: Path, advance: Callable[[int], None]) -> None:
        """Write the file of this process."""
        from sdgar.data.tables import write_pieces

        def frames() -> Iterator[pl.DataFrame]:
            for lists in self._lists_of(part=(self._workers.number, self._workers.count)):
                yield with_names(lists.frame(), self._titles)
                advance(len(lists))

        write_pieces(frames(), folder / name_of(self._workers.number))


def _rows(folder: Path) -> int:
    import polars as pl

    return int(pl.scan_parquet(folder / "*.parquet").select(pl.len()).collect().item())
