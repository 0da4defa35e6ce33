"""Models of vectors and item weights answer without torch, and few answers without Numba."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sdgar

HEAVY = ("torch", "numba", "scipy.sparse", "polars")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    train, _ = sdgar.split(sdgar.synthetic("demo"))
    folder = tmp_path_factory.mktemp("model")
    sdgar.Quick(dim=4).fit(train, verbose=False).save(folder / "run")
    return folder / "run"


def modules_after(program: str, run) -> set[str]:
    """Run a program in a process of its own; return which heavy modules it has imported."""
    program += f"\nimport sys\nprint('|', *(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(run)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("|")[2].split())


def test_a_list_for_a_user_imports_none_of_the_heavy_modules(run):
    program = """
import sys, sdgar
model = sdgar.load(sys.argv[1])
found = model.recommend_lists(model.users.values[:2].tolist(), k=3).dicts()
assert all(len(one["items"]) == 3 for one in found)
"""
    assert modules_after(program, run) == set()


def test_the_command_for_a_user_imports_none_of_the_heavy_modules(run):
    program = """
import runpy, sys
sys.argv = ["sdgar", "recommend", sys.argv[1], "--user", "user-0001", "-k", "3"]
try:
    runpy.run_module("sdgar", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
"""
    assert modules_after(program, run) == set()


def test_everything_but_training_imports_no_torch(run, tmp_path):
    program = f"""
import sys, sdgar
import sdgar.serve.app
model = sdgar.load(sys.argv[1])
train, test = sdgar.split(sdgar.synthetic("demo"))
model.evaluate(test)
model.fold_in({{"new": model.items.values[:3].tolist()}}).recommend(k=2)
model.explain(model.users.values[0])
model.similar_items(model.items.values[0])
model.prepare()
for to in ("numpy", "parquet"):
    sdgar.export(model, to, {str(tmp_path)!r} + "/" + to)
"""
    assert "torch" not in modules_after(program, run)
