"""The seconds of an epoch: SD-GAR against IRGAN, at the paper's large shapes and by items.

The discriminator's epoch is one pass over the positives, with its draws; the generator's update is
what comes between epochs, once for all contexts and items. Both systems have one negative for each
positive and the same D, as the ratio is about how a negative is proposed. IRGAN's proposals are
exact draws from a softmax over all items, computed in blocks of contexts on the same device, once
for a context however many of its positives want one. They are also timed alone: with the steps of
SD-GAR's engine added they are what IRGAN would cost if its steps were as fast.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import torch

from sdgar.contracts import Positives, System
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import PRESETS, Shape, generate
from sdgar.engines.choose import choose_device, choose_engine
from sdgar.lab.paper import sheets
from sdgar.lab.paper.chosen import NAMES, TITLES
from sdgar.lab.paper.measurements import Experiment, PaperOptions, Piece, Row
from sdgar.lab.paper.sheets import Sheet
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers.static import PairLookup
from sdgar.systems.irgan import IRGAN
from sdgar.systems.recipe import Recipe, recipe_of
from sdgar.systems.sdgar import SDGAR

SYSTEMS, PARTS = ("sdgar", "irgan"), ("discriminator", "generator")
DIM, STATES, SAMPLES = 32, 64, 64
ROUNDS = 3
"""The number of epochs whose median is taken, after one that warms up."""
LONG = 60.0
"""The seconds from which on a first epoch is the only one: warming up is negligible then."""


def game_of(system: str) -> Recipe:
    """Return a system with one negative a positive; IRGAN's has no pretraining."""
    common: dict[str, Any] = {"dim": DIM, "n_negatives": 1, "sampler__samples": SAMPLES}
    if system == "sdgar":
        return recipe_of(SDGAR(**common, sampler__states=STATES))
    return recipe_of(
        IRGAN(**common, sampler__pretrain=0, sampler__batch_size=1024, batch_size=8192)
    )


def cost(system: str, shape: Shape, options: PaperOptions, **more: object) -> Piece:
    """Return the measurement of D's epoch and of G's update on synthetic data of a shape."""
    return Piece(
        key={
            "system": system,
            "users": shape.users,
            "items": shape.items,
            "interactions": shape.interactions,
            "device": choose_device(options.device).type,
            **more,
        },
        measure=lambda _: measure(system, generate(shape, seed=0), options.device),
    )


def measure(system: str, data: Interactions, device: str) -> dict[str, Any]:
    """Return the medians of a few rounds; all of them are in ``rounds``."""
    where = choose_device(device)
    made = game_of(system).compose(data, seed=0, device=where)
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
    known = PairLookup(data.excluded, data.n_items, device)

    def draw(epoch: int) -> object:
        draws = Draws(0, Stream.NEGATIVES, epoch, rows_E1)
        positives = Positives(users_E, items_E, made.discriminator.score, draws, known)
        return made.sampler.sample(positives, made.n_negatives)

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


SHAPES = ("amazon", "echonest")
QUICK_TIME_SHARE = 1 / 40
PAPER_RATIOS = {"amazon": (20, 5), "echonest": (10, 5)}
"""How many times faster the paper says D and G are."""


def time_pieces(options: PaperOptions) -> list[Piece]:
    """Return measurements of both systems at both shapes.

    Quick: a fortieth of the users, items and interactions.
    """
    share = QUICK_TIME_SHARE if options.quick else 1.0
    return [
        cost(system, scaled(shape, share), options, like=shape)
        for shape in SHAPES
        for system in SYSTEMS
    ]


def time_sheet(rows: Sequence[Row], options: PaperOptions) -> Sheet:
    """Return seconds and ratios, by shape and device."""
    cells = []
    figure, axes = sheets.panels(len(SHAPES), height=4.4, share_y=True)
    for panel, shape in zip(axes, SHAPES, strict=True):
        ticks: list[str] = []
        for device, group in sheets.by_device(r for r in rows if r["like"] == shape).items():
            ours, theirs = (next(r for r in group if r["system"] == s) for s in SYSTEMS)
            drawing = theirs["proposals"]
            for part, papers in zip(PARTS, PAPER_RATIOS[shape], strict=True):
                ratio, least = theirs[part] / ours[part], "–"
                at = len(ticks)
                if part == "discriminator":  # if IRGAN's steps cost what SD-GAR's epoch costs
                    least = f"{1 + drawing / ours[part]:.1f}"
                    panel.plot([at + 0.02, at + 0.38], [drawing] * 2, color="black", lw=1.5)
                cells.append(
                    [TITLES[shape], device, part, f"{ours[part]:.3g}", f"{theirs[part]:.3g}",
                     f"{ratio:.1f}", least, papers]
                )  # fmt: skip
                _bars(panel, at, ours[part], theirs[part], ratio)
                ticks.append(f"{part}\n{device}")
        panel.set_xticks(range(len(ticks)), ticks, fontsize=8)
        panel.grid(visible=False, axis="x")
        sizes = f"{ours['users']:,} users, {ours['items']:,} items"
        panel.set_yscale("log")
        panel.set_title(f"{TITLES[shape]}'s shape: {sizes}", fontsize=10)
    low, high = axes[0].get_ylim()
    axes[0].set(ylabel="seconds an epoch, or an update", ylim=(low, 3 * high))
    blue, orange = sheets.COLOURS[:2]
    sheets.legend_below(
        figure,
        [("s", blue, "full", NAMES["sdgar"]), ("s", orange, "full", NAMES["irgan"]),
         ("_", "black", "full", "IRGAN's draws alone")],
    )  # fmt: skip
    head = ["shape", "device", "part", "SD-GAR, s", "IRGAN, s", "ratio",
            "ratio with SD-GAR's steps", "the paper's ratio"]  # fmt: skip
    note = (
        "Synthetic data of the data set's shape, D = 32, one negative a positive, K = 64, 64 "
        "samples for the generators' updates; medians of three rounds, or one round where it "
        "takes over a minute. IRGAN's softmax is exact, in blocks on the same device, once a "
        "context. *Ratio with SD-GAR's steps*: IRGAN's draws alone with the epoch of SD-GAR "
        "added, over the epoch of SD-GAR, that is if IRGAN's steps were as fast: what the drawing "
        "itself costs."
    )
    if options.quick:
        note += " Quick: a fortieth of users, items and interactions, where the ratio is smaller."
    return Sheet([sheets.markdown_table(head, cells), note], figure)


