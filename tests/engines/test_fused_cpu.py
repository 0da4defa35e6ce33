"""What the fused CPU engine has beyond all engines: sizes, threads, refits, and its sentences.

``tests/conformance/test_engines.py`` compares its epochs with eager. It uses the
same compositions, because each new one compiles for seconds.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from sdgar.contracts import Health
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_engine
from sdgar.engines.eager import EagerEngine
from sdgar.engines.fused import cpu as fused_cpu
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.protocol import EpochStats
from sdgar.errors import NumericalError, UsageError
from sdgar.machine import cores
from sdgar.maths.optimizers import Adam, LazyAdam
from sdgar.objectives import WeightedLogistic
from sdgar.samplers.static import Uniform

from .compositions import (
    CPU,
    LOGISTIC_SGD,
    MET,
    METRIC_ADAM,
    PAIRWISE_ADAM,
    POPULAR,
    SDGAR,
    SUMS_OF_FIELDS,
    TOLERANCE,
    Composition,
    assert_same_bytes,
    far,
    parameters,
    some_data,
)
from .compositions import assert_same_epochs as assert_same_epochs_of

HELD = {"objective": WeightedLogistic(0.5, hold_weights=True)}


def fused(one: Composition, data: Interactions, **changes) -> FusedCpuEngine:
    return FusedCpuEngine(one.system(data, **changes), data, seed=5, device=CPU)


def assert_same_epochs(one: Composition, data: Interactions, **options) -> EpochStats:
    _, last = assert_same_epochs_of(FusedCpuEngine, CPU, one, data, **options)
    return last


@pytest.mark.parametrize("one", SUMS_OF_FIELDS, ids=str)
def test_what_was_seen_may_be_that_of_a_context_and_not_of_its_user(one):
    data = one.data(seen_by="context")
    last = assert_same_epochs(one, data, positives_per_visit=2, n_negatives=1)
    assert last.unanswered >= data.n_items


@pytest.mark.exhaustive
def test_negatives_without_a_slope_go_on_by_their_moments_under_adam():
    """Only the hardest of seven is pushed away; Adam moves the others by what they had before."""
    assert_same_epochs(METRIC_ADAM, some_data(), n_negatives=7)


@pytest.mark.parametrize("per_visit", [1, 3])
def test_weights_that_are_held_are_held_as_by_eager(per_visit):
    for one in (SDGAR, POPULAR):
        assert_same_epochs(one, some_data(), positives_per_visit=per_visit, **HELD)


def test_adam_strays_from_exact_arithmetic_no_more_than_the_promise():
    """Where the gradient of a row nearly cancels, Adam makes its rounding as large as a step.

    Uniform negatives at scores near 0 are the worst case: all slopes are of one size, and an item
    that is as often positive as negative has a gradient of almost 0. Both engines against float64.
    """
    data, parts = some_data(), {"optimizer": LazyAdam(0.02)}
    in_double = PAIRWISE_ADAM.system(data, **parts)
    in_double.discriminator.double()
    exact = EagerEngine(in_double, data, seed=5, device=CPU)
    rounded = EagerEngine(PAIRWISE_ADAM.system(data, **parts), data, seed=5, device=CPU)
    engine = fused(PAIRWISE_ADAM, data, **parts)
    for each in (exact, rounded, engine):
        for epoch in (1, 2, 3):
            each.run_epoch(epoch)
    assert parameters(exact)["model.user_UD"].dtype == torch.float64
    for each in (rounded, engine):
        distance = far(parameters(each), parameters(exact))
        assert max(distance.values()) < TOLERANCE, distance


SIZES = [
    *itertools.product([LOGISTIC_SGD, POPULAR, SDGAR], [{"dim": dim} for dim in (1, 4, 33)]),
    *itertools.product(
        [POPULAR, LOGISTIC_SGD, PAIRWISE_ADAM],
        [{"n_negatives": n, "positives_per_visit": p} for n in (1, 7) for p in (1, 3)],
    ),
]


@pytest.mark.parametrize(("one", "sizes"), SIZES, ids=str)
def test_the_sizes_of_rows_and_of_visits_do_not_matter(one, sizes):
    assert_same_epochs(one, some_data(), **sizes)


def test_more_visits_than_a_block_holds_and_more_blocks_than_one():
    """200 visits a step, in blocks of 96 // 4; an item is in a batch many times."""
    data = some_data(users=90, items=20)
    assert 20 * data.n_items < 200 * 4
    assert_same_epochs(SDGAR, data, epochs=18, batch_size=200)


