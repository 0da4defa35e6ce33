"""Run the numeric tests as other machines would: ``make test-numerics``.

Every run takes the same tests with other threads, other instructions or other rounding, and the
table at the end says which of them held. What a processor cannot do is left out, with the reason.
Rounding of any machine is imitated by ``--last-bits`` (last_bits.py), so a fault that shows itself
only on x86-64 is found on Arm too, and the other way round.

The tests compare rounded numbers: scores, losses, gradients, parameters,
probabilities, metrics, and what was learned by them. Left out is what is exact on any machine or
has no numbers: files, commands, interruptions, random words, the order of an epoch, threads that
wait for each other, and where compiled code is kept. Answers to several threads are left out too:
last bits move in the thread of the test alone.

    python tests/numerics.py                 # all of it, some minutes a run
    python tests/numerics.py last-bits       # only the runs whose name begins so
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
TESTS = (
    "conformance", "discriminators", "engines", "evaluation", "kernels", "maths", "models", "paper",
    "recommend/test_recommender.py", "samplers", "systems",
    "test_checkerboard.py", "test_composed.py", "test_numerics.py",
    "test_sparse.py",
)  # fmt: skip
"""Folders and files with tests of rounded numbers."""
LEFT_OUT = (
    "conformance/test_systems.py", "engines/test_visits.py",
    "kernels/test_compiled.py", "kernels/test_numba_rng.py", "kernels/test_numba_threads.py",
    "kernels/test_numba_variants.py", "kernels/test_triton_compile.py",
    "kernels/test_triton_rng.py", "models/test_new_users.py", "paper/test_paper_map.py",
    "systems/test_cli.py",
)  # fmt: skip
"""Files of these folders that compare no rounded number."""

Run = tuple[str, dict[str, str], list[str]]
"""What is different, as a name, as variables and as words for pytest."""


def runs() -> list[Run]:
    """Every run that this machine can make."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if platform.machine() in ("x86_64", "AMD64"):
        levels = [("avx2", "avx2"), ("avx512", "avx512f")]
        capabilities = ["default", *(level for level, flag in levels if flag in flags)]
        blas = ["Nehalem", "Haswell", "SkylakeX" if "avx512f" in flags else "Zen"]
        mkl = ["SSE4_2", "AVX2", *(["AVX512"] if "avx512f" in flags else [])]
    else:
        capabilities, blas, mkl = ["default"], ["ARMV8", "NEOVERSEN1"], []
    made: list[Run] = [
        (f"threads {n}", {"OMP_NUM_THREADS": str(n), "NUMBA_NUM_THREADS": str(n)}, [])
        for n in (1, 2, 4)
    ]
    made += [(f"torch {one}", {"ATEN_CPU_CAPABILITY": one}, []) for one in capabilities]
    made += [(f"openblas {one}", {"OPENBLAS_CORETYPE": one}, []) for one in blas]
    made += [(f"mkl {one}", {"MKL_ENABLE_INSTRUCTIONS": one}, []) for one in mkl]
    made += [(f"last-bits {seed}", {}, ["--last-bits", str(seed)]) for seed in (1, 2, 3)]
    return made


def main(wanted: str) -> int:
    """Make the runs one after the other; the exit code says whether all held."""
    done = []
    for name, variables, words in runs():
        if not name.startswith(wanted):
            continue
        start = time.perf_counter()
        print(f"== {name}", flush=True)  # noqa: T201
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *words,
             *(str(HERE / test) for test in TESTS),
             *(f"--ignore={HERE / test}" for test in LEFT_OUT)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1", **variables},
            check=False,
        )  # fmt: skip
        done.append((name, ended.returncode, time.perf_counter() - start))
    print(f"{platform.machine()}, Python {platform.python_version()}")  # noqa: T201
    for name, code, seconds in done:
        print(f"{name:<20} {'held' if code == 0 else 'FAILED':<8} {seconds:6.0f} s")  # noqa: T201
    return int(any(code for _, code, _ in done) or not done)


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
