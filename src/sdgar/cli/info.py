"""``sdgar info``: what a saved model is, or how far an unfinished run has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdgar.cli.console import Screen
from sdgar.cli.options.shared import Json, RunFolder
from sdgar.settings import METRIC

_PARTIAL = ".partial"


def info(run: RunFolder, as_json: Json = False) -> None:
    """Describe a saved model, after verifying its files.

    RUN.partial, or RUN while there is no model in it yet, is an unfinished run: how far it has
    come, and how to resume it.
    """
    from sdgar.recommend.facts import facts_of
    from sdgar.recommend.recommender import load
    from sdgar.runs.workspace import partial_of, unfinished

    screen = Screen(as_json=as_json)
    if run.name.endswith(_PARTIAL) and run.name != _PARTIAL:
        found = unfinished(run.with_name(run.name.removesuffix(_PARTIAL)))
    elif not run.exists() and partial_of(run).is_dir():
        found = unfinished(run)
    else:
        found = facts_of(run, load(run))
    show = _print_saved if found["finished"] else _print_unfinished
    show(screen, found)
    screen.result(found)


def _print_saved(screen: Screen, found: Mapping[str, Any]) -> None:
    data = found["data"]
    screen.say("model", f"{found['run']}: {found['system']}, {found['bytes'] / 1e6:,.1f} MB, whole")
    screen.say("options", _listed(found["settings"]) or "none")
    screen.say(
        "data",
        f"{data['users']:,} {_contexts(data['context'])} · {data['items']:,} items · "
        f"{data['interactions']:,} interactions · fingerprint {str(data['fingerprint'])[:16]}",
    )
    screen.say("made", f"{found['written']} by {found['created_by']}")
    if found["engine"] is not None:
        screen.say(
            "trained",
            f"{found['best_epoch']} epochs · {found['seconds']} s · engine {found['engine']} · "
            f"protocol {found['protocol']}",
        )
    if found["further"]:
        said = f"from {found['further'].get('from')}, {found['further'].get('times')} times since"
        screen.say("continued", f"{said} it was trained from scratch")
    if found["test"]:
        main = _longest(found["test"])
        screen.say(
            "test",
            f"{main} {_rounded(found['test'][main])}, most popular "
            f"{_rounded(found['most_popular'].get(main))}",
        )
        screen.say("", str(found["definition"]), style="dim")
    else:
        screen.say("test", "not measured: there were no test rows")
    if found["generator"]:
        screen.say("sampler", _listed(found["generator"]))
    able = [
        f"{name.replace('_', ' ')} {'yes' if can else 'no'}" for name, can in found["can"].items()
    ]
    screen.say("can", " · ".join(able))


def _print_unfinished(screen: Screen, found: Mapping[str, Any]) -> None:
    screen.say("run", f"{found['run']}: {found['system']}, unfinished, by {found['created_by']}")
    screen.say("options", _listed(found["settings"]) or "the ones of the program that started it")
    screen.say("so far", _so_far(found))
    kept = ", ".join(found["checkpoints"])
    screen.say("kept", kept or "no checkpoint yet: the run would start again")
    screen.say("next", found["resume"] or "resume it as it was started, with resume=True")


def _so_far(found: Mapping[str, Any]) -> str:
    if not found["epoch"]:
        return "no epoch is over"
    metric = found["settings"].get("early_stopping__metric", METRIC)
    best = "" if found["best"] is None else f", best {metric} {_rounded(found['best'])}"
    return (
        f"epoch {found['epoch']} of pass {found['phase']!r}, loss {_rounded(found['loss'])}{best}"
    )


def _contexts(names: list[str]) -> str:
    return "users" if names == ["user"] else f"contexts ({', '.join(names)})"


def _longest(metrics: Mapping[str, Any]) -> str:
    """Name the NDCG of the longest lists, which every report leads with."""
    return max(
        (name for name in metrics if name.startswith("ndcg@")),
        key=lambda name: int(name.partition("@")[2]),
        default=next(iter(metrics)),
    )


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_rounded(value)}" for name, value in values.items())


def _rounded(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
