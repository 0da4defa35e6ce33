"""Options of all commands that train: the seed, the metric, the engine, and settings by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from sdgar.cli.options.option import Option
from sdgar.errors import UsageError
from sdgar.settings import METRIC
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

    seed: int = 0
    """The seed of all random numbers."""
    metric: Annotated[str | None, Option(metavar="KIND@K")] = None
    """Choose by this metric, such as recall@20: precision, recall, ndcg, mrr, map or hit; default
    ndcg@50."""
    dislikes: bool = False
    """Train on dislikes too, as negatives: low ratings and weights, and kinds of events such as
    skip; --set sampler__dislikes=0.2 is how often they are drawn."""
    engine: str = "auto"
    """The engine that trains, or auto."""
    device: str = "auto"
    """The device that computes: auto, cpu or cuda."""

    def common(self) -> dict[str, float | str]:
        """Return the settings that --engine, --device and --dislikes stand for."""
        common: dict[str, float | str] = {"engine": self.engine, "device": self.device}
        if self.dislikes:
            from sdgar.samplers.dislikes import DISLIKES

            common[DISLIKES_SETTING] = DISLIKES
        return common

    def check(
        self,
        screen: Screen,
        given: Mapping[str, str],
        estimators: Sequence[Estimator],
        *,
        protocol: str = "validated",
        settings: Collection[str] = (),
        valid_is_searched: bool = False,
        metric_is_searched: bool = False,
    ) -> None:
        """Refuse wrong metrics, and options that nothing in the command uses.

        Systems that ignore dislikes while others use them are named.
        """
        if self.metric is not None:
            from sdgar.evaluation.measures import check_metric

            check_metric(self.metric)
        systems = ", ".join(recipe_of(estimator).name for estimator in estimators)
        used = () if metric_is_searched else ("metric",)
        for name in ("engine", "device", "checkpoint_every", *used):
            setting = {"checkpoint_every": "epochs", "metric": METRIC_SETTING}.get(name, name)
            if name in given and not any(setting in one.get_params() for one in estimators):
                raise _unused(given[name], f"{systems}, which is computed at once")
        ignore = [
            recipe_of(one).name for one in estimators if DISLIKES_SETTING not in one.get_params()
        ]
        if self.dislikes and len(ignore) == len(estimators):
            raise _unused("--dislikes", f"{systems}, which draws no negatives")
        if self.dislikes and ignore:
            screen.say("note", f"{', '.join(ignore)} draw no negatives and ignore dislikes")
        if protocol != "paper":
            return
        paper = "--protocol paper, which"
        if "valid" in given and not valid_is_searched:
            raise _unused("--valid", f"{paper} chooses its epoch on test rows")
        if "metric" in given and not metric_is_searched:
            raise _unused("--metric", f"{paper} chooses its epoch by {METRIC}")
        for key in settings:
            if key.rpartition(".")[2] in _LOOP:
                said = f"{paper} measures test rows every 5 epochs, 75 in all"
                raise _unused(f"--set {key}", said)


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


def _unused(option: str, what: str) -> UsageError:
    return UsageError(f"{option} has no meaning for {what}. Leave it out.", code="unused_option")
