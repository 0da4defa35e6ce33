"""How much of the package an import loads: files and lines, counted over the source."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"


def _is_typing_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _file_of(module: str) -> Path | None:
    """Return the file of a module or of a package; None if there is none."""
    place = SOURCE.joinpath(*module.split("."))
    files = [place.with_suffix(".py"), place / "__init__.py"]
    return next((file for file in files if file.exists()), None)


@cache
def _imported(module: str) -> frozenset[str]:
    """Return the modules of this package that importing a module loads at once."""
    file = _file_of(module)
    assert file is not None, f"there is no module {module}"
    found = set()
    waiting = list(ast.parse(file.read_text(encoding="utf-8")).body)
    while waiting:
        node = waiting.pop()
        if _is_typing_only(node) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return frozenset(name for name in found if name.split(".")[0] == "sdgar" and _file_of(name))


def closure(*modules: str) -> dict[str, int]:
    """Return the lines of each module that these modules load, packages and themselves included."""
    lines: dict[str, int] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in lines:
            continue
        file = _file_of(module)
        assert file is not None, f"there is no module {module}"
        lines[module] = len(file.read_text(encoding="utf-8").splitlines())
        waiting += _imported(module)
        waiting += [module.rpartition(".")[0]] if "." in module else []
    return lines


@pytest.mark.parametrize(
    ("modules", "most_files", "most_lines"),
    [
        (["sdgar.engines.eager"], 35, 4_000),
        (
            [
                "sdgar.systems.sdgar",
                "sdgar.samplers.decomposable",
                "sdgar.samplers.closed_form",
                "sdgar.objectives",
                "sdgar.discriminators.factorization",
            ],
            40,
            5_000,
        ),
        (["sdgar.systems.bpr"], 120, 15_000),
    ],
    ids=["the eager engine", "the parts of the paper", "BPR"],
)
def test_an_import_loads_a_bounded_part_of_the_package(modules, most_files, most_lines):
    found = closure(*modules)
    assert len(found) <= most_files, sorted(found)
    assert sum(found.values()) <= most_lines


def test_core_loads_nothing_of_the_packages_that_hang_on_it():
    found = closure("sdgar", "sdgar.systems.sdsoftmax", "sdgar.recommend.recommender")
    assert not {m for m in found if m.split(".")[1:2] in (["serve"], ["scale"], ["lab"])}
