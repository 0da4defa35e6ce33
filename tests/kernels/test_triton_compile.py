"""What the interpreter lets pass, the compiler may refuse: every launch compiles for Hopper."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed on this machine")

COMPILE_ALL = """
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sdgar.engines.fused import gpu, gpu_tables, plan
from sdgar.kernels.triton import draws, epoch, mixtures, picks
from tests.engines.compositions import CPU, MET, SDGAR

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
for number, one in enumerate(MET):
    if one.fields or plan.GPU.misfit(one.probe()) is not None:
        continue
    positives = 1 + 2 * (number % 2)
    data = one.data(weighted=positives > 1)
    system = one.system(data, dim=12, batch_size=64, positives_per_visit=positives)
    engine = gpu.FusedGpuEngine(system, data, seed=0, device=CPU)
    engine._tables.tiles = gpu_tables.Tiles.of(4, 4, 16, 8, 4, torch.device("cuda"))
    engine._draw(0)
    engine._run_steps(1)
    if one is SDGAR:
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
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(done.stdout.split()) == {
        *("draw_visits", "log_q", "pick_negatives", "claim_rows", "add_gradients", "move_rows"),
        *("_draw", "_log_mix", "_log_average"),
    }
