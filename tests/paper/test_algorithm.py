"""Algorithm 1 as a whole: what happens, and in which order.

Slips in print: lines 17 and 18 build the tables P(c|k) and P(k|i) inside the loop over k; they
are built once an update, from the X just updated and the Y about to be replaced. Line 11 updates
the generator after every l_g-th epoch; the package also does so before the first, and not after
the last, where nothing would use it.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from sdgar.engines.eager import EagerEngine
from sdgar.maths.rng import Stream, uniform
from sdgar.samplers import sampled_sums as module
from sdgar.samplers.closed_form import ClosedForm, Frozen
from sdgar.samplers.decomposable import Decomposable
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR
from sdgar.training.loop import fit
from sdgar.training.records import FitOptions

from .oracle import closed_form, problem

CPU = torch.device("cpu")


def test_the_generator_starts_uniform_at_random_and_normalised():
    # Lines 1 to 6. X and Y from U(0, 1), rows of X and columns of Y normalised: the ratios of two
    # entries of a line equal the ratios of the uniform numbers. Kolmogorov-Smirnov at alpha = 1e-6.
    generator = Decomposable(40, 50, 8, seed=3, update=Frozen())
    u = torch.from_numpy(uniform(3, Stream.INIT_GENERATOR, 0, np.arange(90 * 8)))
    x_UK, y_IK = u[:320].reshape(40, 8), u[320:].reshape(50, 8)
    # Probabilities are multiples of 2^-bits / N, and off by 2^-bits (p + 2 / N) at the most.
    quantum = 2.0**-generator.state_of.bits
    coarse, near = {"rtol": quantum, "atol": quantum * 2 / 8}, {"rtol": 1e-5, "atol": 1e-9}
    assert_close(generator.x_UK.double(), x_UK / x_UK.sum(dim=1, keepdim=True), **coarse)
    assert_close(generator.y_IK.double(), y_IK / y_IK.sum(dim=0, keepdim=True), **near)
    assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-6


class Watched(EagerEngine):
    """Writes down the calls of the loop."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[str] = []

    def refit(self, epoch: int) -> dict[str, float]:
        self.calls.append(f"G{epoch}")
        return super().refit(epoch)

    def run_epoch(self, epoch: int):
        self.calls.append(f"D{epoch}")
        return super().run_epoch(epoch)


def trained(data, *, epochs: int, **options):
    recipe = SDGAR(dim=4, sampler__states=4, sampler__samples=4, batch_size=128, **options)
    system = recipe_of(recipe).compose(data, seed=0)
    engine = Watched(system, data, seed=0, device=CPU)
    fitted = fit(system, engine, FitOptions(epochs=epochs))
    return system, engine, fitted


@pytest.mark.parametrize(
    ("every", "schedule"),
    [
        (5, "G1 D1 D2 D3 D4 D5 G6 D6 D7 D8 D9 D10 G11 D11"),
        (1, "G1 D1 G2 D2 G3 D3 G4 D4 G5 D5 G6 D6 G7 D7 G8 D8 G9 D9 G10 D10 G11 D11"),
        (20, "G1 D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11"),
    ],
)
def test_the_generator_is_updated_before_the_first_epoch_and_every_few(
    checkerboard, every, schedule
):
    _, engine, _ = trained(checkerboard, epochs=11, sampler__refit_every=every)
    assert " ".join(engine.calls) == schedule


def test_an_epoch_shows_every_positive_once_with_draws_of_its_own(checkerboard, monkeypatch):
    # Lines 8 to 10: |S_c| negatives a positive, from the generator, none of them known.
    seen: list[tuple[int, int]] = []
    drawn: list[torch.Tensor] = []
    sample = Decomposable.sample

    def spy(self, positives, n):
        given = sample(self, positives, n)
        seen.extend(zip(positives.users_B.tolist(), positives.items_B.tolist(), strict=True))
        drawn.append(given.items_BN)
        return given

    monkeypatch.setattr(Decomposable, "sample", spy)
    trained(checkerboard, epochs=1, n_negatives=5)
    data = checkerboard
    pairs = list(zip(data.users_E.tolist(), data.items_E.tolist(), strict=True))
    assert sorted(seen) == sorted(pairs)
    items_EN = torch.cat(drawn)
    assert items_EN.shape == (len(data), 5)
    known = set(pairs)
    assert not any(
        (u, i) in known for (u, _), row in zip(seen, items_EN.tolist(), strict=True) for i in row
    )
    assert len(set(map(tuple, items_EN.tolist()))) > 0.9 * len(data)


