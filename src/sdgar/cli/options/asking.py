"""Options of the commands that ask a saved model: for whom, for what, and how many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdgar.cli.options.places import new_file
from sdgar.cli.options.training import number

_FILES = "Files of users"

Users = Annotated[list[str] | None, typer.Option("--user", help="A user; repeatable.")]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users",
        metavar="FILE",
        help="A file of users: .txt with one a line, or a table with a column of users.",
    ),
]
Everyone = Annotated[bool, typer.Option("--all", help="All users of the model.")]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="FIELD=VALUE",
        help="Another field of the context, such as daypart=evening; repeatable.",
    ),
]
History = Annotated[
    list[str] | None,
    typer.Option("--history", help="A new user's items, as a,b,c; repeatable, one user each."),
]
Histories = Annotated[
    list[Path] | None,
    typer.Option(
        "--histories",
        metavar="FILE",
        help="Events of new users, read as `sdgar train` reads them; repeatable.",
    ),
]
ItemsEach = Annotated[
    int,
    typer.Option("-k", parser=number("-k", int), metavar="INTEGER", help="Items a user."),
]
HowMany = Annotated[
    int,
    typer.Option("-k", parser=number("-k", int), metavar="INTEGER", help="How many to show."),
]
Allow = Annotated[list[str] | None, typer.Option("--allow", help="Only these items; repeatable.")]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", help="Not these items; repeatable.")
]
IncludeSeen = Annotated[
    bool, typer.Option("--include-seen", help="Items the user has may come back.")
]
Fallback = Annotated[
    str,
    typer.Option(
        "--fallback",
        help="Users whom the model does not know get the popular items, or: skip, error.",
    ),
]
Marking = Annotated[
    str,
    typer.Option(
        "--fallback", help="Ids that the model does not know get a mark, or: skip, error."
    ),
]
AnswerFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        parser=new_file,
        metavar="FILE",
        help="Write .csv, .tsv, .jsonl or .parquet.",
    ),
]
UserColumn = Annotated[
    str | None, typer.Option("--user-column", help="Column of users.", rich_help_panel=_FILES)
]
ItemColumn = Annotated[
    str | None, typer.Option("--item-column", help="Column of items.", rich_help_panel=_FILES)
]
TimeColumn = Annotated[
    str | None, typer.Option("--time-column", help="Column of times.", rich_help_panel=_FILES)
]
RatingColumn = Annotated[
    str | None, typer.Option("--rating-column", help="Column of ratings.", rich_help_panel=_FILES)
]
