"""The fused CPU engine makes the eager engine's updates, for any number of threads."""

from __future__ import annotations

import itertools
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from sdgar.engines.fused.cpu import FusedCpuEngine
from torch import Tensor

from sdgar.contracts import Covered, EpochStats, NotCovered, Sampler, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.cosine import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines import fused_cpu
from sdgar.engines.choose import choose_engine
from sdgar.engines.eager import EagerEngine
from sdgar.engines.pace import Pace
from sdgar.errors import NumericalError, UsageError
from sdgar.machine import cores
from sdgar.maths.optimizers import SGD, Adam, LazyAdam, RowAdagrad
from sdgar.objectives import (
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)
from sdgar.samplers.closed_form import ClosedForm
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, Uniform

CPU = torch.device("cpu")
SAMPLERS = ("uniform", "popularity", "decomposable")
PICKS = {"hardest": HardestOf(4), "violation": FirstViolation(0.05, 7)}
OBJECTIVES = {
    "pairwise": PairwiseLogistic(),
    "logistic": Logistic(),
    "weighted": WeightedLogistic(0.5),
    "weights held": WeightedLogistic(0.5, hold_weights=True),
}
OPTIMIZERS = {"sgd": SGD(0.5), "adagrad": RowAdagrad(0.1), "lazy adam": LazyAdam(0.02)}
# What the loop is compiled for is a draw, a gradient and a step. Any two of them meet in every run
# of the suite, all three only in an exhaustive one: each combination compiles for seconds.
EVERY = tuple(product(SAMPLERS, OBJECTIVES, OPTIMIZERS))
GRADIENTS = {"pairwise": 0, "logistic": 1, "weighted": 2, "weights held": 2}


def met(sampler: str, objective: str) -> str:
    """The optimizer that this sampler and this objective meet in every run of the suite."""
    return tuple(OPTIMIZERS)[(SAMPLERS.index(sampler) + GRADIENTS[objective]) % 3]


PAIRS = tuple((s, o, met(s, o)) for s, o in product(SAMPLERS, OBJECTIVES))
COMBINATIONS = [
    pytest.param(*names, id="-".join(names), marks=() if names in PAIRS else pytest.mark.exhaustive)
    for names in EVERY
]
TOLERANCE = 1e-5
"""Of the norm of a table, after 50 steps or more: what the two engines promise each other."""

KNOWS_ALL_BUT_ONE, KNOWS_ALL = 3, 4


def some_data(
    *, weighted: bool = True, users: int = 30, items: int = 24, density: float = 0.25
) -> Interactions:
    """One context knows every item but the last, which is a rare one, and one knows them all."""
    rng = np.random.default_rng(0)
    liked = rng.random((users, items)) < density
    liked[:, -1] = rng.random(users) < 0.1
    liked[KNOWS_ALL_BUT_ONE, :-1], liked[KNOWS_ALL_BUT_ONE, -1] = True, False
    liked[KNOWS_ALL] = True
    users_E, items_E = np.nonzero(liked)
    weight = rng.uniform(0.2, 3, len(users_E)) if weighted else None
    return Interactions.from_arrays(users_E, items_E, weight=weight)


def sampler_of(name: str, data: Interactions) -> Sampler:
    if name == "uniform":
        return Uniform()
    if name in PICKS:
        return PICKS[name]
    if name == "adaptive":
        # Any model will do for both engines; this one has biases to be ordered by.
        model = MatrixFactorization(data.n_users, data.n_items, 5, seed=0)
        model.bias_I.data += torch.arange(data.n_items) * 0.01
        return RankByFactor(model, 0.2)
    if name == "popularity":
        return Popularity(torch.from_numpy(np.bincount(data.items_E, minlength=data.n_items)))
    update = ClosedForm(
        temperature=0.5,
        lambda_x=0.1,
        lambda_y=1.0,
        samples=8,
        target="kl",
        integrand="loss",
        calibration="line",
    )
    return Decomposable(data.n_users, data.n_items, 6, seed=1, update=update)


