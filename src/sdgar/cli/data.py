"""``sdgar data …``: look at data, prepare the paper's data sets, make data up, move a store."""

from __future__ import annotations

import typer

from sdgar.cli import data_files
from sdgar.cli.commands import LINES
from sdgar.cli.pages import Command, Commands, shown_as
from sdgar.lab.commands import data_sets
from sdgar.scale.commands import data_shards
from sdgar.serve.commands import data_store

data = typer.Typer(**shown_as(cls=Commands, add_completion=False, help=LINES["data"]))
data.command(cls=Command)(data_files.stats)
data.command(cls=Command)(data_files.split)
data.command(cls=Command)(data_shards.shard)
data.command(cls=Command)(data_shards.info)
data.command(cls=Command)(data_sets.prepare)
data.command(cls=Command)(data_sets.download)
data.command(cls=Command)(data_sets.synthetic)
data.command(cls=Command)(data_store.export)
data.command(cls=Command)(data_store.import_items)
data.command(cls=Command)(data_store.import_users)
data.command(cls=Command)(data_store.copy)
