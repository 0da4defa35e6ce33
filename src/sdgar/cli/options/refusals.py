"""Options that contradict each other, or that nothing would look at, are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from sdgar.errors import UsageError
from sdgar.settings import METRIC

if TYPE_CHECKING:
    from sdgar.cli.console import Screen
    from sdgar.systems.base import Estimator

_LOOP = (
    "epochs", "early_stopping", "early_stopping__every", "early_stopping__patience",
)  # fmt: skip
"""Settings of the training loop, for which the paper's protocol has its own values."""


def given(context: typer.Context) -> dict[str, str]:
    """Return the options that were written out: for each parameter, the option's name."""
    return {
        str(p.name): p.opts[0] if p.opts[0].startswith("-") else "TRAIN"
        for p in context.command.params
        if (source := context.get_parameter_source(str(p.name))) and source.name == "COMMANDLINE"
    }


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


def require_heeded(
    said: Mapping[str, str],
    estimators: Sequence[Estimator],
    *,
    protocol: str = "validated",
    settings: Collection[str] = (),
    valid_is_searched: bool = False,
    metric_is_searched: bool = False,
) -> None:
    """Refuse options that nothing in the command would look at."""
    systems = ", ".join(estimator.system_name for estimator in estimators)
    looked_at = () if metric_is_searched else ("metric",)
    for name in ("engine", "device", "checkpoint_every", *looked_at):
        asked = {"checkpoint_every": "epochs", "metric": "early_stopping__metric"}.get(name, name)
        if name in said and not any(asked in one.get_params() for one in estimators):
            raise UsageError(
                f"{said[name]} has no meaning for {systems}, which is computed at once. Leave it "
                "out.",
                code="unused_option",
            )
    if protocol != "paper":
        return
    if "valid" in said and not valid_is_searched:
        raise UsageError(
            "--valid has no meaning with --protocol paper, which chooses its epoch on test rows. "
            "Leave one of them out.",
            code="unused_option",
        )
    if "metric" in said and not metric_is_searched:
        raise UsageError(
            f"--metric has no meaning with --protocol paper, which chooses its epoch by {METRIC}. "
            "Leave one of them out.",
            code="unused_option",
        )
    for key in settings:
        if key.rpartition(".")[2] in _LOOP:
            raise UsageError(
                f"--set {key} has no meaning with --protocol paper, which looks at test rows every "
                "5 epochs, 75 in all. Leave one of them out.",
                code="unused_option",
            )


def drawn_dislikes(dislikes: bool) -> dict[str, float]:
    """Return the setting that --dislikes stands for, for systems that have it."""
    from sdgar.samplers.dislikes import DISLIKES

    return {"sampler__dislikes": DISLIKES} if dislikes else {}


def require_draws(screen: Screen, dislikes: bool, estimators: Sequence[Estimator]) -> None:
    """Refuse dislikes if no system draws negatives, and name those that pass them over."""
    ignore = [one.system_name for one in estimators if "sampler__dislikes" not in one.get_params()]
    if dislikes and len(ignore) == len(estimators):
        raise UsageError(
            f"--dislikes has no meaning for {', '.join(ignore)}, which draws no negatives. Leave "
            "it out.",
            code="unused_option",
        )
    if dislikes and ignore:
        screen.say("note", f"{', '.join(ignore)} draw no negatives and ignore dislikes")
