"""Options of commands that train: the system, its settings, and the rows that are held out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from sdgar.cli.options.groups import As
from sdgar.cli.options.shared import PATH, ItemFeatureOptions
from sdgar.cli.options.values import seed, source
from sdgar.errors import UsageError, unknown_name
from sdgar.parts import DISCRIMINATORS, OBJECTIVES, SAMPLERS
from sdgar.settings import METRIC
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from sdgar.cli.console import Screen
    from sdgar.systems.base import Estimator

DEFAULT_SYSTEM = "sdsoftmax"
"""The system that is trained if none is named."""
METRIC_SETTING = "early_stopping__metric"
"""The setting that --metric stands for."""
DISLIKES_SETTING = "sampler__dislikes"
"""The setting that --dislikes stands for."""
_LOOP = (
    "epochs", "early_stopping", "early_stopping__every", "early_stopping__patience",
)  # fmt: skip
"""Settings of the training loop, for which the paper's protocol has its own values."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What all commands that train have in common."""

    seed: Annotated[int, As(metavar="INTEGER", parse=seed)] = 0
    """The seed of all random numbers."""
    metric: Annotated[str | None, As(metavar="KIND@K")] = None
    """Choose by this metric, such as recall@20: precision, recall, ndcg, mrr, map or hit; default
    ndcg@50."""
    dislikes: bool = False
    """Train on dislikes too, as negatives: low ratings and weights, and kinds of events such as
    skip; --set sampler__dislikes=0.2 is how often they are drawn."""
    engine: str = "auto"
    """The engine that trains, or auto."""
    device: str = "auto"
    """The device that computes: auto, cpu or cuda."""

    def negatives(self) -> dict[str, float]:
        """Return the setting that --dislikes stands for."""
        from sdgar.samplers.dislikes import DISLIKES

        return {DISLIKES_SETTING: DISLIKES} if self.dislikes else {}

    def require_draws(self, screen: Screen, estimators: Sequence[Estimator]) -> None:
        """Refuse dislikes if no system draws negatives, and name systems that ignore them."""
        ignore = [
            recipe_of(one).name for one in estimators if DISLIKES_SETTING not in one.get_params()
        ]
        if self.dislikes and len(ignore) == len(estimators):
            raise UsageError(
                f"--dislikes has no meaning for {', '.join(ignore)}, which draws no negatives. "
                "Leave it out.",
                code="unused_option",
            )
        if self.dislikes and ignore:
            screen.say("note", f"{', '.join(ignore)} draw no negatives and ignore dislikes")


@dataclass(frozen=True, kw_only=True)
class SystemOptions:
    """The system to train."""

    system: Annotated[
        str,
        As(metavar="NAME", help=f"The system to train: {', '.join(SYSTEMS.homes)}."),
    ] = DEFAULT_SYSTEM
    """The system to train."""
    fast: bool = False
    """Train in seconds: the fast preset of the system; of sdsoftmax it is --system quick."""
    thorough: bool = False
    """Take more time for the last percent: the thorough preset of the system; of sdsoftmax it has
    D = 256, 16 epochs, and fewer positives that share their negatives."""
    settings: Annotated[list[str] | None, As("--set", "KEY=VALUE")] = None
    """Set a hyper-parameter; repeatable."""


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """The parts of a custom system."""

    panel: ClassVar[str] = "Parts of a custom system"

    discriminator: Annotated[
        str | None,
        As(metavar="PART", help=f"The part that scores items: {', '.join(DISCRIMINATORS)}."),
    ] = None
    """The part that scores items."""
    sampler: Annotated[
        str | None,
        As(metavar="PART", help=f"The part that proposes negatives: {', '.join(SAMPLERS)}."),
    ] = None
    """The part that proposes negatives."""
    objective: Annotated[
        str | None, As(metavar="PART", help=f"The loss: {', '.join(OBJECTIVES)}.")
    ] = None
    """The loss of the system."""

    def named(self) -> dict[str, str]:
        """Return the parts that were named."""
        every = {
            "discriminator": self.discriminator,
            "sampler": self.sampler,
            "objective": self.objective,
        }
        return {kind: name for kind, name in every.items() if name is not None}


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(ItemFeatureOptions):
    """Tables of features of items and of users."""

    user_features: Annotated[Path | None, As(metavar="TABLE")] = None
    """Read features of users from this table; only --discriminator two-tower uses them."""