@pytest.mark.parametrize("per_visit", [1, 4])
@pytest.mark.parametrize("batch_size", [1, 10, 1000, 10**9])
def test_the_size_of_a_batch_does_not_matter(batch_size, per_visit):
    """Smaller than a visit, no divisor of the data, larger than the data, than memory."""
    data = some_data()
    assert len(data) % 10 != 0
    assert len(data) < 1000
    epochs = 50 if batch_size >= 1000 else 2
    options = {"batch_size": batch_size, "positives_per_visit": per_visit}
    assert_same_epochs(LOGISTIC_SGD, data, epochs=epochs, **options)


@pytest.mark.parametrize("one", [PAIRWISE_ADAM, POPULAR, SDGAR], ids=str)
def test_contexts_that_know_almost_everything_are_left_unanswered_alike(one):
    """Where 16 tries run out depends on every one of the draws."""
    data = some_data()
    last = assert_same_epochs(one, data, n_negatives=1)
    full, nearly = data.n_items, data.n_items - 1
    if one.sampler is Uniform:
        assert last.unanswered == full
    else:
        assert full < last.unanswered < full + nearly


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize("kind", [EagerEngine, FusedCpuEngine])
def test_a_refit_gives_the_same_bytes_for_any_number_of_threads(kind, set_threads):
    data = some_data(users=300, items=200, density=0.03)

    def made():
        return kind(SDGAR.system(data), data, seed=5, device=CPU)

    found = []
    for threads in (1, 2, 3, 5):
        set_threads(threads)
        engine = made()
        found.append((engine.refit(1), engine.state()))
    assert_same_bytes(found)


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize("one", [LOGISTIC_SGD, PAIRWISE_ADAM, SDGAR], ids=str)
def test_threads_that_come_and_go_within_an_epoch_change_no_bit(one, monkeypatch, set_threads):
    data = some_data(users=300, items=200, density=0.03)
    turns, ran = itertools.cycle(range(1, 5)), set()

    def restless(most: int) -> int:
        ran.add(threads := min(most, next(turns)))
        return threads

    monkeypatch.setattr(cores, "threads_now", restless)
    monkeypatch.setattr(fused_cpu, "_STRETCH_SECONDS", 0.0)  # after every batch
    found = []
    for most in (1, 4):
        set_threads(most)
        engine = fused(one, data, batch_size=100)
        stats = [engine.run_epoch(epoch) for epoch in (1, 2)]
        found.append(([(s.loss, s.unanswered, s.effective) for s in stats], engine.state()))
    assert ran == {1, 2, 3, 4}
    assert_same_bytes(found)


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize("free", [1, 4])
def test_a_refit_leaves_cores_to_other_processes(free, monkeypatch, set_threads):
    used = []
    monkeypatch.setattr(cores, "threads_now", lambda most: free)
    set_threads(4)
    engine = fused(SDGAR, some_data())

    def refit(score, *, seed, epoch):
        used.append((torch.get_num_threads(), cores.threads()))
        return Health()

    monkeypatch.setattr(engine.system.sampler, "refit", refit)
    engine.refit(1)
    assert (torch.get_num_threads(), cores.threads()) == (4, 4)
    assert used == [(free, free)]


def test_a_parameter_that_is_infinite_stops_the_run_where_weights_are_held():
    data = some_data()
    system = POPULAR.system(data, **HELD)
    with torch.no_grad():
        system.discriminator.item_ID[7, 2] = torch.inf
    engine = FusedCpuEngine(system, data, seed=5, device=CPU)
    with pytest.raises(NumericalError) as error:
        engine.run_epoch(1)
    assert error.value.code == "diverged"


@pytest.mark.parametrize("one", MET, ids=str)
def test_auto_takes_it_for_all_it_covers_and_says_why(one):
    engine, why = choose_engine("auto", one.probe(), CPU)
    assert engine is FusedCpuEngine
    assert "one compiled loop" in why
    assert choose_engine("fused-cpu", one.probe(), CPU) == (engine, why)


def test_auto_takes_eager_for_what_it_does_not_cover():
    system = PAIRWISE_ADAM.system(some_data(), optimizer=Adam(0.01))
    engine, why = choose_engine("auto", system, CPU)
    assert engine is EagerEngine
    assert "any composition" in why
    with pytest.raises(UsageError, match="no code for the optimizer Adam") as error:
        choose_engine("fused-cpu", system, CPU)
    assert error.value.code == "not_covered"
