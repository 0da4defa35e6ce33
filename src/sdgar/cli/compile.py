"""``sdgar compile``: compile what systems need before anybody waits for it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.ahead import rehearse
from sdgar.cli.console import Screen
from sdgar.errors import ResourceError, UsageError, unknown_name
from sdgar.systems.names import SYSTEMS

_USUAL = ("sdsoftmax", "quick")
"""The systems of ``sdgar train`` and ``sdgar train --fast``."""


def compile(
    systems: Annotated[
        list[str] | None,
        typer.Argument(help="The systems, by the names that sdgar systems shows."),
    ] = None,
    portable: Annotated[
        bool,
        typer.Option(help="Put the code beside the installed package, for every processor of this "
                     "kind: in an image or a wheel it then comes along."),
    ] = False,
    as_json: options.Json = False,
) -> None:  # fmt: skip
    """Compile what systems need, so that their first training waits for nothing.

    Without names these are the systems of `sdgar train` and `sdgar train --fast`, and what reads
    files of millions of rows. Each system is trained on a few made-up rows, and asked for lists.
    The code goes to your own cache folder, where all later commands find it.
    """
    names = list(systems or _USUAL)
    for name in names:
        if name not in SYSTEMS:
            raise unknown_name("system", name, SYSTEMS)
    screen = Screen(as_json=as_json)
    start = time.perf_counter()
    found: dict[str, Any] = {"systems": names}
    if portable:
        from sdgar.kernels.portable import settings

        path = _place()
        with tempfile.TemporaryDirectory() as empty:
            _in_child(names, not systems, str(path), NUMBA_CACHE_DIR=empty, **settings())
        with zipfile.ZipFile(path) as file:
            found |= {"kernels": len(file.namelist()), "bytes": path.stat().st_size}
        screen.say("packed", f"{found['kernels']} kernels, {found['bytes']:,} bytes")
    else:
        _in_child(names, not systems)
    found["seconds"] = time.perf_counter() - start
    screen.say("compiled", f"{', '.join(names)} in {found['seconds']:.1f} s")
    screen.result(found)


def _place() -> Path:
    """Return where portable code goes, if it can be made for this kind of processor."""
    from sdgar.kernels import portable
    from sdgar.kernels.folder import portable_file

    if platform.machine() not in portable.FEATURES:
        kinds = " and ".join(portable.FEATURES)
        msg = f"--portable knows {kinds}, and this is {platform.machine()}: leave it out"
        raise UsageError(msg)
    path = portable_file()
    if not os.access(path.parents[1], os.W_OK):
        msg = f"{path.parents[1]} cannot be written to: run this as whoever installed the package"
        raise ResourceError(msg)
    return path


def _in_child(names: list[str], files: bool, *path: str, **environment: str) -> None:
    """Compile in a process of its own, which nothing was compiled in before."""
    asked = json.dumps({"systems": names, "files": files})
    done = subprocess.run(
        [sys.executable, "-m", "sdgar.cli.compile", asked, *path],
        env={**os.environ, "SDGAR_VERBOSE": "0", **environment},
        stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode:
        msg = f"{', '.join(names)} could not be compiled, for the reason above"
        raise ResourceError(msg)


def _rehearse_all(names: list[str]) -> None:
    """Train each system on the CPU, on a few rows, and let it answer as a server would."""
    for name in names:
        on_cpu = {"device": "cpu"} if "device" in SYSTEMS[name]().get_params() else {}
        rehearse(name, on_cpu).prepare()


def _rehearse_reading() -> None:
    """Read files of each form as if they had millions of rows."""
    import polars as pl

    from sdgar.data.readers import read_files
    from sdgar.kernels import optional

    optional.LEAST = 0
    n_N = pl.Series(range(300))  # more than a table has at first
    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = Path(folder, "events.csv"), Path(folder, "events.parquet")
        for users in (n_N, 10**12 * n_N, n_N.cast(pl.String)):
            frame = pl.DataFrame({"user": users, "item": 2 * n_N, "time": 10**9 + n_N})
            frame.write_csv(csv)
            frame.write_parquet(parquet)
            read_files([csv])
            read_files([parquet])


def _pack(path: Path, names: list[str]) -> None:
    """Pack all that was compiled here and kept, in place of what older sources had."""
    from sdgar.kernels import portable
    from sdgar.kernels.compiled import KEPT

    for old in path.parent.glob(f"{platform.machine()}-*.zip"):
        old.unlink()
    portable.pack((one for kernel in KEPT for one in kernel.all_kept()), path, names)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    _rehearse_all(asked["systems"])
    if asked["files"]:
        _rehearse_reading()
    if sys.argv[2:]:
        _pack(Path(sys.argv[2]), asked["systems"])
