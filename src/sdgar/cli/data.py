"""``sdgar data …``: statistics, the paper's data sets, synthetic data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.show.printed import command

_SHORT = {"movielens": "movielens-10m"}
"""Names that people say, where a data set is published under a longer one."""

app = typer.Typer(no_args_is_help=True, help="Look at data, prepare it, make it up.")


@app.command()
@options.reads_files
def stats(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of events.")],
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Print the columns of the paper's Table 1 for one data set in one or several files."""
    from sdgar.data.readers import read_files

    screen = Screen(as_json=as_json)
    loaded = read_files(files, reading)
    screen.loaded("data", loaded, ", ".join(file.name for file in files))
    found = loaded.interactions.stats()
    screen.table(
        ("users", "items", "interactions", "density", "on top 5 % of items"),
        [
            (
                f"{found['users']:,}",
                f"{found['items']:,}",
                f"{found['interactions']:,}",
                f"{found['density']:.3%}",
                f"{found['concentration']:.2%}",
            )
        ],
    )
    screen.result(found | {"rows": loaded.interactions.account.as_dict()})


@app.command()
@options.reads_files
def split(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of events.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            parser=options.folder_for_files,
            metavar="FOLDER",
            help="Folder for train.parquet and test.parquet.",
        ),
    ],
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            help="time (default with a time column), paper, leave-last-out, date:2024-03-01, "
            "users:0.1.",
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            parser=options.number("--share", float),
            metavar="NUMBER",
            help="Share to hold out; default: the rule's.",
        ),
    ] = None,
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Write train.parquet and test.parquet, so that several runs share one split.

    With --rule users:0.1 the test users are new, and histories.parquet has what they are folded in
    from.
    """
    from sdgar.data.readers import read_files
    from sdgar.data.splits import split as hold_out
    from sdgar.data.tables import events, write_table

    options.require_one_split(rule, "sdgar data split", "writes")
    targets = [out / f"{name}.parquet" for name in ("train", "test", "histories")]
    for target in targets:
        options.require_new(target, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    loaded = read_files(files, reading)
    screen.loaded("data", loaded, ", ".join(file.name for file in files))
    parts = hold_out(loaded.interactions, rule, seed=seed, share=share)
    if parts.warning:
        screen.warn(parts.warning)
    written = dict(zip(targets, (*parts, parts.histories), strict=True))
    for target, rows in written.items():
        if rows is None:
            target.unlink(missing_ok=True)  # of an earlier split
            continue
        write_table(events(rows), target)
        screen.say("saved", f"{target}: {len(rows):,} rows")
    screen.say("split", parts.how)
    train, test, histories = targets
    more = ["--context", ",".join(reading.context)] if len(reading.context) > 1 else []
    more += ["--seen-by", reading.seen_by] if reading.seen_by != "user" else []
    if parts.histories is None:
        screen.say("next", command("sdgar", "train", train, "--test", test, "--out", "RUN", *more))
    else:
        screen.say("next", command("sdgar", "train", train, "--split", "none", "--out", "RUN"))
        words = ("sdgar", "evaluate", "RUN", "--test", test, "--histories", histories)
        screen.say("next", command(*words))
    sizes = {name.stem: len(rows) for name, rows in written.items() if rows is not None}
    screen.result(sizes | {"how": parts.how, "out": str(out)})


@app.command()
def prepare(
    name: Annotated[str, typer.Argument(help="citeulike, gowalla, movielens, amazon or echonest.")],
    raw: Annotated[Path, typer.Option("--raw", help="The publisher's file.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            parser=options.folder_for_files,
            metavar="FOLDER",
            help="Folder for interactions.parquet.",
        ),
    ],
    allow_bad_rows: options.AllowBadRows = False,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Prepare one of the paper's data sets from its raw file, as the paper does."""
    from sdgar.data.datasets import prepare as preparing

    preparing.require_free(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    prepared = preparing.prepare(_full(name), raw, allow_bad_rows=allow_bad_rows)
    data = prepared.interactions
    stats = data.stats()
    screen.say(
        "data",
        f"{prepared.dataset.title}: {stats['users']:,} users · {stats['items']:,} items · "
        f"{stats['interactions']:,} interactions",
    )
    screen.say("rows", data.account.sentence())
    for note in prepared.notes:
        screen.say("note", note)
    folder = preparing.write_prepared(prepared, out, overwrite=overwrite)
    screen.say("saved", str(folder))
    file = folder / "interactions.parquet"
    screen.say("next", command("sdgar", "train", file, "--split", "paper", "--out", "RUN"))
    screen.result(stats | {"rows": data.account.as_dict(), "out": str(folder)})


@app.command()
def download(
    name: Annotated[str, typer.Argument(help="citeulike, gowalla, movielens, amazon or echonest.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            parser=options.folder_for_files,
            metavar="FOLDER",
            help="Folder for the raw file.",
        ),
    ] = Path("data/raw"),
    url: Annotated[str | None, typer.Option("--url", help="Another place to fetch from.")] = None,
    sha256: Annotated[
        str | None, typer.Option("--sha256", help="The digest that the file must have.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Fetch the raw file of one of the paper's data sets; verified, resumed if interrupted."""
    from sdgar.data import datasets
    from sdgar.data.datasets.download import download as fetch

    screen = Screen(as_json=as_json)
    dataset = datasets.find(_full(name))
    screen.say("terms", dataset.terms)
    with screen.bytes_bar(dataset.filename) as progress:
        got = fetch(dataset, out, progress=progress, url=url, sha256=sha256)
    screen.say("saved", f"{got.path} ({got.size:,} bytes)")
    screen.say("note", got.note())
    words = ("sdgar", "data", "prepare", name, "--raw", got.path, "--out", f"data/{name}")
    screen.say("next", command(*words))
    screen.result({"path": str(got.path), "bytes": got.size, "sha256": got.sha256})


@app.command()
def synthetic(
    preset: Annotated[
        str, typer.Argument(help="demo, citeulike, gowalla, movielens, amazon or echonest.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            parser=options.new_file,
            metavar="FILE",
            help="A .parquet, .csv, .tsv or .jsonl file.",
        ),
    ],
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Make up events with the size and skew of a known data set."""
    from sdgar.data.synthetic import synthetic as make
    from sdgar.data.tables import events, write_table

    options.require_new_table(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    data = make(preset, seed=seed)
    write_table(events(data), out)
    stats = data.stats()
    screen.say(
        "saved",
        f"{out}: {stats['users']:,} users · {stats['items']:,} items · "
        f"{stats['interactions']:,} interactions, made up, seed {seed}",
    )
    screen.say("next", command("sdgar", "train", out, "--out", "RUN"))
    screen.result(stats | {"out": str(out)})


def _full(name: str) -> str:
    return _SHORT.get(name, name)
