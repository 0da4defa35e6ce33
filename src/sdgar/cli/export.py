"""``sdgar export``: a saved model as files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen


def export(
    run: options.RunFolder,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="FORMAT", help="Write parquet, numpy, faiss, onnx or pgvector."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Write the files into this new folder.")],
    vectors_only: Annotated[
        bool,
        typer.Option(
            "--vectors-only",
            help="Leave a memory out, so that lists are those of the vectors alone.",
        ),
    ] = False,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Write a model for other programs: tables, arrays, an index, a graph, or SQL."""
    from sdgar.exports.export import export as written
    from sdgar.recommend.recommender import load

    screen = Screen(as_json=as_json)
    made = written(load(run), to, out, vectors_only=vectors_only, overwrite=overwrite)
    screen.say("score", made.score)
    for name, what in made.files.items():
        screen.say("file", f"{name}: {what}")
    for sentence in made.left_out:
        screen.warn(sentence)
    screen.say("saved", f"{out}")
    screen.result(
        {
            "run": str(run), "to": to, "out": str(out), "score": made.score, "files": made.files,
            "left_out": list(made.left_out),
        }
    )  # fmt: skip
