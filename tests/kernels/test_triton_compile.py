"""What the interpreter lets pass, the compiler may refuse: every launch compiles for Hopper."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not installed on this machine")

COMPILE_ALL = """
import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.discriminators.bounded import MetricModel
from sdgar.engines.fused import gpu, gpu_tables
from sdgar.kernels.triton import draws, epoch, mixtures, picks
from sdgar.objectives import (
    PairwiseLogistic,
    CmlHinge,
    WarpHinge,
    SampledSoftmax,
    WeightedLogistic,
)
from sdgar.maths.optimizers import SGD, LazyAdam, RowAdagrad
from sdgar.samplers.closed_form import Frozen
from sdgar.samplers.rank_by_factor import RankByFactor
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import Uniform

TYPES = {torch.int32: "i32", torch.int64: "i64", torch.float32: "fp32", torch.bool: "i1"}


class Compiled:
    def __init__(self, kernel):
        self.kernel, self.arg_names = kernel, kernel.arg_names

    def __getitem__(self, grid):
        return self.launch

    def launch(self, *args, num_warps=4, **named):
        names = self.kernel.arg_names
        values = dict(zip(names, args)) | named
        constants = {one.name for one in self.kernel.params if one.is_constexpr}
        fixed = {n: v for n, v in values.items() if n in constants or v is None}
        signature = {n: "constexpr" if n in fixed else kind(values[n]) for n in names}
        source = ASTSource(
            self.kernel, signature, constexprs={(names.index(n),): v for n, v in fixed.items()}
        )
        triton.compile(source, GPUTarget("cuda", 90, 32), options={"num_warps": num_warps})
        print(self.kernel.__name__)


def kind(value):
    if isinstance(value, torch.Tensor):
        return "*" + TYPES[value.dtype]
    return "i32" if isinstance(value, int) else "fp32"


for module, names in (
    (draws, ("draw_visits", "log_q")),
    (epoch, ("claim_rows", "add_gradients", "move_rows")),
    (picks, ("pick_negatives",)),
    (mixtures, ("_draw", "_log_mix", "_log_average")),
):
    for name in names:
        setattr(module, name, Compiled(getattr(module, name)))
gpu._why_not = lambda system, device: None
rng = np.random.default_rng(0)
users, items = np.nonzero(rng.random((30, 20)) < 0.3)


def generator(data):
    return Decomposable(data.n_users, data.n_items, 6, seed=0, update=Frozen())


def size(data):
    return data.n_users, data.n_items, 12


def matrix(data):
    return MatrixFactorization(*size(data), seed=0)


def cosine(data):
    return Cosine(*size(data), seed=0, tau=0.2, bias=True)


def metric(data):
    return MetricModel(*size(data), seed=0)


def orders(data):
    return RankByFactor(matrix(data), 0.2)


# Systems that draw alike have as many positives and negatives, so that Triton keeps the kernel.
violation = WarpHinge(1.0, 20)
impostors = CmlHinge(1.0, 20)
for weighted, make_model, make_sampler, objective, optimizer, positives, negatives in (
    (True, matrix, lambda data: Uniform(), PairwiseLogistic(), SGD(0.1), 3, 3),
    (False, matrix, generator, WeightedLogistic(0.5), LazyAdam(0.1), 1, 3),
    (False, matrix, orders, PairwiseLogistic(), RowAdagrad(0.1), 1, 1),
    (False, matrix, lambda data: HardestOf(5), PairwiseLogistic(), RowAdagrad(0.1), 1, 1),
    (False, matrix, lambda data: FirstViolation(1.0, 5), violation, RowAdagrad(0.1), 1, 1),
    (True, metric, lambda data: Uniform(), impostors, RowAdagrad(0.1), 3, 3),
    (False, cosine, generator, SampledSoftmax(1.2), RowAdagrad(0.1), 1, 3),
):
    weight = rng.random(len(users)) if weighted else None
    data = Interactions.from_arrays(users, items, weight=weight)
    system = System(
        name="test",
        discriminator=make_model(data),
        sampler=make_sampler(data),
        objective=objective,
        optimizer=optimizer,
        n_negatives=negatives,
        batch_size=64,
        l2=0.0 if make_model is metric else 0.01,
        positives_per_visit=positives,
    )
    engine = gpu.FusedGpuEngine(system, data, seed=0, device=torch.device("cpu"))
    engine._tables.tiles = gpu_tables.Tiles.of(4, 4, 16, 8, 4, torch.device("cuda"))
    engine._draw(0)
    engine._run_steps(1)
    if isinstance(system.objective, WeightedLogistic):
        sampler, rows_B = system.sampler, torch.arange(4)
        others_BS = torch.zeros(4, 5, dtype=torch.int64)
        mixtures.draw(
            sampler.state_of.bin_RN, sampler.item_of.bin_RN, rows_B[:, None],
            addresses=rows_B[:, None], slots=torch.arange(5), seed=1, tail=2,
        )
        mixtures.log_mix(sampler.x_UK, rows_B, sampler.y_IK, others_BS)
        mixtures.log_average(torch.zeros(4, 5), sampler.y_IK, others_BS)
"""


@pytest.mark.slow
def test_every_kernel_that_an_epoch_launches_compiles(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILE_ALL],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(done.stdout.split()) == {
        *("draw_visits", "log_q", "pick_negatives", "claim_rows", "add_gradients", "move_rows"),
        *("_draw", "_log_mix", "_log_average"),
    }