@dataclass(frozen=True, kw_only=True)
class HeldOutOptions:
    """The rows that a model is measured on, and how it is chosen and saved."""

    test: Annotated[list[Any] | None, As(metavar=PATH, parse=source)] = None
    """Measure on these held-out events."""
    split: Annotated[str | None, As(metavar="RULE")] = None
    """Without --test, split rows off by: time (default with a time column), paper, leave-last-out,
    date:2024-03-01, users:0.1 (new users, folded in), none."""
    valid: Annotated[list[Any] | None, As(metavar=PATH, parse=source)] = None
    """Choose epochs on these validation events."""
    protocol: Annotated[str, As(metavar="validated|paper")] = "validated"
    """Choose epochs on validation rows (validated), or on test rows (paper)."""
    keep: Annotated[str | None, As(metavar="all|measured")] = None
    """Save the model that is trained on all rows after it is measured (all; the default where test
    rows are split off), or the measured one (measured)."""

    def kept_rows(self) -> str:
        """Return "all" if the saved model is trained on the test rows too, else "measured"."""
        choices = ("all", "measured")
        if self.keep not in (None, *choices):
            raise unknown_name("choice of --keep", str(self.keep), choices)
        split_off_here = not self.test and self.split != "none"
        if self.keep == "all" and not split_off_here:
            why = "--test names the test rows" if self.test else "--split none holds none out"
            raise UsageError(
                f"--keep all trains on the rows that were split off, and {why}. Leave it out.",
                code="bad_option",
            )
        usual = "all" if split_off_here and self.protocol != "paper" else "measured"
        return self.keep or usual


@dataclass(frozen=True, kw_only=True)
class ContinuationOptions:
    """A training that continues from an earlier model."""

    panel: ClassVar[str] = "Continue from an earlier model"

    earlier: Annotated[Path | None, As("--from", "RUN")] = None
    """Continue from this model, with its system and settings: a few epochs instead of all."""
    vanished: Annotated[str, As(metavar="keep|drop")] = "keep"
    """With --from, keep rows that RUN has and the files lack (keep), or drop them together with
    users and items that have no others (drop)."""
    replace_if: Annotated[str, As(metavar="always|better|not-worse")] = "always"
    """With --from, save the new model always, or only if it is better or not-worse than RUN on the
    newest rows; otherwise end with code 7 and change nothing."""


def settings_of(texts: list[str] | None, common: Collection[str]) -> dict[str, str]:
    """Parse KEY=VALUE pairs; a setting that has an option is refused."""
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


def require_heeded(
    given: Mapping[str, str],
    estimators: Sequence[Estimator],
    *,
    protocol: str = "validated",
    settings: Collection[str] = (),
    valid_is_searched: bool = False,
    metric_is_searched: bool = False,
) -> None:
    """Refuse options that nothing in the command uses."""
    systems = ", ".join(recipe_of(estimator).name for estimator in estimators)
    used = () if metric_is_searched else ("metric",)
    for name in ("engine", "device", "checkpoint_every", *used):
        setting = {"checkpoint_every": "epochs", "metric": METRIC_SETTING}.get(name, name)
        if name in given and not any(setting in one.get_params() for one in estimators):
            raise UsageError(
                f"{given[name]} has no meaning for {systems}, which is computed at once. Leave it "
                "out.",
                code="unused_option",
            )
    if protocol != "paper":
        return
    if "valid" in given and not valid_is_searched:
        raise UsageError(
            "--valid has no meaning with --protocol paper, which chooses its epoch on test rows. "
            "Leave one of them out.",
            code="unused_option",
        )
    if "metric" in given and not metric_is_searched:
        raise UsageError(
            f"--metric has no meaning with --protocol paper, which chooses its epoch by {METRIC}. "
            "Leave one of them out.",
            code="unused_option",
        )
    for key in settings:
        if key.rpartition(".")[2] in _LOOP:
            raise UsageError(
                f"--set {key} has no meaning with --protocol paper, which measures test rows every "
                "5 epochs, 75 in all. Leave one of them out.",
                code="unused_option",
            )
