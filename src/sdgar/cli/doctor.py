"""``sdgar doctor``: what this machine has."""

from __future__ import annotations

import os
import platform
from typing import Any

import sdgar
from sdgar.cli import options
from sdgar.cli.console import Screen

_CORE = ("torch", "numpy", "scipy", "numba", "polars", "safetensors", "typer", "rich")
_EXTRAS = {"plot": ("matplotlib",)}


def doctor(as_json: options.Json = False) -> None:
    """Show versions, devices, engines and what is missing."""
    import torch

    from sdgar.engines.choose import ENGINES

    screen = Screen(as_json=as_json)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    found: dict[str, Any] = {
        "sdgar": sdgar.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "packages": {name: _version(name) for name in _CORE},
        "extras": {e: all(_version(p) for p in names) for e, names in _EXTRAS.items()},
        "engines": list(ENGINES),
    }
    screen.say("sdgar", f"{found['sdgar']} on Python {found['python']}, {found['machine']}")
    screen.say("cpu", f"{found['cores']} cores, {found['threads']} threads used")
    screen.say("gpu", gpu or "none found: training on the CPU")
    screen.say("core", " · ".join(f"{n} {v or 'MISSING'}" for n, v in found["packages"].items()))
    for extra, there in found["extras"].items():
        text = "ok" if there else f'missing (pip install "sdgar[{extra}]")'
        screen.say("extra", f"{extra} {text}")
    screen.say("engines", ", ".join(found["engines"]))
    screen.result(found)


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