def system_of(data: Interactions, *, sampler: str = "uniform", dim: int = 5, **changes) -> System:
    """Parts as asked for; without an optimizer, the one that sampler and objective meet."""
    kinds = {type(one): name for name, one in OBJECTIVES.items() if name != "weights held"}
    objective = kinds.get(type(changes.get("objective", PairwiseLogistic())))
    usual = met(sampler, objective) if sampler in SAMPLERS and objective else "sgd"
    optimizer = changes.get("optimizer", OPTIMIZERS[usual])
    size, sparse = (data.n_users, data.n_items, dim), optimizer.row_wise
    tau, bias = changes.pop("tau", None), changes.pop("bias", False)
    common = {"seed": 0, "sparse": sparse, "fields": data.fields}
    parts = {
        "name": "test",
        "discriminator": MatrixFactorization(*size, **common)
        if tau is None
        else Cosine(*size, tau=tau, bias=bias, **common),
        "sampler": sampler_of(sampler, data),
        "objective": PairwiseLogistic(),
        "optimizer": optimizer,
        "n_negatives": 3,
        "batch_size": 12,
        "l2": 0.02,
    }
    return System(**(parts | changes))


def followed_by(optimizer: str) -> dict[str, object]:
    """A sampler that can be fitted, with the objective that it and this optimizer meet."""
    objective = next(name for name in OBJECTIVES if met("decomposable", name) == optimizer)
    return {"sampler": "decomposable", "objective": OBJECTIVES[objective]}


def fused(data: Interactions, **changes) -> FusedCpuEngine:
    return FusedCpuEngine(system_of(data, **changes), data, seed=5, device=CPU)


def eager(data: Interactions, *, double: bool = False, **changes) -> EagerEngine:
    system = system_of(data, **changes)
    if double:
        system.discriminator.double()
    return EagerEngine(system, data, seed=5, device=CPU)


def parameters(engine: EagerEngine | FusedCpuEngine) -> dict[str, Tensor]:
    return {k: v for k, v in engine.state().items() if k.startswith("model.")}


def far(some: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, float]:
    assert some.keys() == other.keys()
    return {
        name: float((some[name].double() - other[name].double()).norm() / other[name].norm())
        for name in some
    }


def assert_same_stats(stats: EpochStats, expected: EpochStats) -> None:
    assert stats.loss == pytest.approx(expected.loss, rel=TOLERANCE)
    assert (stats.positives, stats.unanswered) == (expected.positives, expected.unanswered)
    assert (stats.effective is None) == (expected.effective is None)
    if expected.effective is not None:
        assert stats.effective == pytest.approx(expected.effective, rel=TOLERANCE)


def assert_same_epochs(data: Interactions, *, epochs: int = 1, refit: bool = False, **changes):
    """Run both; return the eager engine's last epoch, to look at."""
    expected, engine = eager(data, **changes), fused(data, **changes)
    start = parameters(expected)
    for epoch in range(1, epochs + 1):
        if refit:
            assert engine.refit(epoch) == pytest.approx(expected.refit(epoch), rel=1e-3)
        last = expected.run_epoch(epoch)
        assert_same_stats(engine.run_epoch(epoch), last)
    distance = far(parameters(engine), parameters(expected))
    assert max(distance.values()) < TOLERANCE, distance
    # Standing still would be the same for both.
    if "model.bias_I" in start:
        start["model.bias_I"] = torch.ones(1)
    assert min(far(parameters(expected), start).values()) > 0.01
    return last


