"""The bounds of the source: its size, its files, its classes, and the order of its packages."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "sdgar"
MOST_LINES, MOST_FILES = 66_000, 440
"""The most lines and files of the whole package."""
LONGEST_FILE, LONG_FILE, MOST_LONG_FILES = 500, 350, 5
"""The most lines of a file, the lines from which it is long, and the most files that are."""
MOST_TYPE_TESTS = 40
"""The most calls of ``isinstance`` on classes of the package."""


@cache
def _trees() -> dict[Path, ast.Module]:
    return {
        file.relative_to(ROOT): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(ROOT.rglob("*.py"))
    }


def _lines() -> dict[str, int]:
    return {
        str(file): len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in _trees()
    }


def _classes() -> dict[str, list[Path]]:
    found = defaultdict(list)
    for file, tree in _trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(file)
    return found


def test_the_package_has_a_bounded_size():
    lines = _lines()
    assert sum(lines.values()) <= MOST_LINES
    assert len(lines) <= MOST_FILES


def test_files_are_short():
    long = {file: n for file, n in _lines().items() if n > LONG_FILE}
    assert not {file: n for file, n in long.items() if n > LONGEST_FILE}
    assert len(long) <= MOST_LONG_FILES, long


def test_public_classes_have_names_of_their_own():
    outside = {
        name: [file for file in files if file.parts[0] != "kernels"]
        for name, files in _classes().items()
        if not name.startswith("_")
    }
    shared = {name: files for name, files in outside.items() if len(files) > 1}
    assert shared == {}


def test_few_calls_ask_for_the_class_of_an_object():
    own = set(_classes())
    found = [
        f"{file}:{node.lineno}"
        for file, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and own & set(_names(node.args[1]))
    ]
    assert len(found) <= MOST_TYPE_TESTS, found


def _names(node: ast.AST) -> list[str]:
    """Return the names in an expression, attributes included."""
    names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    return names + [one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)]


def _layers() -> dict[str, int]:
    """Return the height of each package by name, as the import linter is configured."""
    configured = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    layers = configured["tool"]["importlinter"]["contracts"][0]["layers"]
    return {name.strip(): -place for place, layer in enumerate(layers) for name in layer.split("|")}


def _imported(tree: ast.Module) -> set[str]:
    """Return the packages that a module imports anywhere, also for types and in functions."""
    found = set()
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{one.name}" for one in node.names]
        parts = [name.split(".") for name in names]
        found |= {one[1] for one in parts if one[0] == "sdgar" and len(one) > 1}
    return found


def test_packages_import_only_lower_ones():
    layers = _layers()
    climbs = set()
    for file, tree in _trees().items():
        here = file.parts[0].removesuffix(".py")
        for other in (_imported(tree) & set(layers)) - {here} if here in layers else ():
            if layers[other] >= layers[here]:
                climbs.add(f"{here} -> {other}")
    assert climbs == set()
