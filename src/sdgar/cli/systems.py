"""``sdgar systems``, ``doctor`` and ``info``: what can be trained, this machine, a saved model."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from sdgar._version import __version__
from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Json, RunFolder
from sdgar.cli.options.training import DEFAULT_SYSTEM
from sdgar.cli.reports import main_metric
from sdgar.settings import METRIC
from sdgar.systems.names import titles
from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from sdgar.contracts import System

_NAMES = 15
"""The width of the column of names in the list of systems."""
_PARTIAL = ".partial"
_CORE = ("torch", "numpy", "scipy", "numba", "polars", "safetensors", "typer", "rich")
_EXTRAS = {
    "data": "pooch",
    "plot": "matplotlib",
    "tune": "optuna",
    "ann": "faiss",
    "serve": "psycopg",
    "export": "onnx",
    "remote": "s3fs",
}
"""The extras of the package, and the module that each brings."""
_WORDS = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "True or False",
    "None": "none",
}
"""What the types of settings are called in a table for people."""


def systems(
    name: Annotated[
        str | None, Option("Show this one; without it, all.", "NAME", is_argument=True)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the systems there are; with a name, its settings and what it can do."""
    from sdgar.systems.description import described

    screen = Screen(as_json=as_json)
    if name is None:
        all_of_them = titles()
        for system, summary in all_of_them.items():
            screen.lines(f"{system:<{_NAMES}}{summary}", further=_NAMES)
        screen.say("next", f"sdgar systems {DEFAULT_SYSTEM}")
        screen.result({"systems": all_of_them})
        return
    found = described(name)
    screen.line(f"{name}, in Python {found['class']}", style="bold")
    for paragraph in found["about"].split("\n\n"):
        if paragraph.startswith(" "):  # an equation
            for line in paragraph.split("\n"):
                screen.line(line)
        else:
            screen.lines(" ".join(paragraph.split()))
        screen.line("")
    for setting in found["settings"]:
        search = f"; a search tries {setting['search']}" if setting["search"] else ""
        screen.line(
            f"{setting['name']}: {_in_words(setting['kind'])} = {setting['default']!r}{search}",
            "cyan",
        )
        screen.lines(f"    {setting['meaning']}", further=4)
    screen.line("")
    for what, answer in found["can"].items():
        screen.lines(f"{what}: {answer}", further=4)
    screen.result(found)


def _in_words(kind: str) -> str:
    """Return the type of a setting in words, as ``integer or none`` for ``int | None``."""
    choices = re.sub(r"Literal\[(.*?)\]", lambda found: found[1].replace(",", " |"), kind)
    words = [one.strip().strip("'\"") for one in choices.split("|")]
    return " or ".join(_WORDS.get(word, word) for word in words)


def doctor(as_json: Json = False) -> None:
    """Show versions, devices, engines and what is missing."""
    import torch

    from sdgar.engines.choose import ENGINES
    from sdgar.machine import cores

    screen = Screen(as_json=as_json)
    cpu = cores.found()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    python, machine = platform.python_version(), f"{platform.system()} {platform.machine()}"
    packages = {name: _version(name) for name in _CORE}
    extras = {extra: find_spec(module) is not None for extra, module in _EXTRAS.items()}
    engines = _engines(ENGINES)
    quota = "no quota" if cpu.quota is None else f"a quota of {cpu.quota:g}"
    screen.say("sdgar", f"{__version__} on Python {python}, {machine}")
    screen.say(
        "cpu",
        f"{cpu.machine} cores, of which this process may run on {cpu.affinity}, with {quota}; "
        f"{cpu.threads} threads used ({cpu.why})",
    )
    screen.say("gpu", gpu or "none found: training on the CPU")
    screen.say("core", " · ".join(f"{name} {v or 'MISSING'}" for name, v in packages.items()))
    for extra, there in extras.items():
        text = "ok" if there else f'missing (pip install "sdgar[{extra}]")'
        screen.say("extra", f"{extra} {text}")
    for name, why in engines.items():
        screen.say("engine", f"{name}: {why}")
    screen.result(
        {
            "sdgar": __version__, "python": python, "machine": machine, "cores": cpu.machine,
            "affinity": cpu.affinity, "quota": cpu.quota, "threads": cpu.threads,
            "threads_why": cpu.why, "gpu": gpu, "packages": packages, "extras": extras,
            "engines": engines,
        }
    )  # fmt: skip


