"""docs/paper-map.md names tests and code; they exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_every_test_named_in_the_paper_map_exists(path, name):
    assert (ROOT / path).is_file()
    assert name in functions(ROOT / path)


def test_the_paper_map_misses_no_equation_and_no_line_of_the_algorithm():
    equations = {int(n) for n in re.findall(r"^\| \((\d+)\) \|", PAGE, re.MULTILINE)}
    assert equations == set(range(1, 13))
    algorithm = PAGE.split("## Algorithm 1")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d[\d, ]*) \|", algorithm, re.MULTILINE)
    lines = sorted(int(n) for row in rows for n in row.split(","))
    assert lines == list(range(1, 23))
    for said in ("Theorem 2.1", "Theorem 2.2", "Corollary 2.1", "Corollary 2.2"):
        assert f"| {said} |" in PAGE
    for number in (1, 2, 3):
        assert f"| Proposition 2.{number} |" in PAGE


def test_every_test_of_the_paper_that_is_not_a_control_is_on_the_map():
    on_the_map = {name for _, name in NAMED}
    files = ("test_optimal_generator", "test_objective", "test_variance", "test_temperature")
    for file in files:
        for name in functions(ROOT / "tests" / "paper" / f"{file}.py"):
            if name.startswith("test_") and name not in NOT_ON_THE_MAP:
                assert name in on_the_map


NOT_ON_THE_MAP = {
    "test_with_uniform_draws_the_weights_are_the_softmax_of_the_loss",
    "test_the_variance_of_any_proposal_is_the_variance_of_the_paper",
}


CODE = sorted(set(re.findall(r"`(\w+)\.(\w+)`", PAGE)))


@pytest.mark.parametrize(("owner", "member"), [c for c in CODE if c[0][0].isupper()])
def test_every_method_named_in_the_paper_map_exists(owner, member):
    import sdgar.engines.eager
    import sdgar.objectives
    import sdgar.samplers.alias
    import sdgar.samplers.closed_form
    import sdgar.samplers.decomposable
    import sdgar.samplers.sampled_sums

    modules = (
        sdgar.engines.eager,
        sdgar.objectives,
        sdgar.samplers.alias,
        sdgar.samplers.closed_form,
        sdgar.samplers.decomposable,
        sdgar.samplers.sampled_sums,
    )
    found = [getattr(module, owner) for module in modules if hasattr(module, owner)]
    assert found
    assert hasattr(found[0], member)
