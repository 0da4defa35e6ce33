"""Choose the engine that runs a system, with a sentence why; there is no silent fallback."""

from __future__ import annotations

import torch

from sdgar.contracts import System
from sdgar.engines.protocol import Engine
from sdgar.errors import ResourceError, UsageError, unknown_name
from sdgar.registry import Registry

ENGINES: Registry[type[Engine]] = Registry(
    "engine",
    {
        "fused-cpu": "sdgar.engines.fused.cpu:FusedCpuEngine",
        "fused-gpu": "sdgar.engines.fused.gpu:FusedGpuEngine",
        "eager": "sdgar.engines.eager:EagerEngine",
    },
)
FUSED = {"cpu": "fused-cpu", "cuda": "fused-gpu"}
"""The fast engine of each kind of device; the eager one runs what it does not cover."""


def choose_device(name: str) -> torch.device:
    """Return the named device; ``auto`` is the GPU if torch sees one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise unknown_name("device", name, ("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise ResourceError(
            'device is "cuda", and torch finds no GPU here. Use device="cpu", or '
            "install a torch build for your GPU; `sdgar doctor` shows what is found.",
            code="no_gpu",
        )
    return torch.device(name)


def choose_engine(name: str, system: System, device: torch.device) -> tuple[type[Engine], str]:
    """Return the named engine, or for ``auto`` the fastest that covers the system; and why.

    On the CPU ``auto`` leaves fused-gpu alone: Triton's interpreter would run it, for tests.
    """
    if name != "auto" and name not in ENGINES:
        raise unknown_name("engine", name, ("auto", *ENGINES))
    reasons: list[str] = []
    for tried in (FUSED[device.type], "eager") if name == "auto" else (name,):
        answer = ENGINES[tried].covers(system, device)
        if answer.runs:
            return ENGINES[tried], "; ".join((answer.why, *reasons))
        reasons.append(f"{tried} cannot: {answer.why}")
    raise UsageError(
        f'no engine runs system {system.name!r} ({"; ".join(reasons)}). Use engine="auto".',
        code="not_covered",
    )
