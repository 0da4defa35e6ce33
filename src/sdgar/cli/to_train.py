"""The system that ``sdgar train`` trains: by name, of an earlier model, or of a run to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli import options
from sdgar.errors import UsageError
from sdgar.scale.commands.workers import started_again
from sdgar.settings import VANISHED

if TYPE_CHECKING:
    from sdgar.runs.job import Job
    from sdgar.systems.base import Estimator

_WITH_RESUME = (
    "resume", "overwrite", "checkpoint_every", "explain", "verbose", "as_json", "workers", "items",
)  # fmt: skip
"""Parameters that may be given anew when an interrupted run goes on."""


def system_to_train(
    said: Mapping[str, Any], given: Mapping[str, str]
) -> tuple[Estimator, dict[str, str]]:
    """Make the system, and return it with the settings that --set gave.

    ``said`` are all parameters of the command, and ``given`` those that were written out.
    """
    common = {name: said[name] for name in ("seed", "engine", "device")}
    if said["earlier"] is not None:
        return _as_before(said, given, options.shared(given, **common))
    from sdgar.systems.make import make

    options.require_from(given)
    thorough = said["thorough"]
    system = options.effort_of(said["system"], given, fast=said["fast"], thorough=thorough)
    system, parts = options.composed_of(
        system,
        is_named="system" in given,
        **{name: said[name] for name in ("discriminator", "sampler", "objective")},
    )
    own = {**(options.THOROUGH if thorough else {}), **_own(said, parts)}
    return make(system, own, common={**common, **parts, **_wishes(said)}), own


def _as_before(
    said: Mapping[str, Any], given: Mapping[str, str], common: dict[str, Any]
) -> tuple[Estimator, dict[str, str]]:
    """Make the system of an earlier model, with the settings that it had but for those given."""
    from sdgar.arguments import one_of
    from sdgar.recommend.manifest import read_manifest
    from sdgar.runs.succession import require_condition, require_rule
    from sdgar.systems.make import make_like

    about, split = read_manifest(said["earlier"])["about"], said["split"]
    options.require_further(given, said["system"], about.get("system"))
    require_rule(split)
    require_condition(said["replace_if"], measures=bool(said["test"]) or split != "none")
    one_of("--vanished", said["vanished"], VANISHED)
    own = _own(said, {})
    estimator = make_like(about, own, common={**common, **_wishes(said)})
    estimator.require_goes_on()
    return estimator, own


def counted_as_before(
    reading: options.Reading, earlier: Path | None, given: Mapping[str, str]
) -> tuple[options.Reading, str | None]:
    """Let the rows count that counted for an earlier model, where nothing else is said now.

    Also return what was taken from there, in words.
    """
    if earlier is None:
        return reading, None
    from sdgar.data.read_options import COUNTED
    from sdgar.recommend.manifest import read_manifest

    before = read_manifest(earlier)["about"].get("counted", {})
    kept = {name: before[name] for name in COUNTED if name in before and name not in given}
    kept = {name: tuple(v) if isinstance(v, list) else v for name, v in kept.items()}
    if not kept:
        return reading, None
    columns = ("weight", "rating", "kind")
    flags = (
        (f"--{name}-column" if name in columns else f"--{name.replace('_', '-')}", value)
        for name, value in kept.items()
    )
    said = " ".join(f"{flag} {_word(value)}" for flag, value in flags)
    return replace(reading, **kept), f"rows count as for the earlier model ({said})"


def _word(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _wishes(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that --dislikes and --metric stand for."""
    metric = {} if said["metric"] is None else {"early_stopping__metric": said["metric"]}
    return {**options.drawn_dislikes(said["dislikes"]), **metric}


def _own(said: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, str]:
    taken = {"seed", "engine", "device", "early_stopping__metric", *parts, *_wishes(said)}
    return options.settings_of(said["settings"], taken)


def to_go_on_with(
    resume: Path | None, out: Path | None, given: dict[str, str]
) -> tuple[Path | None, dict[str, str]]:
    """Return the run to go on with, if there is one, and the words that may be said of it.

    Workers that torchrun has started again go on with the run that they had begun.
    """
    from sdgar.runs.workspace import partial_of

    if out is None or not started_again() or not partial_of(out).exists():
        return resume, given
    return out, {name: word for name, word in given.items() if name in _WITH_RESUME}


def interrupted_job(out: Path, given: Mapping[str, str]) -> Job:
    """Read what an interrupted run was told to do; nothing of it can be told anew."""
    from sdgar.runs.job import interrupted

    extra = [word for name, word in given.items() if name not in _WITH_RESUME]
    if extra:
        raise UsageError(
            f"--resume takes everything from the interrupted run; leave out {', '.join(extra)}. "
            "To train with other data or settings, start a new run.",
            code="resume_with_more",
        )
    return interrupted(out)
