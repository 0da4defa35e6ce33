"""Options of the commands that ask a saved model: for whom, for what, and how many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli.options.places import folder_for_files, new_file
from sdgar.cli.options.sources import source
from sdgar.cli.options.training import number

_FILES = "Files of users"

Users = Annotated[list[str] | None, typer.Option("--user", help="Ask for this user; repeatable.")]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users",
        metavar="FILE",
        help="Ask for the users in this file: .txt with one a line, or a table with a column.",
    ),
]
Everyone = Annotated[bool, typer.Option("--all", help="Ask for all users of the model.")]
Sample = Annotated[
    int | None,
    typer.Option(
        "--sample",
        parser=number("--sample", int),
        metavar="N",
        help="Ask for so many users of the model, who are drawn at random and always the same.",
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="FIELD=VALUE",
        help="Set another field of the context, such as daypart=evening; repeatable.",
    ),
]
History = Annotated[
    list[str] | None,
    typer.Option("--history", help="Ask for a new user with these items, as a,b,c; repeatable."),
]
Histories = Annotated[
    list[Any] | None,
    typer.Option(
        "--histories",
        metavar="FILE",
        parser=source,
        help="Ask for the new users whose events this file has, as `sdgar train` reads them; "
        "repeatable.",
    ),
]
HowManyReasons = Annotated[
    int,
    typer.Option(
        "--reasons",
        parser=number("--reasons", int),
        metavar="INTEGER",
        help="Name so many items of the history for each item.",
    ),
]
Why = Annotated[
    bool, typer.Option("--why", help="Name the item of the history that speaks most for each.")
]
ItemsEach = Annotated[
    int,
    typer.Option(
        "-k",
        parser=number("-k", int),
        metavar="INTEGER",
        help="Recommend so many items to each user.",
    ),
]
HowMany = Annotated[
    int,
    typer.Option("-k", parser=number("-k", int), metavar="INTEGER", help="Show so many."),
]
Allow = Annotated[
    list[str] | None, typer.Option("--allow", help="Recommend only this item; repeatable.")
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", help="Do not recommend this item; repeatable.")
]
IncludeSeen = Annotated[
    bool, typer.Option("--include-seen", help="Recommend also items that the user has already.")
]
Fallback = Annotated[
    str,
    typer.Option(
        "--fallback",
        help="Choose what unknown users get: popular (the most popular items), skip or error.",
    ),
]
Marking = Annotated[
    str,
    typer.Option("--fallback", help="Choose what unknown ids get: mark, skip or error."),
]
AnswerFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        parser=new_file,
        metavar="FILE",
        help="Write the answer to this .csv, .tsv, .jsonl or .parquet file.",
    ),
]
PartsFolder = Annotated[
    Path | None,
    typer.Option(
        "--parts",
        parser=folder_for_files,
        metavar="FOLDER",
        help="Write the answer into this new folder, as one .parquet file for each worker.",
    ),
]
AnswerWorkers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        help="Make the lists for --parts by so many processes of this machine; for several "
        "machines, start the command with torchrun instead.",
    ),
]
AnswerMemory = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="BYTES",
        help="Use at most so much memory in each process, as 4GiB; a model that is too large to "
        "be read is mapped from its files.",
    ),
]
UserColumn = Annotated[
    str | None,
    typer.Option("--user-column", help="Name the column of users.", rich_help_panel=_FILES),
]
ItemColumn = Annotated[
    str | None,
    typer.Option("--item-column", help="Name the column of items.", rich_help_panel=_FILES),
]
TimeColumn = Annotated[
    str | None,
    typer.Option("--time-column", help="Name the column of times.", rich_help_panel=_FILES),
]
RatingColumn = Annotated[
    str | None,
    typer.Option("--rating-column", help="Name the column of ratings.", rich_help_panel=_FILES),
]
