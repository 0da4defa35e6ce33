"""The options of ``sdgar train``, and what they train: a system, or one that continues a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from sdgar.cli.options.option import Option, options_of
from sdgar.cli.options.shared import PATH, ItemFeatureOptions
from sdgar.cli.options.training import (
    DEFAULT_SYSTEM,
    METRIC_SETTING,
    TrainingOptions,
    settings_of,
)
from sdgar.cli.options.values import source
from sdgar.data.read_options import COUNTED, ReadOptions
from sdgar.errors import UsageError, unknown_name
from sdgar.parts import DISCRIMINATORS, OBJECTIVES, SAMPLERS
from sdgar.settings import CHECKPOINT_SECONDS, VANISHED
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of, spec_of

if TYPE_CHECKING:
    from sdgar.runs.job import Job
    from sdgar.systems.base import Estimator

WITH_RESUME = (
    "resume", "overwrite", "checkpoint_every", "explain_metrics", "verbose", "json", "workers",
)  # fmt: skip
"""Options that may be given when an interrupted run resumes."""
_WITH_FROM = ("vanished", "replace_if")
"""Options that mean something only with --from."""
_NOT_WITH_FROM = (
    "fast", "thorough", "discriminator", "sampler", "objective", "valid", "protocol",
)  # fmt: skip
"""Options that the earlier model has decided, or that a continuation does not use."""


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """The parts of a custom system."""

    panel: ClassVar[str] = "Parts of a custom system"

    discriminator: Annotated[
        str | None, Option(f"The part that scores items: {', '.join(DISCRIMINATORS)}.", "PART")
    ] = None
    """The part that scores items."""
    sampler: Annotated[
        str | None, Option(f"The part that proposes negatives: {', '.join(SAMPLERS)}.", "PART")
    ] = None
    """The part that proposes negatives."""
    objective: Annotated[str | None, Option(f"The loss: {', '.join(OBJECTIVES)}.", "PART")] = None
    """The loss of the system."""


@dataclass(frozen=True, kw_only=True)
class ContinuationOptions:
    """A training that continues from an earlier model."""

    panel: ClassVar[str] = "Continue from an earlier model"

    earlier: Annotated[Path | None, Option(metavar="RUN", flag="--from")] = None
    """Continue from this model, with its system and settings: a few epochs instead of all."""
    vanished: Annotated[str, Option(metavar="keep|drop")] = "keep"
    """With --from, keep rows that RUN has and the files lack (keep), or drop them together with
    users and items that have no others (drop)."""
    replace_if: Annotated[str, Option(metavar="always|better|not-worse")] = "always"
    """With --from, save the new model always, or only if it is better or not-worse than RUN on the
    newest rows; otherwise end with code 7 and change nothing."""


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(ItemFeatureOptions):
    """Tables of features of items and of users."""

    user_features: Annotated[Path | None, Option(metavar="TABLE")] = None
    """Read features of users from this table; only --discriminator two-tower uses them."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The system to train, the rows it is measured on, and the model that is saved."""

    system: Annotated[str, Option(f"The system to train: {', '.join(SYSTEMS.homes)}.", "NAME")] = (
        DEFAULT_SYSTEM
    )
    """The system to train."""
    fast: bool = False
    """Train in seconds: the fast preset of the system; of sdsoftmax it is --system quick."""
    thorough: bool = False
    """Take more time for the last percent: the thorough preset of the system; of sdsoftmax it has
    D = 256, 16 epochs, and fewer positives that share their negatives."""
    settings: Annotated[list[str] | None, Option(metavar="KEY=VALUE", flag="--set")] = None
    """Set a hyper-parameter; repeatable."""
    test: Annotated[list[Any] | None, Option(metavar=PATH, parse=source)] = None
    """Measure on these held-out events."""
    split: Annotated[str | None, Option(metavar="RULE")] = None
    """Without --test, split rows off by: time (default with a time column), paper, leave-last-out,
    date:2024-03-01, users:0.1 (new users, folded in), none."""
    valid: Annotated[list[Any] | None, Option(metavar=PATH, parse=source)] = None
    """Choose epochs on these validation events."""
    protocol: Annotated[str, Option(metavar="validated|paper")] = "validated"
    """Choose epochs on validation rows (validated), or on test rows (paper)."""
    keep: Annotated[str | None, Option(metavar="all|measured")] = None
    """Save the model that is trained on all rows after it is measured (all; the default where test
    rows are split off), or the measured one (measured)."""
    checkpoint_every: Annotated[float, Option(metavar="SECONDS")] = CHECKPOINT_SECONDS
    """Write a checkpoint every so many seconds; 0 writes one each epoch."""

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
class TrainOptions(FeatureOptions, PartOptions, ContinuationOptions, TrainingOptions, RunOptions):
    """The options of a training on files of events."""

    def estimator(self, given: Mapping[str, str]) -> tuple[Estimator, dict[str, str]]:
        """Return the system to train, and the settings that --set or a preset gave."""
        if self.earlier is not None:
            return self._continued(self.earlier, given)
        from sdgar.systems.make import estimator_from_text

        for name in _WITH_FROM:
            if name in given:
                raise UsageError(
                    f"{given[name]} has a meaning only with --from RUN, the model that training "
                    "continues from.",
                    code="unused_option",
                )
        name, parts = self._name_and_parts(given)
        name, preset = self._preset(name)
        own = {**preset, **self._settings(parts)}
        return estimator_from_text(name, own, common={**self._common(), **parts}), own

    def _name_and_parts(self, given: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Return the system to train and its parts; parts alone mean ``composed``."""
        named = {kind: getattr(self, kind) for kind in ("discriminator", "sampler", "objective")}
        parts = {kind: part for kind, part in named.items() if part is not None}
        said = ", ".join(f"--{kind}" for kind in parts)
        if self.fast and self.thorough:
            raise _two("--fast and --thorough are two presets")
        if parts and (self.fast or self.thorough):
            raise _two(f"{said} composes a system, which has no presets")
        if parts and self.system != "composed" and "system" in given:
            raise UsageError(
                f"--system {self.system} has its own parts. Leave it out to compose a system of "
                f"{said}.",
                code="system_and_parts",
            )
        return "composed" if parts else self.system, parts

    def _preset(self, name: str) -> tuple[str, dict[str, str]]:
        """Return the system of --fast or --thorough, and its settings that are not the default."""
        if name not in SYSTEMS or not (self.fast or self.thorough):
            return name, {}
        preset = SYSTEMS[name].fast() if self.fast else SYSTEMS[name].thorough()
        usual = recipe_of(type(preset)()).settings
        chosen = {k: str(v) for k, v in recipe_of(preset).settings.items() if v != usual.get(k)}
        return spec_of(preset).name, chosen

    def _continued(
        self, earlier: Path, given: Mapping[str, str]
    ) -> tuple[Estimator, dict[str, str]]:
        """Return the system of an earlier model, with its settings except those given."""
        from sdgar.arguments import one_of
        from sdgar.recommend.artifact import read_manifest
        from sdgar.runs.succession import require_condition, require_rule
        from sdgar.systems.make import estimator_like

        about = read_manifest(earlier)["about"]
        for name in _NOT_WITH_FROM:
            if name in given:
                raise UsageError(
                    "--from takes the system and its settings from RUN, and chooses no epochs: "
                    f"leave {given[name]} out. --set changes a setting.",
                    code="unused_option",
                )
        if "system" in given and self.system != about.get("system"):
            raise _two(
                f"--from continues with the system of RUN, which is {about.get('system')}, and "
                f"--system is {self.system}"
            )
        require_rule(self.split)
        require_condition(self.replace_if, measures=bool(self.test) or self.split != "none")
        one_of("--vanished", self.vanished, VANISHED)
        common = {
            name: value
            for name, value in self._common().items()
            if name in given or name not in ("seed", "engine", "device")
        }
        own = self._settings(())
        estimator = estimator_like(about, own, common=common)
        recipe_of(estimator).require_warm_start()
        return estimator, own

    def _common(self) -> dict[str, Any]:
        """Return the settings that have options, as far as these were written out or matter."""
        metric = {} if self.metric is None else {METRIC_SETTING: self.metric}
        return {"seed": self.seed, **self.common(), **metric}

    def _settings(self, parts: Collection[str]) -> dict[str, str]:
        return settings_of(self.settings, {*self._common(), METRIC_SETTING, *parts})


def _two(what: str) -> UsageError:
    return UsageError(f"{what}. Leave one of them out.", code="two_systems")


def read_as_before(
    reading: ReadOptions, earlier: Path | None, given: Mapping[str, str]
) -> tuple[ReadOptions, str | None]:
    """Return options that count rows as for an earlier model, unless others are given.

    Also return what was taken from there, in words.
    """
    if earlier is None:
        return reading, None
    from sdgar.recommend.artifact import read_manifest

    before = read_manifest(earlier)["about"].get("counted", {})
    options = {one.source: one for one in options_of(ReadOptions)}
    kept: dict[str, Any] = {
        name: tuple(before[name]) if isinstance(before[name], list) else before[name]
        for name in COUNTED
        if name in before and options[name].name not in given
    }
    if not kept:
        return reading, None
    flags = ", ".join(options[name].flag for name in kept)
    return replace(reading, **kept), f"rows count as for the earlier model ({flags})"


def interrupted_job(out: Path, given: Mapping[str, str]) -> Job:
    """Read the job of an interrupted run, of which nothing can be changed."""
    from sdgar.runs.job import interrupted

    extra = [word for name, word in given.items() if name not in WITH_RESUME]
    if extra:
        raise UsageError(
            f"--resume takes everything from the interrupted run; leave out {', '.join(extra)}. "
            "To train with other data or settings, start a new run.",
            code="resume_with_more",
        )
    return interrupted(out)
