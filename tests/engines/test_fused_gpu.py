"""What the fused GPU engine has beyond all engines: its draws, chunks, bounds and sentences.

``tests/conformance/test_engines.py`` compares its epochs with eager.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import Cosine, MetricModel
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines.choose import choose_engine
from sdgar.engines.eager import EagerEngine
from sdgar.engines.fused import gpu_tables
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.engines.protocol import Coverage
from sdgar.maths.optimizers import LazyAdam, RowAdagrad
from sdgar.objectives import CmlHinge, SampledSoftmax
from sdgar.samplers.static import Uniform

from ..triton_interpreter import require_triton
from .compositions import (
    OPTIMIZERS,
    POPULAR,
    SDGAR,
    Composition,
    assert_same_epochs,
    some_data,
)

DEVICE = require_triton()
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


def test_it_says_what_is_too_large_for_it(data):
    system = POPULAR.system(data)
    for change, sentence in (
        (
            {"discriminator": MatrixFactorization(2, 2, 3, seed=0).double()},
            "compute in float32, and the parameters are torch.float64",
        ),
        ({"n_negatives": 65}, "n_negatives = 65 is above 64"),
        ({"positives_per_visit": 33}, "positives_per_visit = 33 is above 32"),
    ):
        assert sentence in FusedGpuEngine.covers(replace(system, **change), DEVICE).why


def test_without_a_gpu_or_triton_it_says_so(data, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    answer = FusedGpuEngine.covers(POPULAR.system(data), torch.device("cpu"))
    assert not answer.runs
    assert "CUDA device" in answer.why
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = FusedGpuEngine.covers(POPULAR.system(data), torch.device("cuda"))
    assert answer == Coverage(False, "Triton is not installed")
