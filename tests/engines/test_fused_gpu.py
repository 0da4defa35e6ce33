"""The fused GPU engine makes the eager engine's updates, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from sdgar.engines.fused.gpu import FusedGpuEngine

from sdgar.contracts import Covered, Negatives, NotCovered, Sampler, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.cosine import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.discriminators.metric import Metric
from sdgar.engines import fused_gpu
from sdgar.engines.choose import choose_engine
from sdgar.engines.eager import EagerEngine
from sdgar.engines.visits import Visits
from sdgar.errors import NumericalError, UsageError
from sdgar.maths.optimizers import SGD, Adam, LazyAdam, RowAdagrad
from sdgar.maths.rng import Draws, Stream
from sdgar.objectives import (
    CmlHinge,
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)
from sdgar.samplers.closed_form import ClosedForm
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.reject import KnownItems
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Popularity, Uniform

pytest.importorskip("triton", reason="Triton is not installed on this machine")
if os.environ.get("TRITON_INTERPRET") != "1" and not torch.cuda.is_available():
    pytest.skip(
        "Triton needs a GPU, or TRITON_INTERPRET=1 set before Python starts, as make test does",
        allow_module_level=True,
    )
DEVICE = torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

SAMPLERS = ("uniform", "popularity", "decomposable")
PICKS = {"hardest": HardestOf(3), "violation": FirstViolation(0.05, 6)}
OBJECTIVES = (
    PairwiseLogistic(),
    Logistic(),
    WeightedLogistic(0.5),
    WeightedLogistic(0.5, hold_weights=True),
)
# A larger ε than the default: where a gradient cancels out, ε decides how much of its rounding
# Adam's first steps blow up, and small batches have large gradients.
OPTIMIZERS = (SGD(0.5), LazyAdam(0.02, epsilon=1e-6), RowAdagrad(0.1))


@pytest.fixture(scope="module")
def data() -> Interactions:
    """About 120 rows; context 3 knows every item but one, context 4 knows all of them."""
    return some_data(weighted=True)


def some_data(*, weighted: bool) -> Interactions:
    rng = np.random.default_rng(0)
    liked = rng.random((20, 16)) < 0.25
    liked[3, :15], liked[4] = True, True
    liked[:, 15] |= rng.random(20) < 0.2
    liked[3, 15] = False
    users, items = np.nonzero(liked)
    weight = rng.uniform(0.2, 3, len(users)) if weighted else None
    return Interactions.from_arrays(users, items, weight=weight)


def sampler_of(name: str, data: Interactions) -> Sampler:
    if name == "uniform":
        return Uniform()
    if name in PICKS:
        return PICKS[name]
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
    optimizer = changes.get("optimizer", SGD(0.5))
    parts = {
        "name": "test",
        "discriminator": MatrixFactorization(
            data.n_users, data.n_items, dim, seed=0, sparse=optimizer.row_wise
        ),
        "sampler": sampler_of(sampler, data),
        "objective": PairwiseLogistic(),
        "optimizer": optimizer,
        "n_negatives": 3,
        "batch_size": 24,
        "l2": 0.01,
    }
    return System(**(parts | changes))


def fused(data: Interactions, **changes) -> FusedGpuEngine:
    return FusedGpuEngine(system_of(data, **changes), data, seed=5, device=DEVICE)


def assert_same_epochs(data: Interactions, epochs: int = 1, **changes) -> None:
    eager = EagerEngine(system_of(data, **changes), data, seed=5, device=DEVICE)
    engine = fused(data, **changes)
    for epoch in range(1, epochs + 1):
        expected, stats = eager.run_epoch(epoch), engine.run_epoch(epoch)
        assert stats.loss == pytest.approx(expected.loss, rel=1e-5)
        assert (stats.positives, stats.unanswered) == (expected.positives, expected.unanswered)
        assert (stats.effective is None) == (expected.effective is None)
        if expected.effective is not None:
            assert stats.effective == pytest.approx(expected.effective, rel=1e-4)
    reached = engine.state()
    for name, table in eager.state().items():
        if name.startswith("model."):
            error = (table - reached[name]).norm() / table.norm()
            assert error < 1e-5, f"{name} is off by {error:.1e}"


@pytest.mark.parametrize("o", range(4))
@pytest.mark.parametrize("s", range(3))
def test_an_epoch_is_that_of_the_eager_engine(data, s, o):
    """Every pair of sampler, objective and optimiser occurs; the benchmark tries all triples."""
    both = (s + o) % 2
    assert_same_epochs(
        data if both else some_data(weighted=False),
        sampler=SAMPLERS[s],
        objective=OBJECTIVES[o],
        optimizer=OPTIMIZERS[(s + o) % 3],
        positives_per_visit=3 if (s + o // 2) % 2 else 1,
        l2=0.02 if both else 0.0,
    )


@pytest.mark.parametrize(("objective", "per_visit"), [(OBJECTIVES[0], 1), (OBJECTIVES[1], 3)])
def test_the_hardest_candidate_is_that_of_the_eager_engine(data, objective, per_visit):
    assert_same_epochs(
        data,
        epochs=2,
        sampler="hardest",
        objective=objective,
        optimizer=OPTIMIZERS[2],
        positives_per_visit=per_visit,
    )


def test_the_first_violation_and_its_rank_are_those_of_the_eager_engine(data):
    parts = {"sampler": "violation", "n_negatives": 1, "optimizer": OPTIMIZERS[2]}
    assert_same_epochs(data, epochs=3, objective=WarpHinge(0.05, data.n_items), **parts)


def test_adaptive_orders_are_drawn_as_by_the_eager_engine(data):
    """One sampler for both: it is made with the start of a model, and both start there."""
    model = MatrixFactorization(data.n_users, data.n_items, 5, seed=0)
    with torch.no_grad():
        model.bias_I += torch.arange(data.n_items) * 0.01
    parts = {"sampler": "uniform", "optimizer": OPTIMIZERS[2]}
    eager, engine = (
        kind(
            replace(system_of(data, **parts), sampler=RankByFactor(model, 0.2)),
            data,
            seed=5,
            device=DEVICE,
        )
        for kind in (EagerEngine, FusedGpuEngine)
    )
    assert engine.run_epoch(1).loss == pytest.approx(eager.run_epoch(1).loss, rel=1e-5)
    for name, table in eager.state().items():
        if name.startswith("model."):
            assert (table - engine.state()[name]).norm() / table.norm() < 1e-5


@pytest.mark.parametrize("per_visit", [1, 2])
def test_points_of_a_ball_move_as_by_the_eager_engine(data, per_visit):
    parts = {
        "optimizer": RowAdagrad(0.3),
        "objective": CmlHinge(2.0, data.n_items),
        "positives_per_visit": per_visit,
        "l2": 0.0,
    }
    eager, engine = (
        kind(
            replace(
                system_of(data, **parts),
                discriminator=Metric(data.n_users, data.n_items, 5, seed=0, sparse=True),
            ),
            data,
            seed=5,
            device=DEVICE,
        )
        for kind in (EagerEngine, FusedGpuEngine)
    )
    for epoch in (1, 2, 3):
        expected, stats = eager.run_epoch(epoch), engine.run_epoch(epoch)
        assert stats.loss == pytest.approx(expected.loss, rel=1e-5)
        assert stats.unanswered == expected.unanswered
    reached = engine.state()
    for name, table in eager.state().items():
        if name.startswith("model."):
            assert (table - reached[name]).norm() / table.norm() < 1e-5
    # Some were projected.
    assert (reached["model.item_ID"].norm(dim=1) > 0.9999).any()


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(("per_visit", "rho", "bias"), [(1, 1.0, False), (2, 1.2, True)])
def test_angles_move_as_by_the_eager_engine(data, per_visit, rho, bias, sampler):
    parts = {
        "sampler": sampler,
        "optimizer": OPTIMIZERS[2],
        "objective": SampledSoftmax(rho),
        "positives_per_visit": per_visit,
        "l2": 0.3,
    }
    eager, engine = (
        kind(
            replace(
                system_of(data, **parts),
                discriminator=Cosine(
                    data.n_users, data.n_items, 5, seed=0, tau=0.3, sparse=True, bias=bias
                ),
            ),
            data,
            seed=5,
            device=DEVICE,
        )
        for kind in (EagerEngine, FusedGpuEngine)
    )
    for epoch in (1, 2):
        expected, stats = eager.run_epoch(epoch), engine.run_epoch(epoch)
        assert stats.loss == pytest.approx(expected.loss, rel=1e-5)
        assert stats.effective == pytest.approx(expected.effective, rel=1e-4)
        assert stats.unanswered == expected.unanswered > 0
    reached = engine.state()
    for name, table in eager.state().items():
        if name.startswith("model."):
            assert (table - reached[name]).norm() / table.norm() < 1e-5
    for name in ("model.user_UD", "model.item_ID"):
        assert (reached[name].norm(dim=1) - 1).abs().max() < 1e-5


def test_nobody_gets_the_interpreter_by_chance(data):
    """It covers what no other compiled engine has code for, on a CPU a thousand times slower."""
    metric = Metric(data.n_users, data.n_items, 5, seed=0)
    objective = CmlHinge(1.0, data.n_items)
    system = replace(system_of(data, objective=objective, l2=0.0), discriminator=metric)
    chosen, _ = choose_engine("auto", system, torch.device("cpu"))
    assert chosen is EagerEngine
    if DEVICE.type == "cpu":
        assert choose_engine("fused-gpu", system, DEVICE)[0] is FusedGpuEngine


def test_covariances_of_a_metric_are_not_covered(data):
    system = replace(
        system_of(data, l2=0.1), discriminator=Metric(data.n_users, data.n_items, 5, seed=0)
    )
    answer = FusedGpuEngine.covers(system, DEVICE)
    assert isinstance(answer, NotCovered)
    assert "covariances" in answer.why


@pytest.mark.parametrize(
    ("optimizer", "per_visit"),
    [(OPTIMIZERS[0], 1), (OPTIMIZERS[1], 1), (OPTIMIZERS[1], 3), (OPTIMIZERS[2], 1)],
)
def test_fifty_steps_are_those_of_the_eager_engine(data, optimizer, per_visit):
    assert_same_epochs(
        data,
        epochs=2 if per_visit == 1 else 3,
        sampler="decomposable",
        objective=WeightedLogistic(0.5),
        optimizer=optimizer,
        batch_size=per_visit * 5,
        positives_per_visit=per_visit,
    )


def negatives_of(engine: FusedGpuEngine, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    code_VN = engine._row_VW[:n, -3:].cpu()
    items_VN = torch.where(code_VN < 0, ~code_VN, code_VN) - engine._n_users
    return items_VN.long(), code_VN >= 0


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_it_draws_the_negatives_of_the_sampler(data, sampler, per_visit):
    """The same items, accepted and refused alike, whatever the rounding of a score."""
    engine = fused(data, sampler=sampler, positives_per_visit=per_visit)
    engine._numbers.copy_(engine._numbers_of(7))
    engine._draw(0)
    visits = Visits(data, per_visit, 5, torch.device("cpu"))
    batch = visits.batch(7, 0, len(visits))
    users_E = torch.from_numpy(data.users_E)
    known = KnownItems(data.history, data.n_items, torch.device("cpu"))
    expected: Negatives = sampler_of(sampler, data).sample(
        users_E[batch.first_V],
        torch.from_numpy(data.items_E).long()[batch.first_V],
        3,
        score=lambda users, items: items,
        draws=Draws(5, Stream.NEGATIVES, 7, batch.first_V[:, None]),
        known=known,
    )
    items_VN, accepted_VN = negatives_of(engine, len(visits))
    assert torch.equal(items_VN, expected.items_BN)
    assert torch.equal(accepted_VN, expected.accepted_BN)
    assert not accepted_VN.all()
    pos_VP = engine._row_VW[: len(visits), 1 : 1 + per_visit].cpu()
    assert torch.equal(
        pos_VP[pos_VP >= 0] - data.n_users,
        torch.from_numpy(data.items_E)[batch.rows_B],
    )


@pytest.mark.parametrize("optimizer", OPTIMIZERS[1:], ids=lambda record: type(record).__name__)
def test_training_goes_on_from_a_state_as_if_never_interrupted(data, optimizer):
    parts = {
        "sampler": "decomposable",
        "objective": WeightedLogistic(0.5),
        "optimizer": optimizer,
        "batch_size": 60,
    }
    unbroken, interrupted, resumed = (fused(data, **parts) for _ in range(3))
    for epoch in (1, 2, 3, 4):
        if epoch in (1, 3):
            unbroken.refit(epoch)
        unbroken.run_epoch(epoch)
    interrupted.refit(1)
    interrupted.run_epoch(1)
    interrupted.run_epoch(2)
    resumed.load_state(interrupted.state())
    resumed.refit(3)
    resumed.run_epoch(3)
    resumed.run_epoch(4)
    assert resumed.state().keys() == unbroken.state().keys()
    for name, tensor in unbroken.state().items():
        assert torch.equal(tensor, resumed.state()[name]), name


def test_the_length_of_a_chunk_changes_no_bit(data, monkeypatch):
    parts = {"sampler": "popularity", "optimizer": LazyAdam(0.02), "batch_size": 10}
    whole = fused(data, **parts)
    monkeypatch.setattr(fused_gpu, "_MOST_STEPS", 4)
    chunks = fused(data, **parts)
    assert chunks._chunk_steps < whole._chunk_steps
    for engine in (whole, chunks):
        engine.run_epoch(1)
    assert all(torch.equal(v, whole.state()[k]) for k, v in chunks.state().items())


def test_a_batch_may_be_larger_than_the_data(data):
    assert_same_epochs(data, batch_size=10_000)


def test_the_parameters_of_the_discriminator_are_those_that_are_trained(data):
    engine = fused(data)
    eager = EagerEngine(system_of(data), data, seed=5, device=DEVICE)
    for each in (engine, eager):
        with torch.no_grad():
            each._system.discriminator.bias_I += 1.0
        each.run_epoch(1)
    torch.testing.assert_close(engine._model.bias_I, eager._model.bias_I)


# NumPy, which the interpreter computes with, warns of what a GPU passes over.
@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
@pytest.mark.parametrize("rate", [1e5, 1e30])
def test_divergence_stops_the_run_and_says_what_to_lower(data, rate):
    engine = fused(data, optimizer=SGD(rate), l2=1e3)
    with pytest.raises(NumericalError, match="Lower the learning rate"):
        engine.run_epoch(1)


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
def test_a_parameter_that_is_not_a_number_stops_the_run(data):
    engine = fused(data)
    with torch.no_grad():
        engine._system.discriminator.item_ID[3, 2] = torch.nan
    with pytest.raises(NumericalError, match="the loss became nan"):
        engine.run_epoch(1)


def test_it_says_what_it_covers(data):
    system = system_of(data)
    assert isinstance(FusedGpuEngine.covers(system, DEVICE), Covered)

    class OtherSampler(Uniform):
        """Not one of those that have a kernel."""

    for change, sentence in (
        ({"optimizer": Adam(0.1)}, "no kernel for the optimizer Adam"),
        ({"sampler": OtherSampler()}, "no kernel for the sampler OtherSampler"),
        (
            {"discriminator": MatrixFactorization(2, 2, 3, seed=0).double()},
            "compute in float32, and the parameters are torch.float64",
        ),
        ({"n_negatives": 65}, "n_negatives = 65 is above 64"),
        ({"positives_per_visit": 33}, "positives_per_visit = 33 is above 32"),
    ):
        answer = FusedGpuEngine.covers(replace(system, **change), DEVICE)
        assert isinstance(answer, NotCovered)
        assert sentence in answer.why
    with pytest.raises(UsageError, match="no kernel for the optimizer Adam"):
        FusedGpuEngine(replace(system, optimizer=Adam(0.1)), data, seed=0, device=DEVICE)


def test_without_a_gpu_or_triton_it_says_so(data, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    answer = FusedGpuEngine.covers(system_of(data), torch.device("cpu"))
    assert isinstance(answer, NotCovered)
    assert "CUDA device" in answer.why
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = FusedGpuEngine.covers(system_of(data), torch.device("cuda"))
    assert answer == NotCovered("Triton is not installed")