def _bars(panel: Any, place: int, ours: float, theirs: float, ratio: float) -> None:
    panel.bar(place - 0.2, ours, 0.36, color=sheets.COLOURS[0])
    panel.bar(place + 0.2, theirs, 0.36, color=sheets.COLOURS[1])
    panel.annotate(f"×{ratio:.0f}", (place + 0.2, theirs), (0, 3), textcoords="offset points",
                   ha="center")  # fmt: skip


ITEMS = {
    "sdgar": (20_000, 40_000, 60_000, 80_000, 100_000, 300_000, 1_000_000),
    "irgan": (20_000, 40_000, 60_000, 80_000, 100_000),
}
USERS, INTERACTIONS = 50_000, 2_000_000
QUICK_SHARE = 50
LINES = (
    ("sdgar", None, "SD-GAR", sheets.COLOURS[0], "o", "-"),
    ("irgan", None, "IRGAN", sheets.COLOURS[1], "s", "-"),
    ("irgan", "proposals", "IRGAN's draws alone", sheets.COLOURS[4], "^", "--"),
)
"""The lines of a panel: the system, the column if it is another, and how the line looks."""


def items_pieces(options: PaperOptions) -> list[Piece]:
    """Return measurements by number of items, on 2 million positives of 50,000 users.

    Quick: a fiftieth of the users, positives and items.
    """
    by = QUICK_SHARE if options.quick else 1
    return [
        cost(
            system,
            Shape(
                users=USERS // by,
                items=n_items // by,
                interactions=INTERACTIONS // by,
                concentration=0.3,
            ),
            options,
        )
        for system, sizes in ITEMS.items()
        for n_items in (sizes[:5:2] if options.quick else sizes)
    ]


def growth(items: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the exponent e of seconds ∝ items^e, by least squares of the logarithms."""
    return float(np.polyfit(np.log(items), np.log(seconds), 1)[0])


def straight(items: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float]:
    """Return a, b and R² of seconds ≈ a + b · items, by least squares."""
    b, a = np.polyfit(items, seconds, 1)
    left = np.var(np.asarray(seconds) - a - b * np.asarray(items))
    return float(a), float(b), float(1 - left / max(np.var(seconds), np.finfo(float).tiny))


def items_sheet(rows: Sequence[Row], options: PaperOptions) -> Sheet:
    """Return a row of panels for each device, a panel for each part, a line for each system."""
    devices = sheets.by_device(rows)
    figure, axes = sheets.panels(len(PARTS), rows=len(devices))
    sizes = sorted({row["items"] for row in rows})
    shared = sorted({row["items"] for row in rows if row["system"] == "irgan"})
    shown = list(dict.fromkeys((shared[0], shared[-1], sizes[-1])))
    cells = []
    places = itertools.product(devices.items(), PARTS)
    for panel, ((device, group), part) in zip(axes, places, strict=True):
        for system, column, label, colour, mark, style in LINES:
            if column is not None and part != "discriminator":
                continue
            mine = [row for row in group if row["system"] == system]
            points = sorted((row["items"], row[column or part]) for row in mine)
            items, seconds = (list(values) for values in zip(*points, strict=True))
            exponent = growth(items, seconds)
            panel.plot(items, seconds, style, marker=mark, color=colour)
            a, b, fit = straight(items, seconds)
            at = dict(zip(items, seconds, strict=True))
            cells.append(
                [device, part, label, *(f"{at[m]:.3g}" if m in at else "–" for m in shown),
                 f"{exponent:.2f}", f"{a:.3g} + {1e5 * b:.3g} · M/100,000", f"{fit:.3f}"]
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="items M", ylabel="seconds",
                  title=f"{part}, {device}")  # fmt: skip
        panel.yaxis.set_minor_formatter("")
    sheets.legend_below(
        figure, [(mark, colour, "full", name) for _, _, name, colour, mark, _ in LINES]
    )
    head = ["device", "part", "system", *(f"s at M = {m:,}" for m in shown), "exponent of M",
            "straight line, s", "R²"]  # fmt: skip
    note = (
        f"Synthetic data, {rows[0]['interactions']:,} positives of {rows[0]['users']:,} users at "
        "every size; D = 32, one negative a positive. Exponent: fitted to the logarithms of all "
        "points of a line; straight line: by least squares. What does not grow with M (contexts, "
        "steps, launches) makes an exponent smaller than 1 where growth is linear."
    )
    return Sheet([sheets.markdown_table(head, cells), note], figure)


TIME = Experiment("time", "Seconds per epoch: SD-GAR against IRGAN", time_pieces, time_sheet)
BY_ITEMS = Experiment(
    "items", "Seconds per epoch against the number of items", items_pieces, items_sheet
)
