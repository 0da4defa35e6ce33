"""Several processes of one command, started here or by torchrun; and what each of them ranks.

``sdgar recommend --parts`` writes a folder of Parquet files, one for each process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from sdgar.arguments import at_least
from sdgar.cli.answers import with_names
from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.values import folder_for_files
from sdgar.errors import UsageError
from sdgar.storage import folders
from sdgar.storage.files import disk_error

if TYPE_CHECKING:
    from sdgar.recommend.lists import RankedLists
    from sdgar.scale.workers import Workers

_HERE = "127.0.0.1"
_PATIENCE = 10.0
"""The seconds in which processes that follow must end once the first one is done."""


def follows() -> bool:
    """Return whether another process leads this one."""
    return int(os.environ.get("RANK") or 0) > 0


def started_again() -> bool:
    """Return whether torchrun has started this process again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) > 0


@contextmanager
def several(count: int) -> Iterator[Workers]:
    """Start so many processes with the words of this command, or join the processes of torchrun.

    The first one is this process, and the others end with it.
    """
    from sdgar.scale import workers

    at_least("workers", count, 1)
    _, there = workers.from_environment()
    if there > 1 and count not in (1, there):
        raise UsageError(
            f"--workers is {count}, and {there} workers were started. Leave the option out: the "
            "number is that of torchrun.",
            code="two_numbers_of_workers",
        )
    started: list[subprocess.Popen[bytes]] = []
    try:
        if there == 1 and count > 1:
            from torch.distributed import TCPStore  # type: ignore[attr-defined]

            store = TCPStore(_HERE, 0, count, is_master=True, wait_for_workers=False)
            started += [_start(number, count, store.port) for number in range(1, count)]
            yield workers.meet_at(store, 0, count)
        else:
            yield workers.join()
    except workers.LostError:
        for process in started:  # they may be waiting for the one that is gone
            process.kill()
        raise
    finally:
        workers.leave()
        for process in started:
            _end(process)


def _start(number: int, count: int, port: int) -> subprocess.Popen[bytes]:
    """Start a process with the words of this command, and with the variables of torchrun."""
    place = {"MASTER_ADDR": _HERE, "MASTER_PORT": f"{port}", "RANK": f"{number}"}
    size = {"WORLD_SIZE": f"{count}", "LOCAL_WORLD_SIZE": f"{count}"}
    words = [sys.executable, "-m", "sdgar", *sys.argv[1:]]
    nowhere = subprocess.DEVNULL  # what the command prints, the first process prints
    return subprocess.Popen(
        words, env={**os.environ, **place, **size}, stdin=nowhere, stdout=nowhere
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
        import polars as pl

        from sdgar.data.tables import write_pieces
        from sdgar.machine import cores

        assert options.parts is not None
        place = options.parts
        with several(options.workers) as together:
            together.cure = "Nothing was written: run the command again."

            def write_part(folder: Path, advance: Callable[[int], None]) -> None:
                def frames() -> Iterator[pl.DataFrame]:
                    for lists in lists_of(part=(together.number, together.count)):
                        yield with_names(lists.frame(), titles)
                        advance(len(lists))

                write_pieces(frames(), folder / name_of(together.number))

            each = max(1, cores.threads() // together.here)
            with together.working(identity), cores.torch_threads(each):
                if not together.leads:
                    while (message := together.receive()) != {"do": "end"}:
                        write_part(Path(message["folder"]), lambda count: None)
                        together.meet()
                    return {}
                place = _require_free(place, overwrite=overwrite)
                try:
                    with folders.whole(place, replace=overwrite) as temporary:
                        together.send(do="write", folder=str(temporary))
                        with screen.counting("users", n_users) as advance:
                            write_part(temporary, lambda count: advance(count * together.count))
                            together.meet()
                        written = pl.scan_parquet(temporary / "*.parquet")
                        rows = int(written.select(pl.len()).collect().item())
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
