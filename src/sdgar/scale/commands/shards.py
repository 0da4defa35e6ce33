"""``sdgar data shard``, ``info`` and ``split``: rows in shards on disk, when RAM is too small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Json, Overwrite
from sdgar.cli.options.values import bytes_of, folder_for_files
from sdgar.data.read_options import ReadOptions
from sdgar.storage import remote

if TYPE_CHECKING:
    from sdgar.scale.shards import Shards

_STEPS = {
    "survey": "looking at all rows",
    "runs": "checking rows",
    "shards": "merging shards",
    "ranks": "numbering users",
    "sums": "summing up files",
}


def shard(
    events: Annotated[
        list[str],
        Option(
            "Read these files of events, patterns such as 'logs/*.csv', or folders, also those at "
            "addresses such as s3://BUCKET/PATH.",
            is_argument=True,
        ),
    ],
    out: Annotated[
        Path,
        Option(
            "Write the shards into this folder, which is whole or absent.",
            "FOLDER",
            parse=folder_for_files,
        ),
    ],
    shards: Annotated[
        int | None,
        Option("Make so many shards; the default is one for each million rows that are read.", "N"),
    ] = None,
    ram: Annotated[
        int,
        Option(
            "Use at most this much RAM, as 800MiB; default: 4GiB.", "BYTES", parse=bytes_of("--ram")
        ),
    ] = 4 << 30,
    overwrite: Overwrite = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Write events of any size as shards of users, in bounded RAM.

    Ids, duplicates and bad rows are treated as in every other command. If this is interrupted, it
    leaves no shards.
    """
    from sdgar.scale.shards.build import shard_files

    screen = Screen(as_json=as_json)
    remote.require_absent(out, overwrite=overwrite)
    with screen.bar() as bar:
        task = bar.add_task("starting", total=None, unit="")

        def progress(step: str, done: int, total: int) -> None:
            unit = "rows" if step in ("survey", "runs") else ""
            bar.update(
                task, description=_STEPS[step], completed=done, total=total or None, unit=unit
            )

        made = shard_files(
            events,
            out,
            reading,
            n_shards=shards,
            overwrite=overwrite,
            ram=ram,
            progress=progress,
        )
    facts = _facts(made)
    _print(screen, made, remote.address_of(out))
    where = remote.deliver(out)
    screen.say("saved", where)
    screen.result(facts | {"folder": where})


def info(
    folder: Annotated[
        Path,
        Option("Describe this folder of shards.", "FOLDER", parse=remote.fetched, is_argument=True),
    ],
    verify: Annotated[bool, Option("Read all files, and compare their SHA-256.")] = False,
    as_json: Json = False,
) -> None:
    """Describe a folder of shards, after a check that its files are there."""
    from sdgar.scale.shards import Shards

    screen = Screen(as_json=as_json)
    found = Shards.open(folder, verify=verify)
    _print(screen, found, remote.address_of(folder))
    checked = (
        "all files have their SHA-256" if verify else "all files are there; --verify reads them"
    )
    screen.say("files", f"{found.file_bytes() / 1e6:,.1f} MB, {checked}")
    screen.say("digest", found.digest)
    facts = _facts(found) | {"folder": remote.address_of(folder) or str(folder)}
    screen.result(facts | {"verified": verify})


def _print(screen: Screen, shards: Shards, address: str | None) -> None:
    about = shards.described.about
    rows_S = shards.rows_S
    screen.say("data", f"{address or shards.folder}: {shards.size_text()}")
    screen.say("shards", f"{rows_S.min():,} to {rows_S.max():,} rows each")
    screen.say("rows", shards.account.sentence())
    times = "with times" if shards.has_times else "without times"
    weights = "with weights" if shards.has_weights else "without weights"
    screen.say("has", f"{times}, {weights}")
    for label in ("columns", "weighting", "seen", "kinds"):
        if about.get(label):
            screen.say("weights" if label == "weighting" else label, about[label])
    for note in about.get("notes", ()):
        screen.say("note", note)


def _facts(shards: Shards) -> dict[str, Any]:
    return {
        "folder": str(shards.folder),
        "users": shards.n_users,
        "items": shards.n_items,
        "interactions": shards.n_rows,
        "shards": shards.n_shards,
        "rows": shards.account.as_dict(),
        "rows_of_shards": shards.rows_S.tolist(),
        "has_times": shards.has_times,
        "has_weights": shards.has_weights,
        "ids": shards.described.ids,
        "bytes": shards.file_bytes(),
        "digest": shards.digest,
        "about": shards.described.about,
    }


class SplitShards:
    """Splits a folder of shards into two."""

    def claims(self, files: Sequence[Any]) -> bool:
        """Return whether the input is one folder of shards."""
        from sdgar.scale.shards.format import is_shards

        return len(files) == 1 and isinstance(files[0], Path) and is_shards(files[0])

    def split(
        self,
        folder: Path,
        out: Path,
        rule: str | None,
        *,
        share: float | None,
        seed: int,
        overwrite: bool,
        as_json: bool,
    ) -> None:
        """Write train.shards and test.shards."""
        from sdgar.scale.shards import Shards
        from sdgar.scale.shards.splitting import split_shards

        screen = Screen(as_json=as_json)
        shards = Shards.open(folder)
        screen.say("data", f"{folder}: {shards.size_text()}")
        train, test, how = split_shards(
            shards, out, rule, seed=seed, share=share, overwrite=overwrite
        )
        for part in (train, test):
            screen.say("saved", f"{remote.seen_as(part.folder)}: {part.size_text()}")
        screen.say("split", how)
        sizes = {"train": len(train), "test": len(test)}
        screen.result(sizes | {"how": how, "out": remote.deliver(out)})


SPLIT = SplitShards()
"""The extension ``data split:shards``."""
