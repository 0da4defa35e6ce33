"""Options that many commands have, and options that only one of two may be given of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from sdgar.cli.options.groups import As
from sdgar.cli.options.values import saved_folder, seed, source
from sdgar.errors import UsageError
from sdgar.settings import KS

PATH = "PATH"
"""The word for a file or a store in the help of an option."""
_DIGITS = 18
"""The most digits of a number that fits into 64 bits."""


def events(flag: str, help: str) -> Any:
    """Return an option that names files of events, or a store."""
    return typer.Option(flag, metavar=PATH, parser=source, help=help)


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object as the last line of stdout.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what exists.")]
Explain = Annotated[
    bool, typer.Option("--explain-metrics", help="Print below the table what each metric means.")
]
Seed = Annotated[
    int,
    typer.Option("--seed", parser=seed, metavar="INTEGER", help="The seed of all random numbers."),
]
Ks = Annotated[
    list[str] | None,
    typer.Option(
        "--k",
        metavar="INTEGER",
        help="Measure recommendations of this length; repeatable. Default "
        f"{','.join(map(str, KS))}.",
    ),
]
Files = Annotated[
    list[Any],
    typer.Argument(
        metavar="FILE",
        parser=source,
        help="Files of events, also at addresses such as s3://BUCKET/PATH, or a store: "
        "sqlite:///FILE.db, postgresql://…",
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", parser=saved_folder, help="The folder of a saved model.")
]


@dataclass(frozen=True, kw_only=True)
class ItemFeatureOptions:
    """A table of features of items."""

    panel: ClassVar[str] = "Features"

    item_features: Annotated[Path | None, As(metavar="TABLE")] = None
    """Read features of items from this table: the id, then columns of features, a|b for several.
    Items without events are recommended by them."""
    feature_kinds: Annotated[str | None, As(metavar="COLUMN=KIND,…")] = None
    """The kinds of columns of --item-features, as title=text,year=number: category, number, text or
    embedding."""

    def kinds(self) -> dict[str, str]:
        """Return the kind of each column of features that is named."""
        if self.feature_kinds is None:
            return {}
        if self.item_features is None:
            raise UsageError("--feature-kinds goes with --item-features.", code="unused_option")
        found = {}
        for pair in self.feature_kinds.split(","):
            column, equals, kind = pair.partition("=")
            if not column or not equals or not kind:
                raise UsageError(
                    f"--feature-kinds takes COLUMN=KIND, as title=text,year=number; got {pair!r}.",
                    code="bad_option",
                )
            found[column] = kind
        return found


@dataclass(frozen=True, kw_only=True)
class NameOptions:
    """A table with names of items."""

    panel: ClassVar[str] = "Names"

    names: Annotated[Path | None, As(metavar="TABLE")] = None
    """Show the names of items that this table has: the id, then the name."""
    name_column: Annotated[str | None, As(metavar="NAME")] = None
    """The column of names in --names, if it is not the second one."""

    def read(self) -> dict[str, str] | None:
        """Return the names of items; None without a table."""
        if self.names is None:
            if self.name_column is not None:
                raise UsageError("--name-column goes with --names TABLE.", code="unused_option")
            return None
        from sdgar.data.read_options import ReadOptions
        from sdgar.data.readers.tables import read_names

        return read_names(self.names, self.name_column, ReadOptions())


def lengths_of(texts: list[str] | None) -> tuple[int, ...]:
    """Parse the lengths of recommendations, each an integer of at least 1."""
    if not texts:
        return KS
    words = ",".join(texts).split(",")
    wrong = [w for w in words if not w.isdecimal() or len(w) > _DIGITS or int(w) < 1]
    if wrong:
        raise UsageError(
            f"--k takes integers of at least 1 and {_DIGITS} digits, got {wrong[0][:40]!r}.",
            code="bad_k",
        )
    return tuple(dict.fromkeys(map(int, words)))


def require_one_test(test: list[Any] | None, split: str | None) -> None:
    """Refuse test rows that are given and split off at the same time."""
    if test and split not in (None, "none"):
        raise UsageError(
            f"--split {split} splits test rows off, and --test gives some: leave one of them out.",
            code="split_and_test",
        )


def require_one_split(split: str | None, command: str, then: str) -> None:
    """Refuse a rule that gives several splits to a command that has one model."""
    from sdgar.data.splits import is_several

    if is_several(split):
        raise UsageError(
            f"--split {split} gives several folds, and {command} {then} one. Measure on all of "
            f"them with sdgar compare --split {split}, or use a split such as date:2024-03-01.",
            code="several_folds",
        )
