"""What ``sdgar train`` trains: a named system, that of an earlier model, or an interrupted run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.options.training import (
    METRIC_SETTING,
    ContinuationOptions,
    HeldOutOptions,
    PartOptions,
    SystemOptions,
    TrainingOptions,
    settings_of,
)
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError
from sdgar.settings import VANISHED
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of

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
class SystemChoice:
    """Options from which the system to train is made."""

    system: SystemOptions
    """The options of the system."""
    parts: PartOptions
    """The options of its parts."""
    training: TrainingOptions
    """The options of the training."""
    held_out: HeldOutOptions
    """The options of held-out rows."""
    continuation: ContinuationOptions
    """The options of an earlier model."""
    given: Mapping[str, str]
    """The options that were written out."""

    def estimator(self) -> tuple[Estimator, dict[str, str]]:
        """Return the system, and the settings that --set gave."""
        if self.continuation.earlier is not None:
            return self._continued()
        from sdgar.systems.make import make

        for name in _WITH_FROM:
            if name in self.given:
                raise UsageError(
                    f"{self.given[name]} has a meaning only with --from RUN, the model that "
                    "training continues from.",
                    code="unused_option",
                )
        name, parts = self._name_and_parts()
        name, preset = self._preset(name)
        own = {**preset, **self._settings(parts)}
        training = self.training
        common = {"seed": training.seed, "engine": training.engine, "device": training.device}
        return make(name, own, common={**common, **parts, **self._wishes()}), own

    def _name_and_parts(self) -> tuple[str, dict[str, str]]:
        """Return the system to train and its parts; parts alone mean ``composed``."""
        name, parts = self.system.system, self.parts.named()
        if self.system.fast and self.system.thorough:
            raise UsageError(
                "--fast and --thorough are two presets. Leave one of them out.", code="two_systems"
            )
        if parts and (self.system.fast or self.system.thorough):
            raise UsageError(
                f"--{next(iter(parts))} composes a system, which has no presets. Leave one of them "
                "out.",
                code="two_systems",
            )
        if not parts or name == "composed":
            return name, parts
        if "system" in self.given:
            raise UsageError(
                f"--system {name} has its own parts. Leave it out to compose a system of "
                f"{', '.join('--' + kind for kind in parts)}.",
                code="system_and_parts",
            )
        return "composed", parts

    def _preset(self, name: str) -> tuple[str, dict[str, str]]:
        """Return the system of --fast or --thorough, and its settings that are not the default."""
        from sdgar.systems.recipe import recipe_of, spec_of

        if name not in SYSTEMS or not (self.system.fast or self.system.thorough):
            return name, {}
        kind = SYSTEMS[name]
        preset = kind.fast() if self.system.fast else kind.thorough()
        usual = recipe_of(type(preset)()).settings
        chosen = {k: str(v) for k, v in recipe_of(preset).settings.items() if v != usual.get(k)}
        return spec_of(preset).name, chosen

    def _continued(self) -> tuple[Estimator, dict[str, str]]:
        """Return the system of an earlier model, with its settings except those given."""
        from sdgar.arguments import one_of
        from sdgar.recommend.manifest import read_manifest
        from sdgar.runs.succession import require_condition, require_rule
        from sdgar.systems.make import make_like

        assert self.continuation.earlier is not None
        about, held_out = read_manifest(self.continuation.earlier)["about"], self.held_out
        self._require_as_before(about.get("system"))
        require_rule(held_out.split)
        measures = bool(held_out.test) or held_out.split != "none"
        require_condition(self.continuation.replace_if, measures=measures)
        one_of("--vanished", self.continuation.vanished, VANISHED)
        common = {
            name: getattr(self.training, name)
            for name in ("seed", "engine", "device")
            if name in self.given
        }
        own = self._settings({})
        estimator = make_like(about, own, common={**common, **self._wishes()})
        recipe_of(estimator).require_warm_start()
        return estimator, own

    def _require_as_before(self, before: object) -> None:
        """Refuse what the earlier model has decided, and another system than its own."""
        for name in _NOT_WITH_FROM:
            if name in self.given:
                raise UsageError(
                    "--from takes the system and its settings from RUN, and chooses no epochs: "
                    f"leave {self.given[name]} out. --set changes a setting.",
                    code="unused_option",
                )
        if "system" in self.given and self.system.system != before:
            raise UsageError(
                f"--from continues with the system of RUN, which is {before}, and --system is "
                f"{self.system.system}. Leave one of them out.",
                code="two_systems",
            )

    def _wishes(self) -> dict[str, Any]:
        """Return the settings that --dislikes and --metric stand for."""
        metric = {} if self.training.metric is None else {METRIC_SETTING: self.training.metric}
        return {**self.training.negatives(), **metric}

    def _settings(self, parts: Collection[str]) -> dict[str, str]:
        taken = {"seed", "engine", "device", METRIC_SETTING, *parts, *self._wishes()}
        return settings_of(self.system.settings, taken)


def read_as_before(
    reading: ReadOptions, earlier: Path | None, given: Mapping[str, str]
) -> tuple[ReadOptions, str | None]:
    """Return options that count rows as for an earlier model, unless others are given.

    Also return what was taken from there, in words.
    """
    if earlier is None:
        return reading, None
    from sdgar.cli.options.groups import options_of
    from sdgar.data.read_options import COUNTED
    from sdgar.recommend.manifest import read_manifest

    before = read_manifest(earlier)["about"].get("counted", {})
    options = {one.field: one for one in options_of(ReadOptions)}
    kept: dict[str, Any] = {
        name: tuple(before[name]) if isinstance(before[name], list) else before[name]
        for name in COUNTED
        if name in before and options[name].parameter not in given
    }
    if not kept:
        return reading, None
    words = " ".join(f"{options[name].flag} {_word(value)}" for name, value in kept.items())
    return replace(reading, **kept), f"rows count as for the earlier model ({words})"


def _word(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


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
