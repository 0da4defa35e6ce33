"""``sdgar data stats`` and ``split``: describe files of events, and hold some rows out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sdgar.cli.commands import extensions_of
from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Files, Json, Overwrite, Seed, require_one_split
from sdgar.cli.options.values import folder_for_files, require_new
from sdgar.data.read_options import ReadOptions
from sdgar.show.printed import command
from sdgar.storage import remote


def stats(files: Files, as_json: Json = False, *, reading: ReadOptions) -> None:
    """Print the columns of the paper's Table 1 for one data set in one or several files."""
    screen = Screen(as_json=as_json)
    data, _ = read_events(screen, "data", files, reading)
    found = data.stats()
    shown = {
        "users": found["users"],
        "items": found["items"],
        "interactions": found["interactions"],
        "density": f"{found['density']:.3%}",
        "on top 5 % of items": f"{found['concentration']:.2%}",
    }
    screen.table(tuple(shown), [tuple(shown.values())])
    screen.result(found | {"rows": data.account.as_dict()})


def split(
    files: Files,
    out: Annotated[
        Path,
        Option(
            "Write train.parquet and test.parquet into this folder.",
            "FOLDER",
            parse=folder_for_files,
        ),
    ],
    rule: Annotated[
        str | None,
        Option(
            "Split by a rule: time (default with a time column), paper, leave-last-out, "
            "date:2024-03-01, users:0.1."
        ),
    ] = None,
    share: Annotated[
        float | None, Option("Hold this share out; the default is that of the rule.")
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Write train.parquet and test.parquet, so that several runs share one split.

    A folder of shards becomes train.shards and test.shards, by the rules time and paper. With
    --rule users:0.1 the test users are new, and histories.parquet has what they are folded in
    from.
    """
    from sdgar.data.splits import split as hold_out
    from sdgar.data.tables import events, write_tables

    require_one_split(rule, "sdgar data split", "writes")
    remote.require_absent(out, overwrite=overwrite)
    for other in extensions_of("data split"):
        if other.claims(files):
            other.split(
                files[0], out, rule, share=share, seed=seed, overwrite=overwrite, as_json=as_json
            )
            return
    targets = [out / f"{name}.parquet" for name in ("train", "test", "histories")]
    for target in targets:
        require_new(target, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    data, _ = read_events(screen, "data", files, reading)
    parts = hold_out(data, rule, seed=seed, share=share)
    if parts.warning:
        screen.warn(parts.warning)
    held = dict(zip(targets, (*parts, parts.histories), strict=True))
    written = {target: rows for target, rows in held.items() if rows is not None}
    write_tables({target: [events(rows)] for target, rows in written.items()})
    for target in held.keys() - written.keys():
        target.unlink(missing_ok=True)  # of an earlier split
    for target, rows in written.items():
        screen.say("saved", f"{remote.seen_as(target)}: {len(rows):,} rows")
    screen.say("split", parts.how)
    train, test, histories = map(remote.seen_as, targets)
    more = ["--context", ",".join(reading.context)] if len(reading.context) > 1 else []
    more += ["--seen-by", reading.seen_by] if reading.seen_by != "user" else []
    if parts.histories is None:
        screen.say("next", command("sdgar", "train", train, "--test", test, "--out", "RUN", *more))
    else:
        screen.say("next", command("sdgar", "train", train, "--split", "none", "--out", "RUN"))
        words = ("sdgar", "evaluate", "RUN", "--test", test, "--histories", histories)
        screen.say("next", command(*words))
    sizes = {name.stem: len(rows) for name, rows in written.items()}
    screen.result(sizes | {"how": parts.how, "out": remote.deliver(out)})
