"""``sdgar data …``: look at data, prepare the paper's data sets, make data up."""

from __future__ import annotations

import typer

from sdgar.cli import data_files, data_sets

app = typer.Typer(no_args_is_help=True, help="Look at data, prepare it, make it up.")
app.command()(data_files.stats)
app.command()(data_files.split)
app.command()(data_sets.prepare)
app.command()(data_sets.download)
app.command()(data_sets.synthetic)