def steps(data: Interactions, system: System) -> int:
    """Steps an epoch, from the definition of a visit."""
    visits = -(-np.diff(data.indptr_U1) // system.positives_per_visit)
    return -(-int(visits.sum()) // system.visits_per_step)


# Pools that several positives share are tried with the softmax below, and here exhaustively.
@pytest.mark.parametrize("per_visit", [1, pytest.param(3, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("sampler", "objective", "optimizer"), COMBINATIONS)
def test_fifty_steps_are_those_of_the_eager_engine(sampler, objective, optimizer, per_visit):
    data = some_data(weighted=per_visit == 3)
    parts = {
        "sampler": sampler,
        "objective": OBJECTIVES[objective],
        "optimizer": OPTIMIZERS[optimizer],
        "positives_per_visit": per_visit,
    }
    assert 3 * steps(data, system_of(data, **parts)) >= 50
    last = assert_same_epochs(data, epochs=3, **parts)
    # The context that knows every item is never answered, whoever draws.
    assert last.unanswered >= data.n_items


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize(
    ("objective", "optimizer"), [("pairwise", "adagrad"), ("logistic", "adagrad")]
)
def test_the_hardest_candidate_is_that_of_the_eager_engine(objective, optimizer, per_visit):
    last = assert_same_epochs(
        some_data(),
        epochs=3,
        sampler="hardest",
        objective=OBJECTIVES[objective],
        optimizer=OPTIMIZERS[optimizer],
        positives_per_visit=per_visit,
    )
    assert last.unanswered == some_data().n_items


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize("objective", [PairwiseLogistic(), WarpHinge(0.05, 24)])
def test_the_first_violation_is_that_of_the_eager_engine(objective, per_visit):
    last = assert_same_epochs(
        some_data(),
        epochs=3,
        sampler="violation",
        objective=objective,
        optimizer=RowAdagrad(0.1),
        n_negatives=1,
        positives_per_visit=per_visit,
    )
    assert last.unanswered == some_data().n_items


@pytest.mark.parametrize("seen_by", ["user", "context"])
@pytest.mark.parametrize(
    ("sampler", "objective", "optimizer", "tau"),
    [
        ("uniform", PairwiseLogistic(), "sgd", None),
        ("hardest", PairwiseLogistic(), "lazy adam", None),
        ("decomposable", SampledSoftmax(), "adagrad", 0.3),
    ],
)
def test_contexts_that_are_sums_of_fields_move_as_by_the_eager_engine(
    sampler, objective, optimizer, tau, seen_by
):
    plain = some_data()
    data = Interactions.from_contexts(
        # Some users have one context, most have two; the parts of the day are shared by all.
        {"user": plain.users_E // 2, "part": plain.users_E % 3, "end": plain.users_E % 2},
        plain.items_E,
        weight=plain.weight_E,
        seen_by=seen_by,
    )
    last = assert_same_epochs(
        data,
        epochs=3,
        sampler=sampler,
        objective=objective,
        optimizer=OPTIMIZERS[optimizer],
        positives_per_visit=2,
        n_negatives=1,
        tau=tau,
        bias=tau is not None,
    )
    assert last.unanswered >= data.n_items


def test_ranks_of_factors_are_drawn_as_by_the_eager_engine():
    last = assert_same_epochs(some_data(), epochs=3, sampler="adaptive", optimizer=RowAdagrad(0.1))
    assert last.unanswered >= some_data().n_items


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize(
    ("sampler", "optimizer"),
    [
        pytest.param(sampler, optimizer, marks=() if i == j else pytest.mark.exhaustive)
        for (i, sampler), (j, optimizer) in product(enumerate(SAMPLERS), enumerate(OPTIMIZERS))
    ],
)
def test_angles_and_their_softmax_are_those_of_the_eager_engine(sampler, optimizer, per_visit):
    last = assert_same_epochs(
        some_data(),
        epochs=3,
        sampler=sampler,
        objective=SampledSoftmax(),
        optimizer=OPTIMIZERS[optimizer],
        positives_per_visit=per_visit,
        tau=0.3,
    )
    assert last.unanswered >= some_data().n_items


@pytest.mark.parametrize(
    "optimizer",
    [
        pytest.param(name, marks=() if name == "adagrad" else pytest.mark.exhaustive)
        for name in OPTIMIZERS
    ],
)
def test_biases_beside_angles_and_the_temperature_of_positives_are_those_of_eager(optimizer):
    assert_same_epochs(
        some_data(),
        epochs=3,
        sampler="decomposable",
        objective=SampledSoftmax(1.3),
        optimizer=OPTIMIZERS[optimizer],
        tau=0.3,
        bias=True,
    )


@pytest.mark.parametrize(
    "objective", ["pairwise", pytest.param("logistic", marks=pytest.mark.exhaustive)]
)
def test_adam_strays_from_exact_arithmetic_no_more_than_the_promise(objective):
    """Where the gradient of a row nearly cancels, Adam makes its rounding as large as a step.

    Uniform negatives at scores near 0 are the worst case: all slopes are of one size, and an item
    that is as often positive as negative has a gradient of almost 0. Both engines against float64.
    """
    data = some_data()
    parts = {"objective": OBJECTIVES[objective], "optimizer": LazyAdam(0.02)}
    exact, rounded, engine = (
        eager(data, double=True, **parts), eager(data, **parts), fused(data, **parts)
    )  # fmt: skip
    for each in (exact, rounded, engine):
        for epoch in (1, 2, 3):
            each.run_epoch(epoch)
    assert parameters(exact)["model.user_UD"].dtype == torch.float64
    for each in (rounded, engine):
        distance = far(parameters(each), parameters(exact))
        assert max(distance.values()) < TOLERANCE, distance


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("dim", [1, 4, 33])
def test_the_width_of_a_row_does_not_matter(sampler, dim):
    data = some_data()
    assert_same_epochs(data, epochs=3, sampler=sampler, dim=dim, objective=WeightedLogistic(0.5))


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize("n_negatives", [1, 7])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_number_of_negatives_does_not_matter(objective, n_negatives, per_visit):
    assert_same_epochs(
        some_data(),
        epochs=3,
        sampler="popularity",
        objective=OBJECTIVES[objective],
        n_negatives=n_negatives,
        positives_per_visit=per_visit,
    )


def test_more_visits_than_a_block_holds_and_more_blocks_than_one():
    """200 visits a step, in blocks of 96 // 4; an item is in a batch many times."""
    data = some_data(users=90, items=20)
    parts = {"batch_size": 200, "sampler": "decomposable"}
    assert 20 * data.n_items < 200 * 4
    assert_same_epochs(data, epochs=18, objective=WeightedLogistic(0.5), **parts)


@pytest.mark.parametrize("per_visit", [1, 4])
@pytest.mark.parametrize("batch_size", [1, 10, 1000, 10**9])
def test_the_size_of_a_batch_does_not_matter(batch_size, per_visit):
    """Smaller than a visit, no divisor of the data, larger than the data, than memory."""
    data = some_data()
    assert len(data) % 10 != 0
    assert len(data) < 1000
    assert_same_epochs(
        data,
        epochs=50 if batch_size >= 1000 else 2,
        batch_size=batch_size,
        positives_per_visit=per_visit,
        objective=Logistic(),
    )


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_contexts_that_know_almost_everything_are_left_unanswered_alike(sampler):
    """Where 16 tries run out depends on every one of the draws."""
    data = some_data()
    last = assert_same_epochs(data, epochs=3, sampler=sampler, n_negatives=1)
    full, nearly = data.n_items, data.n_items - 1
    if sampler == "uniform":
        assert last.unanswered == full
    else:
        assert full < last.unanswered < full + nearly


def test_a_sampler_that_follows_is_followed_alike():
    """The generator is fitted to scores that differ in their last bits; draws must not."""
    assert_same_epochs(
        some_data(),
        epochs=3,
        refit=True,
        sampler="decomposable",
        objective=WeightedLogistic(0.5),
    )


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize(
    ("sampler", "objective"),
    [("uniform", "weighted"), ("popularity", "pairwise"), ("decomposable", "logistic")],
)
@pytest.mark.usefixtures("plenty_of_cores")
def test_the_number_of_threads_changes_no_bit(sampler, objective, per_visit):
    data = some_data(users=300, items=200, density=0.03)
    parts = {
        "sampler": sampler,
        "objective": OBJECTIVES[objective],
        "positives_per_visit": per_visit,
        "batch_size": 250,
    }
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            engine = fused(data, **parts)
            stats = [engine.run_epoch(epoch) for epoch in (1, 2)]
            found.append(([(s.loss, s.unanswered, s.effective) for s in stats], engine.state()))
    finally:
        torch.set_num_threads(before)
    assert_same_bytes(found)


def assert_same_bytes(found: list[tuple[object, dict[str, Tensor]]]) -> None:
    for stats, state in found[1:]:
        assert stats == found[0][0]
        assert state.keys() == found[0][1].keys()
        assert all(torch.equal(state[k], found[0][1][k]) for k in state)


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize("make", [eager, fused])
def test_a_refit_gives_the_same_bytes_for_any_number_of_threads(make):
    data = some_data(users=300, items=200, density=0.03)
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            engine = make(data, sampler="decomposable")
            found.append((engine.refit(1), engine.state()))
        engine = fused(data, sampler="decomposable")
        engine._refit_pace.usual = 1
        if make is fused:
            found.append((engine.refit(1), engine.state()))
    finally:
        torch.set_num_threads(before)
    assert_same_bytes(found)


class Restless(Pace):
    """Another number of threads after every few batches."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.turns = itertools.cycle(range(1, most + 1))
        self.ran: set[int] = set()

    @property
    def threads(self) -> int:
        return next(self.turns)

    def work(self) -> int:
        return 3

    def note(self, work: int, seconds: float, cpu_seconds: float) -> None:
        self.ran.add(work)


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_threads_that_come_and_go_within_an_epoch_change_no_bit(optimizer, monkeypatch):
    data = some_data(users=300, items=200, density=0.03)
    parts = {**followed_by(optimizer), "batch_size": 100}
    found = []
    before = torch.get_num_threads()
    try:
        for pace in (Pace, Restless):
            torch.set_num_threads(1 if pace is Pace else 4)
            monkeypatch.setattr(fused_cpu, "Pace", pace)
            engine = fused(data, **parts)
            stats = [engine.run_epoch(epoch) for epoch in (1, 2)]
            found.append(([(s.loss, s.unanswered, s.effective) for s in stats], engine.state()))
    finally:
        torch.set_num_threads(before)
    assert engine._pace.ran >= {3}
    assert_same_bytes(found)


@pytest.mark.usefixtures("plenty_of_cores")
def test_another_number_of_threads_in_every_epoch_changes_no_bit():
    data = some_data(users=300, items=200, density=0.03)
    found = []
    before = torch.get_num_threads()
    try:
        for numbers in ((1, 1, 1), (3, 1, 4), (2, 5, 1)):
            engine, stats = fused(data, sampler="decomposable", batch_size=100), []
            for epoch, threads in enumerate(numbers, start=1):
                torch.set_num_threads(threads)
                stats.append((engine.refit(epoch), engine.run_epoch(epoch).loss))
                assert engine._pace.most == threads
            found.append((stats, engine.state()))
    finally:
        torch.set_num_threads(before)
    assert_same_bytes(found)


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize(("choice", "torch_uses"), [(1, 1), (2, 4)])
def test_a_refit_may_keep_torch_from_the_cores_of_the_kernels(choice, torch_uses, monkeypatch):
    before, used = torch.get_num_threads(), []
    try:
        torch.set_num_threads(4)
        engine = fused(some_data(), sampler="decomposable")
        engine._refit_pace.usual = choice
        monkeypatch.setattr(
            engine._system.sampler,
            "refit",
            lambda score, *, seed, epoch: used.append((torch.get_num_threads(), cores.threads())),
        )
        engine.refit(1)
        assert (torch.get_num_threads(), cores.threads()) == (4, 4)
    finally:
        torch.set_num_threads(before)
    assert used == [(torch_uses, 4)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_goes_on_from_a_state_as_if_never_interrupted(optimizer):
    data = some_data()
    parts = followed_by(optimizer)

    def train(engine: FusedCpuEngine, *epochs: int) -> None:
        for epoch in epochs:
            if epoch in (1, 3):
                engine.refit(epoch)
            engine.run_epoch(epoch)

    unbroken, interrupted, resumed, elsewhere = (fused(data, **parts) for _ in range(4))
    train(unbroken, 1, 2, 3, 4)
    train(interrupted, 1, 2)
    kept = interrupted.state()
    train(interrupted, 3)  # what was kept must not move with the engine
    train(elsewhere, 3, 4)  # without what was kept, another end
    resumed.load_state(kept)
    train(resumed, 3, 4)
    end = unbroken.state()
    assert resumed.state().keys() == end.keys()
    for name, tensor in end.items():
        assert torch.equal(tensor, resumed.state()[name]), name
    assert not torch.equal(elsewhere.state()["model.user_UD"], end["model.user_UD"])


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("rate", [1e5, 1e30])
def test_divergence_stops_the_run_and_says_what_to_lower(objective, rate):
    sampler = next(name for name in SAMPLERS if met(name, objective) == "sgd")
    parts = {"sampler": sampler, "objective": OBJECTIVES[objective], "optimizer": SGD(rate)}
    engine = fused(some_data(), l2=1e3, **parts)

    def train():
        for epoch in range(1, 20):
            engine.run_epoch(epoch)

    with pytest.raises(NumericalError, match="Lower the learning rate") as error:
        train()
    assert error.value.code == "diverged"


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_parameter_that_is_not_a_number_stops_the_run(objective, value):
    data = some_data()
    system = system_of(data, objective=OBJECTIVES[objective])
    with torch.no_grad():
        system.discriminator.item_ID[7, 2] = value
    engine = FusedCpuEngine(system, data, seed=5, device=CPU)
    with pytest.raises(NumericalError) as error:
        engine.run_epoch(1)
    assert error.value.code == "diverged"


class OtherDiscriminator(MatrixFactorization):
    """Scores by some other rule."""


class OtherSampler(Uniform):
    """Proposes by some other rule."""


class OtherObjective(PairwiseLogistic):
    """Minimises something else."""


def test_it_says_what_it_covers_and_why_not():
    data = some_data()
    system = system_of(data)
    assert isinstance(FusedCpuEngine.covers(system, CPU), Covered)
    for change, sentence in (
        ({"optimizer": Adam(0.1)}, "no code for the optimizer Adam"),
        ({"sampler": OtherSampler()}, "no code for the sampler OtherSampler"),
        ({"objective": OtherObjective()}, "no code for the objective OtherObjective"),
        (
            {"discriminator": OtherDiscriminator(2, 2, 3, seed=0)},
            "no code for the discriminator OtherDiscriminator",
        ),
    ):
        answer = FusedCpuEngine.covers(replace(system, **change), CPU)
        assert isinstance(answer, NotCovered)
        assert sentence in answer.why
    answer = FusedCpuEngine.covers(system, torch.device("cuda"))
    assert answer == NotCovered("it runs on the CPU, not on cuda")


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_auto_takes_it_for_all_it_covers_and_says_why(sampler, objective, optimizer):
    system = system_of(
        some_data(),
        sampler=sampler,
        objective=OBJECTIVES[objective],
        optimizer=OPTIMIZERS[optimizer],
    )
    for name in ("auto", "fused-cpu"):
        engine, why = choose_engine(name, system, CPU)
        assert engine is FusedCpuEngine
        assert "one compiled loop" in why


def test_dense_adam_is_left_to_eager_and_refused_by_name():
    system = system_of(some_data(), optimizer=Adam(0.01))
    engine, why = choose_engine("auto", system, CPU)
    assert engine is EagerEngine
    assert "any composition" in why
    with pytest.raises(UsageError, match="no code for the optimizer Adam") as error:
        choose_engine("fused-cpu", system, CPU)
    assert error.value.code == "not_covered"


def test_without_numba_it_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert FusedCpuEngine.covers(system_of(some_data()), CPU) == NotCovered(
        "Numba is not installed"
    )
