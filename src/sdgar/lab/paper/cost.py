"""The seconds of an epoch: SD-GAR against IRGAN, at the paper's large shapes and by items.

The discriminator's epoch is one pass over the positives, with its draws; the generator's update is
what comes between epochs, once for all contexts and items. Both systems have one negative for each
positive and the same D, as the ratio is about how a negative is proposed. IRGAN's proposals are
exact draws from a softmax over all items, computed in blocks of contexts on the same device, once
for a context however many of its positives want one. They are also timed alone: with the steps of
SD-GAR's engine added they are what IRGAN would cost if its steps were as fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import PRESETS, Shape, generate
from sdgar.engines.choose import choose_device, choose_engine
from sdgar.lab.paper.measurements import Measurement, Setting
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers.reject import KnownItems
from sdgar.systems.irgan import IRGAN
from sdgar.systems.sdgar import SDGAR
from sdgar.training.protocols import Recipe

SYSTEMS, PARTS = ("sdgar", "irgan"), ("discriminator", "generator")
DIM, STATES, SAMPLES = 32, 64, 64
ROUNDS = 3
"""The number of epochs whose median is taken, after one that warms up."""
LONG = 60.0
"""The seconds from which on a first epoch is the only one: warming up is nothing beside it."""
_IRGAN_PAIRS_A_SECOND = 3e7
"""The pairs of context and item that IRGAN scores in a second on two cores, roughly."""


def recipe_of(system: str) -> Recipe:
    """Return a system with one negative a positive; IRGAN's has no pretraining."""
    if system == "sdgar":
        return SDGAR(dim=DIM, n_negatives=1, sampler__states=STATES, sampler__samples=SAMPLES)
    return IRGAN(
        dim=DIM, n_negatives=1, sampler__pretrain=0, sampler__batch_size=1024, batch_size=8192,
        sampler__samples=SAMPLES,
    )  # fmt: skip


def cost(system: str, shape: Shape, setting: Setting, **more: object) -> Measurement:
    """Return the measurement of D's epoch and of G's update on made-up data of a shape."""
    pairs = shape.users * shape.items
    return Measurement(
        key={
            "system": system,
            "users": shape.users,
            "items": shape.items,
            "interactions": shape.interactions,
            "device": choose_device(setting.device).type,
            **more,
        },
        measure=lambda _: measure(system, generate(shape, seed=0), setting.device),
        seconds=4
        * (
            shape.interactions / 300_000
            + (pairs / _IRGAN_PAIRS_A_SECOND if system == "irgan" else 0)
        ),
    )


def measure(system: str, data: Interactions, device: str) -> dict[str, Any]:
    """Return the medians of a few rounds; all of them are in ``rounds``."""
    where = choose_device(device)
    made = recipe_of(system).compose(data, seed=0, device=where)
    make_engine, _ = choose_engine("auto", made, where)
    engine = make_engine(made, data, seed=0, device=where)
    parts: dict[str, Callable[[int], object]] = {
        "generator": engine.refit,
        "discriminator": engine.run_epoch,
    }
    if system == "irgan":
        parts["proposals"] = _drawing(made, data, where)
    seconds: dict[str, list[float]] = {part: [] for part in parts}
    for epoch in range(1, ROUNDS + 2):
        for part, work in parts.items():
            start = time.perf_counter()
            work(epoch)
            if where.type == "cuda":
                torch.cuda.synchronize()
            seconds[part].append(time.perf_counter() - start)
        if sum(times[0] for times in seconds.values()) > LONG:
            break
    medians = {part: median(times[1:] or times) for part, times in seconds.items()}
    return {**medians, "rounds": seconds, "engine": make_engine.name}


def _drawing(made: System, data: Interactions, device: torch.device) -> Callable[[int], object]:
    """Return a function that makes the draws of an epoch and nothing else."""
    users_E = torch.from_numpy(data.users_E).to(device)
    items_E = torch.from_numpy(data.items_E).to(device).long()
    rows_E1 = torch.arange(len(items_E), device=device)[:, None]
    known = KnownItems(data.left_out, data.n_items, device)

    def draw(epoch: int) -> object:
        return made.sampler.sample(
            users_E,
            items_E,
            made.n_negatives,
            score=made.discriminator.score,
            draws=Draws(0, Stream.NEGATIVES, epoch, rows_E1),
            known=known,
        )

    return draw


def scaled(name: str, share: float) -> Shape:
    """Return a shape of the paper, or one with a share of its users, items and interactions."""
    shape = PRESETS[name]
    return replace(
        shape,
        users=int(shape.users * share),
        items=int(shape.items * share),
        interactions=int(shape.interactions * share),
    )
