"""Options that several commands share: what is trained, how, and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli.options.places import run_folder, saved_folder
from sdgar.cli.options.sources import PATH, source
from sdgar.errors import UsageError, unknown_name
from sdgar.settings import KS, METRIC

DEFAULT_SYSTEM = "sdsoftmax"
"""The system that is trained if none is named."""
THOROUGH = {
    "dim": "256", "epochs": "16", "sampler__positives_per_visit": "2", "batch_size": "2048",
    "sampler__refit_every": "4", "sampler__samples": "64",
}  # fmt: skip
"""The settings of --thorough."""
_MOST_SEEDS = 10_000
_DIGITS = 18
"""The most digits of a number that fits into 64 bits."""

Fast = Annotated[
    bool,
    typer.Option("--fast", help="Train in seconds: short for --system quick."),
]
Thorough = Annotated[
    bool,
    typer.Option(
        "--thorough",
        help="Take more time for the last percent: sdsoftmax with D = 256, 16 epochs, and fewer "
        "positives that share their negatives.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        parser=lambda text: _seed(text),
        metavar="INTEGER",
        help="Fix everything that is drawn.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object as the last line of stdout.")
]
Ks = Annotated[
    list[str] | None,
    typer.Option(
        "--k", help=f"Measure lists of this length; repeatable. Default {','.join(map(str, KS))}."
    ),
]
_TRAIN: Any = typer.Argument(
    metavar="TRAIN…",
    parser=source,
    help="Train on these files of events, or on a store: sqlite:///FILE.db, postgresql://…",
)
Train = Annotated[list[Any], _TRAIN]
MaybeTrain = Annotated[list[Any] | None, _TRAIN]
Test = Annotated[
    list[Any] | None,
    typer.Option("--test", metavar=PATH, parser=source, help="Measure on these held-out events."),
]
Valid = Annotated[
    list[Any] | None,
    typer.Option(
        "--valid", metavar=PATH, parser=source, help="Choose epochs on these validation events."
    ),
]
Protocol = Annotated[
    str,
    typer.Option(
        "--protocol", help="Choose epochs on validation rows (validated), or on test (paper)."
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="RULE",
        help="Without --test, split rows off by: time (default with a time column), paper, "
        "leave-last-out, "
        "date:2024-03-01, users:0.1 (new users, folded in), none.",
    ),
]
Folds = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="RULE",
        help="Without --test, split rows off by: time (default with a time column), paper, "
        "leave-last-out, "
        "date:2024-03-01, users:0.1 (new users, folded in), or several folds: windows:7d:3 (three "
        "windows of 7 days), folds:5.",
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="Name the engine that trains, or auto.")]
Device = Annotated[str, typer.Option("--device", help="Compute on auto, cpu or cuda.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a hyper-parameter; repeatable."),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="KIND@K",
        help="Choose by this metric, such as recall@20: precision, recall, ndcg, mrr, map or hit; "
        f"default {METRIC}.",
    ),
]
Dislikes = Annotated[
    bool,
    typer.Option(
        "--dislikes",
        help="Learn from dislikes too, as negatives: from low ratings and weights, and from kinds "
        "of events such as skip; --set sampler__dislikes=0.2 says how often they are drawn.",
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain-metrics", help="Say below the table what each metric means.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", help="Show with every look how the generator is; log.jsonl always has it."
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="WHICH",
        help="Save the model that is trained on all rows after the measurement (all; the default "
        "where test rows are split off), or the measured one (measured).",
    ),
]
RunPlace = Annotated[
    Path | None,
    typer.Option("--out", parser=run_folder, metavar="RUN", help="Save the model here."),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        parser=run_folder,
        metavar="RUN",
        help="Go on with the interrupted run of this --out.",
    ),
]
CheckpointEvery = Annotated[
    float,
    typer.Option(
        "--checkpoint-every",
        parser=lambda text: number("--checkpoint-every", float)(text),
        metavar="SECONDS",
        help="Write a checkpoint every so many seconds; 0 writes one each epoch.",
    ),
]
MaybeRunFolder = Annotated[
    Path | None,
    typer.Argument(
        metavar="RUN",
        parser=saved_folder,
        show_default=False,
        help="Name the folder of a saved model.",
    ),
]
RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", parser=saved_folder, help="Name the folder of a saved model."),
]


def kept_rows(keep: str | None, test: list[Any] | None, split: str | None, protocol: str) -> str:
    """Choose what --keep means: all rows if test rows are split off here, else the measured model.

    The answer is "all" or "measured".
    """
    choices = ("all", "measured")
    if keep not in (None, *choices):
        raise unknown_name("choice of --keep", str(keep), choices)
    split_off_here = not test and split != "none"
    if keep == "all" and not split_off_here:
        why = "--test names the test rows" if test else "--split none holds none out"
        raise UsageError(
            f"--keep all trains on the rows that were split off, and {why}. Leave it out.",
            code="bad_option",
        )
    return keep or ("all" if split_off_here and protocol != "paper" else "measured")


def seeds_of(first: int, n: int) -> tuple[int, ...]:
    """Return n seeds, from ``first`` upwards."""
    if not 1 <= n <= _MOST_SEEDS:
        raise UsageError(
            f"--seeds must be at least 1, got {n}."
            if n < 1
            else f"--seeds must be at most {_MOST_SEEDS:,}, got {n:,}.",
            code="no_seeds",
        )
    return tuple(range(first, first + n))


def settings_of(texts: list[str] | None, common: Collection[str]) -> dict[str, str]:
    """Read KEY=VALUE pairs; a setting that has an option of its own is refused."""
    settings = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--set takes KEY=VALUE, got {text!r}.", code="bad_setting")
        name = key.rpartition(".")[2]
        if name in common:
            option = name.rpartition("__")[2]
            raise UsageError(f"use --{option} rather than --set {key}=…", code="bad_setting")
        settings[key] = value
    return settings


def lists_of(texts: list[str] | None) -> tuple[int, ...]:
    """Read the lengths of the lists, each an integer of at least 1."""
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


def number(option: str, kind: type[int] | type[float]) -> Callable[[str | float], Any]:
    """Make the function that reads the number of an option, and names a text that is none."""
    what = "an integer" if kind is int else "a number"

    def parse(text: str | float) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise UsageError(
                f"{option} must be {what}, got {str(text)[:40]!r}.", code="bad_number"
            ) from None

    return parse


def _seed(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"seed must be an integer from 0 to 2^64 - 1, got {text!r}.", code="bad_seed"
        ) from None


def effort_of(system: str, given: Collection[str], *, fast: bool, thorough: bool) -> str:
    """Return the system to train with --fast or --thorough; raise if another one is named too."""
    if not (fast or thorough):
        return system
    flag = "--fast" if fast else "--thorough"
    others = {"system": "--system", "discriminator": "--discriminator", "sampler": "--sampler"}
    others |= {"objective": "--objective"} | ({"thorough": "--thorough"} if fast else {})
    for name, word in others.items():
        if name in given:
            raise UsageError(
                f"{flag} says what is trained, and so does {word}. Leave one of them out.",
                code="two_systems",
            )
    return "quick" if fast else DEFAULT_SYSTEM
