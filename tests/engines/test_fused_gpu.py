"""What the fused GPU engine has beyond all engines: its draws, chunks, bounds and sentences.

``tests/conformance/test_engines.py`` compares its epochs with eager.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sdgar.contracts import Negatives, Positives
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import Cosine, MetricModel
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.choose import choose_engine
from sdgar.engines.eager import EagerEngine
from sdgar.engines.fused import gpu_tables
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.engines.protocol import Coverage
from sdgar.engines.visits import Visits
from sdgar.errors import NumericalError, UsageError
from sdgar.maths.optimizers import SGD, Adam, LazyAdam, RowAdagrad
from sdgar.maths.rng import Draws, Stream
from sdgar.objectives import CmlHinge, SampledSoftmax
from sdgar.samplers.static import KnownItems, Uniform

from .compositions import GPU as DEVICE
from .compositions import (
    INTERPRETED,
    OPTIMIZERS,
    PAIRWISE_ADAM,
    POPULAR,
    SAMPLERS,
    SDGAR,
    Composition,
    assert_same_epochs,
    some_data,
)

pytest.importorskip("triton", reason="Triton is not installed on this machine")
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip(
        "Triton needs a GPU, or TRITON_INTERPRET=1 set before Python starts, as make test does",
        allow_module_level=True,
    )
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
METRIC = Composition(Uniform, MetricModel, CmlHinge, RowAdagrad)
COSINE = Composition(Uniform, Cosine, SampledSoftmax, RowAdagrad, bias=True)


@pytest.fixture(scope="module")
def data() -> Interactions:
    """About 100 rows; every item but one is known to context 3, and all items to context 4."""
    return some_data(users=16, items=14)


def fused(one: Composition, data: Interactions, **changes) -> FusedGpuEngine:
    system = one.system(data, **({"batch_size": 24} | changes))
    return FusedGpuEngine(system, data, seed=5, device=DEVICE)


def test_some_points_are_projected_onto_the_ball(data):
    options = {"optimizer": RowAdagrad(0.3), "positives_per_visit": 2, "batch_size": 24}
    engine, _ = assert_same_epochs(FusedGpuEngine, DEVICE, METRIC, data, epochs=2, **options)
    assert (engine.state()["model.item_ID"].norm(dim=1) > 0.9999).any()


def test_directions_stay_on_the_sphere(data):
    options = {"l2": 0.3, "positives_per_visit": 2, "batch_size": 24}
    engine, _ = assert_same_epochs(FusedGpuEngine, DEVICE, COSINE, data, epochs=2, **options)
    for name in ("model.user_UD", "model.item_ID"):
        assert (engine.state()[name].norm(dim=1) - 1).abs().max() < 1e-5


def test_nobody_gets_the_interpreter_by_chance(data):
    """On a CPU it is a thousand times slower than other engines, so it must be named."""
    system = METRIC.system(data)
    chosen, _ = choose_engine("auto", system, torch.device("cpu"))
    assert chosen is FusedCpuEngine
    if DEVICE.type == "cpu":
        assert choose_engine("fused-gpu", system, DEVICE)[0] is FusedGpuEngine


def test_forty_steps_are_those_of_the_eager_engine(data):
    parts = {"positives_per_visit": 3, "batch_size": 6, "optimizer": OPTIMIZERS[LazyAdam]}
    engine, _ = assert_same_epochs(FusedGpuEngine, DEVICE, SDGAR, data, epochs=3, **parts)
    assert 3 * engine.n_steps >= 40


def negatives_of(engine: FusedGpuEngine, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    code_VN = engine._tables.row_VW[:n, -3:].cpu()
    items_VN = torch.where(code_VN < 0, ~code_VN, code_VN) - engine._tables.n_users
    return items_VN.long(), code_VN >= 0


@pytest.mark.parametrize("per_visit", [1, 3])
@pytest.mark.parametrize("one", [PAIRWISE_ADAM, POPULAR, SDGAR], ids=str)
def test_it_draws_the_negatives_of_the_sampler(data, one, per_visit):
    """The same items, accepted and refused alike, whatever the rounding of a score."""
    engine = fused(one, data, positives_per_visit=per_visit)
    engine._numbers.copy_(engine._numbers_of(7))
    engine._draw(0)
    visits = Visits(data, per_visit, 5, torch.device("cpu"))
    batch = visits.batch(7, 0, len(visits))
    users_E = torch.from_numpy(data.users_E)
    known = KnownItems(data.history, data.n_items, torch.device("cpu"))
    expected: Negatives = SAMPLERS[one.sampler](data).sample(
        Positives(
            users_E[batch.first_V],
            torch.from_numpy(data.items_E).long()[batch.first_V],
            lambda users, items: items,
            Draws(5, Stream.NEGATIVES, 7, batch.first_V[:, None]),
            known,
        ),
        3,
    )
    items_VN, accepted_VN = negatives_of(engine, len(visits))
    assert torch.equal(items_VN, expected.items_BN)
    assert torch.equal(accepted_VN, expected.accepted_BN)
    assert not accepted_VN.all()
    pos_VP = engine._tables.row_VW[: len(visits), 1 : 1 + per_visit].cpu()
    assert torch.equal(
        pos_VP[pos_VP >= 0] - data.n_users,
        torch.from_numpy(data.items_E)[batch.rows_B],
    )


def test_the_length_of_a_chunk_changes_no_bit(data, monkeypatch):
    parts = {"optimizer": LazyAdam(0.02), "batch_size": 10}
    whole = fused(POPULAR, data, **parts)
    monkeypatch.setattr(gpu_tables, "MOST_STEPS", 4)
    chunks = fused(POPULAR, data, **parts)
    assert chunks._tables.chunk_steps < whole._tables.chunk_steps
    for engine in (whole, chunks):
        engine.run_epoch(1)
    assert all(torch.equal(v, whole.state()[k]) for k, v in chunks.state().items())


def test_a_batch_may_be_larger_than_the_data(data):
    assert_same_epochs(FusedGpuEngine, DEVICE, POPULAR, data, epochs=1, batch_size=10_000)


def test_the_parameters_of_the_discriminator_are_those_that_are_trained(data):
    engine = fused(POPULAR, data)
    system = POPULAR.system(data, batch_size=24)
    eager = EagerEngine(system, data, seed=5, device=DEVICE)
    for each, own in ((engine, engine.system), (eager, system)):
        with torch.no_grad():
            own.discriminator.bias_I += 1.0
        each.run_epoch(1)
    torch.testing.assert_close(engine._model.bias_I, eager._model.bias_I)


# NumPy, which the interpreter computes with, warns of what a GPU passes over.
@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
@pytest.mark.parametrize("rate", [1e5, 1e30])
def test_divergence_stops_the_run_and_says_what_to_lower(data, rate):
    engine = fused(POPULAR, data, optimizer=SGD(rate), l2=1e3)
    with pytest.raises(NumericalError, match="Lower the learning rate"):
        engine.run_epoch(1)


def test_it_says_what_it_covers(data):
    system = POPULAR.system(data)
    assert FusedGpuEngine.covers(system, DEVICE).runs

    class OtherSampler(Uniform):
        """A sampler without a kernel."""

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
        assert not answer.runs
        assert sentence in answer.why
    with pytest.raises(UsageError, match="no kernel for the optimizer Adam"):
        FusedGpuEngine(replace(system, optimizer=Adam(0.1)), data, seed=0, device=DEVICE)


def test_without_a_gpu_or_triton_it_says_so(data, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    answer = FusedGpuEngine.covers(POPULAR.system(data), torch.device("cpu"))
    assert not answer.runs
    assert "CUDA device" in answer.why
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = FusedGpuEngine.covers(POPULAR.system(data), torch.device("cuda"))
    assert answer == Coverage(False, "Triton is not installed")