def test_training_returns_the_parameters_of_the_discriminator(checkerboard):
    system, _, fitted = trained(checkerboard, epochs=2)
    assert_close(fitted.model.user_UD, system.discriminator.user_UD.detach())
    assert_close(fitted.model.item_ID, system.discriminator.item_ID.detach())


@pytest.fixture
def update_events(monkeypatch):
    """Every step of one update, with X and Y as they were when it began."""
    p = problem()
    events: list[tuple[str, torch.Tensor, torch.Tensor]] = []

    def watch(owner, name: str, say) -> None:
        original = getattr(owner, name)

        def spy(self, *args, **kwargs):
            events.append((say(kwargs), p.generator.x_UK, p.generator.y_IK))
            return original(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, spy)

    watch(ClosedForm, "partition_and_mean", lambda kwargs: f"Z and mu from part {kwargs['part']}")
    watch(ClosedForm, "log_b", lambda _: "b")
    watch(ClosedForm, "log_d", lambda _: "d")
    watch(module.Inverse, "__init__", lambda _: "inverse tables")
    watch(Decomposable, "set_x", lambda _: "set X")
    watch(Decomposable, "set_y", lambda _: "set Y")
    old = p.generator.x_UK, p.generator.y_IK
    closed_form(samples=8)(p.generator, p.score, seed=0, epoch=1)
    return events, old, (p.generator.x_UK, p.generator.y_IK)


def test_an_update_moves_x_then_its_tables_then_y(update_events):
    # Lines 12 to 21.
    events, _, _ = update_events
    assert [what for what, _, _ in events] == [
        "Z and mu from part 0", "b", "set X",
        "Z and mu from part 2", "d", "inverse tables", "set Y",
    ]  # fmt: skip


def test_the_inverse_tables_and_d_see_the_new_x_and_the_old_y(update_events):
    events, (old_x, old_y), (new_x, new_y) = update_events
    assert not torch.equal(old_x, new_x)
    assert not torch.equal(old_y, new_y)
    at = {what: (x, y) for what, x, y in events}
    for what in ("Z and mu from part 0", "b", "set X"):
        assert torch.equal(at[what][0], old_x)
    for what in ("Z and mu from part 2", "d", "inverse tables", "set Y"):
        assert torch.equal(at[what][0], new_x)
    assert all(torch.equal(y, old_y) for _, _, y in events)


def test_the_partition_function_and_b_use_different_sample_sets(monkeypatch):
    # Section 2.4: "to reduce bias … we draw different sample sets … for separate use".
    p = problem()
    slots: list[set[int]] = []
    draw = Decomposable.draw

    def spy(self, users, draws, slots_S):
        assert draws.stream == Stream.GENERATOR_CONTEXTS
        slots.append(set(slots_S.tolist()))
        return draw(self, users, draws, slots_S)

    monkeypatch.setattr(Decomposable, "draw", spy)
    closed_form(samples=8)(p.generator, p.score, seed=0, epoch=1)
    assert [len(s) for s in slots] == [8, 8, 8]
    assert len(set().union(*slots)) == 24


def test_two_updates_of_one_run_use_different_numbers():
    first, same, later = (problem() for _ in range(3))
    for p, epoch in ((first, 1), (same, 1), (later, 6)):
        closed_form(samples=8)(p.generator, p.score, seed=0, epoch=epoch)
    assert torch.equal(first.generator.x_UK, same.generator.x_UK)
    assert not torch.equal(first.generator.x_UK, later.generator.x_UK)