def _engines(engines: Mapping[str, Any]) -> dict[str, str]:
    """Return whether each engine runs the default system and SD-GAR on a device of this machine."""
    from sdgar.data.interactions import Interactions
    from sdgar.systems.sdgar import SDGAR
    from sdgar.systems.sdsoftmax import SDSoftmax

    two = Interactions.from_arrays(["a", "b"], ["x", "y"])
    systems = [
        recipe_of(kind(dim=4, sampler__states=2)).compose(two, seed=0, start=False)
        for kind in (SDSoftmax, SDGAR)
    ]
    said = {}
    for name, engine in engines.items():
        answers = [_answer(engine, system) for system in systems]
        each = [f"{s.name} {answer}" for s, answer in zip(systems, answers, strict=True)]
        said[name] = answers[0] if len(set(answers)) == 1 else "; ".join(each)
    return said


def _answer(engine: Any, system: System) -> str:
    """Return whether an engine runs a system on a device of this machine, and why or why not."""
    import torch

    devices = ["cuda", "cpu"] if torch.cuda.is_available() else ["cpu"]
    answers = [engine.covers(system, torch.device(device)) for device in devices]
    ready = [answer for answer in answers if answer.runs]
    return f"ready ({ready[0].why})" if ready else f"not here ({answers[0].why})"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def info(run: RunFolder, as_json: Json = False) -> None:
    """Describe a saved model, after verifying its files.

    RUN.partial, or RUN while there is no model in it yet, is an unfinished run: how far it has
    come, and how to resume it.
    """
    from sdgar.recommend.recommender import load
    from sdgar.runs.workspace import partial_of, unfinished

    screen = Screen(as_json=as_json)
    if run.name.endswith(_PARTIAL) and run.name != _PARTIAL:
        found = unfinished(run.with_name(run.name.removesuffix(_PARTIAL)))
    elif not run.exists() and partial_of(run).is_dir():
        found = unfinished(run)
    else:
        found = load(run).facts(run)
    show = _print_saved if found["finished"] else _print_unfinished
    show(screen, found)
    screen.result(found)


def _print_saved(screen: Screen, found: Mapping[str, Any]) -> None:
    data, can = found["data"], found["can"]
    names = data["context"]
    users = "users" if names == ["user"] else f"contexts ({', '.join(names)})"
    screen.say("model", f"{found['run']}: {found['system']}, {found['bytes'] / 1e6:,.1f} MB, whole")
    screen.say("options", _listed(found["settings"]) or "none")
    screen.say(
        "data",
        f"{data['users']:,} {users} · {data['items']:,} items · {data['interactions']:,} "
        f"interactions · fingerprint {str(data['fingerprint'])[:16]}",
    )
    screen.say("made", f"{found['written']} by {found['created_by']}")
    if found["engine"] is not None:
        screen.say(
            "trained",
            f"{found['best_epoch']} epochs · {found['seconds']} s · engine {found['engine']} · "
            f"protocol {found['protocol']}",
        )
    if further := found["further"]:
        said = f"from {further.get('from')}, {further.get('times')} times since"
        screen.say("continued", f"{said} it was trained from scratch")
    if found["test"]:
        main = main_metric(found["test"])
        shown, popular = _rounded(found["test"][main]), _rounded(found["most_popular"].get(main))
        screen.say("test", f"{main} {shown}, most popular {popular}")
        screen.say("", str(found["definition"]), style="dim")
    else:
        screen.say("test", "not measured: there were no test rows")
    if found["generator"]:
        screen.say("sampler", _listed(found["generator"]))
    able = (
        f"{name.replace('_', ' ')} {'yes' if is_able else 'no'}" for name, is_able in can.items()
    )
    screen.say("can", " · ".join(able))


def _print_unfinished(screen: Screen, found: Mapping[str, Any]) -> None:
    done = "no epoch is over"
    if found["epoch"]:
        metric = found["settings"].get("early_stopping__metric", METRIC)
        best = "" if found["best"] is None else f", best {metric} {_rounded(found['best'])}"
        loss = _rounded(found["loss"])
        done = f"epoch {found['epoch']} of pass {found['phase']!r}, loss {loss}{best}"
    screen.say("run", f"{found['run']}: {found['system']}, unfinished, by {found['created_by']}")
    screen.say("options", _listed(found["settings"]) or "the ones of the program that started it")
    screen.say("so far", done)
    kept = ", ".join(found["checkpoints"])
    screen.say("kept", kept or "no checkpoint yet: the run would start again")
    screen.say("next", found["resume"] or "resume it as it was started, with resume=True")


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_rounded(value)}" for name, value in values.items())


def _rounded(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
