"""Which engine runs a system, and a sentence why. Never a silent fallback."""

from __future__ import annotations

from typing import Protocol

import torch

from sdgar.contracts import Covered, Engine, System
from sdgar.data.interactions import Interactions
from sdgar.engines.eager import EagerEngine
from sdgar.engines.fused_cpu import FusedCpuEngine
from sdgar.engines.fused_gpu import FusedGpuEngine
from sdgar.errors import ResourceError, UsageError, unknown_name


class MakeEngine(Protocol):
    """An engine that is not made yet."""

    name: str

    def deterministic(self, device: torch.device) -> bool:
        """Whether the same seed gives the same bytes."""
        ...

    def __call__(
        self, system: System, data: Interactions, *, seed: int, device: torch.device
    ) -> Engine:
        """Make it for one system and one data set."""
        ...


ENGINES: dict[str, type[FusedCpuEngine | FusedGpuEngine | EagerEngine]] = {
    engine.name: engine for engine in (FusedCpuEngine, FusedGpuEngine, EagerEngine)
}
FUSED = {"cpu": FusedCpuEngine.name, "cuda": FusedGpuEngine.name}
"""The fast engine of each kind of device; the eager one runs what it does not cover."""


def choose_device(name: str) -> torch.device:
    """The named device; ``auto`` is the GPU if torch sees one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise unknown_name("device", name, ("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise ResourceError(
            'device "cuda" was asked for, and torch sees no GPU here. Use device="cpu", or '
            "install a torch build for your GPU; `sdgar doctor` shows what is found.",
            code="no_gpu",
        )
    return torch.device(name)


def choose_engine(name: str, system: System, device: torch.device) -> tuple[MakeEngine, str]:
    """The named engine, or for ``auto`` the fastest that covers the system; and why.

    On the CPU ``auto`` leaves fused-gpu alone: Triton's interpreter would run it, for tests.
    """
    if name != "auto" and name not in ENGINES:
        raise unknown_name("engine", name, ("auto", *ENGINES))
    reasons: list[str] = []
    for tried in (FUSED[device.type], EagerEngine.name) if name == "auto" else (name,):
        answer = ENGINES[tried].covers(system, device)
        if isinstance(answer, Covered):
            return ENGINES[tried], "; ".join((answer.why, *reasons))
        reasons.append(f"{tried} cannot: {answer.why}")
    raise UsageError(
        f'no engine runs system {system.name!r} ({"; ".join(reasons)}). Use engine="auto".',
        code="not_covered",
    )
