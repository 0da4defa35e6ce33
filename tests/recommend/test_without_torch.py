"""Models of vectors and item weights answer without torch, and few answers without Numba."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sdgar

HEAVY = ("torch", "numba", "scipy.sparse", "polars")
OTHERS = (
    "polars", "pandas", "typer", "rich", "optuna", "matplotlib", "sdgar.cli", "sdgar.contracts",
    "sdgar.discriminators", "sdgar.engines", "sdgar.lab", "sdgar.objectives", "sdgar.parts",
    "sdgar.samplers", "sdgar.systems.base", "sdgar.training",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    train, _ = sdgar.split(sdgar.synthetic("demo"))
    folder = tmp_path_factory.mktemp("model")
    sdgar.Quick(dim=4).fit(train, verbose=False).save(folder / "run")
    return folder / "run"


def modules_after(program: str, run, modules: tuple[str, ...] = HEAVY) -> set[str]:
    """Run a program in another process; return which of some modules it has imported."""
    program += f"\nimport sys\nprint('|', *(m for m in {modules!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(run)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("|")[2].split())


LIST = """
import sys, sdgar
model = sdgar.load(sys.argv[1])
found = model.recommend_lists(model.users.values[:2].tolist(), k=3).dicts()
assert all(len(one["items"]) == 3 for one in found)
"""
COMMAND = """
import runpy, sys
sys.argv = ["sdgar", "recommend", sys.argv[1], "--user", "user-0001", "-k", "3"]
try:
    runpy.run_module("sdgar", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
"""
OTHER_LISTS = """
import sys, sdgar
model = sdgar.load(sys.argv[1])
items = model.items.values[:3].tolist()
for found in (
    model.recommend_lists(history=items, k=2), model.recommend_lists(["nobody"], k=2),
    model.similar_lists("item", items, k=2),
):
    assert all(one["items"] for one in found.dicts())
"""


@pytest.mark.parametrize(
    ("program", "modules"),
    [(LIST, (*HEAVY, *OTHERS)), (COMMAND, HEAVY), (OTHER_LISTS, OTHERS)],
    ids=["a list", "a command", "other lists"],
)
def test_lists_import_none_of_the_heavy_modules(run, program, modules):
    """Nor do lists need frames, the command line or the code of training."""
    assert modules_after(program, run, modules) == set()


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
