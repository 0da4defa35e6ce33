"""``sdgar info``: what a saved model is, or how far an unfinished run has come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.show.printed import command

if TYPE_CHECKING:
    pass

_PARTIAL = ".partial"


def info(run: options.RunFolder, as_json: options.Json = False) -> None:
    """Say what a saved model is, after verifying its files.

    RUN.partial, or RUN while there is no model in it yet, is an unfinished run: how far it has
    come, and how to go on with it.
    """
    from sdgar.experiments.workspace import partial_of

    screen = Screen(as_json=as_json)
    if run.name.endswith(_PARTIAL) and run.name != _PARTIAL:
        _unfinished(screen, run.with_name(run.name.removesuffix(_PARTIAL)))
    elif not run.exists() and partial_of(run).is_dir():
        _unfinished(screen, run)
    else:
        _saved(screen, run)


def _saved(screen: Screen, run: Path) -> None:
    from sdgar.recommend.manifest import read_manifest
    from sdgar.recommend.recommender import load

    model = load(run)
    manifest = read_manifest(run)
    about, sizes = model.about, manifest["sizes"]
    report = _table(about.get("report"))
    found: dict[str, Any] = {
        "run": str(run),
        "finished": True,
        "system": about.get("system"),
        "settings": _table(about.get("hyper_parameters")) | _table(about.get("decided")),
        "data": {
            **{name: sizes[name] for name in ("users", "items", "interactions")},
            "context": about.get("context", ["user"]),
            "rows": _table(about.get("data")).get("rows"),
            "fingerprint": _table(about.get("data")).get("fingerprint"),
        },
        "created_by": about.get("created_by"),
        "written": _written(run / "manifest.json"),
        "engine": report.get("engine"),
        "best_epoch": report.get("best_epoch"),
        "seconds": _table(report.get("seconds")).get("total"),
        "protocol": report.get("protocol"),
        "test": _table(report.get("test")),
        "most_popular": _table(report.get("most_popular")),
        "definition": report.get("definition"),
        "generator": _table(report.get("generator")),
        "bytes": sum(file.stat().st_size for file in run.iterdir() if file.is_file()),
        "can": model.abilities,
    }
    _show(screen, found)
    screen.result(found)


def _show(screen: Screen, found: Mapping[str, Any]) -> None:
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


def _unfinished(screen: Screen, out: Path) -> None:
    from sdgar.experiments.workspace import partial_of, read_run

    told = read_run(out)
    folder = partial_of(out)
    job = _table(told["command"])
    log = _log(folder / "log.jsonl")
    kept = sorted(path.name for path in folder.glob("checkpoint-*"))
    last = log[-1] if log else {}
    measured = [line for line in log if isinstance(line.get("metric"), int | float)]
    go_on = command("sdgar", "train", "--resume", out)
    found = {
        "run": str(folder),
        "finished": False,
        "system": _table(told["identity"]).get("system"),
        "settings": _table(job.get("settings")),
        "files": job.get("files"),
        "created_by": f"sdgar {_table(told['identity']).get('sdgar version')}",
        "phase": last.get("phase"),
        "epoch": last.get("epoch", 0),
        "loss": last.get("loss"),
        "best": max((line["metric"] for line in measured), default=None),
        "checkpoints": kept,
        "resume": go_on if job else None,
    }
    screen.say("run", f"{folder}: {found['system']}, unfinished, by {found['created_by']}")
    screen.say("options", _listed(found["settings"]) or "those of the program that started it")
    screen.say("so far", _so_far(found))
    screen.say("kept", ", ".join(kept) or "no checkpoint yet: the run would start anew")
    screen.say("next", go_on if job else "go on as it was started, with resume=True")
    screen.result(found)


def _so_far(found: Mapping[str, Any]) -> str:
    if not found["epoch"]:
        return "no epoch is over"
    metric = found["settings"].get("metric", "ndcg@50")
    best = "" if found["best"] is None else f", best {metric} {_rounded(found['best'])}"
    return (
        f"epoch {found['epoch']} of pass {found['phase']!r}, loss {_rounded(found['loss'])}{best}"
    )


def _log(path: Path) -> list[dict[str, Any]]:
    """The epochs so far; a line that is being written is not one yet."""
    lines = []
    if path.is_file():
        for text in path.read_text(errors="replace").splitlines():
            try:
                lines.append(_table(json.loads(text)))
            except ValueError:
                break
    return lines


def _written(file: Path) -> str:
    when = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return when.isoformat(sep=" ", timespec="seconds")


def _contexts(names: list[str]) -> str:
    return "users" if names == ["user"] else f"contexts ({', '.join(names)})"


def _longest(metrics: Mapping[str, Any]) -> str:
    """NDCG of the longest lists, which every report leads with."""
    return max(
        (name for name in metrics if name.startswith("ndcg@")),
        key=lambda name: int(name.partition("@")[2]),
        default=next(iter(metrics)),
    )


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_rounded(value)}" for name, value in values.items())


def _rounded(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(value: Any) -> dict[str, Any]:
    """What should be a table; an empty one where an older or a foreign model has none."""
    return value if isinstance(value, dict) else {}
