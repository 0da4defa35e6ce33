"""Every public module, class, function and field has a sentence, in words that a newcomer knows.

These sentences become ``--help`` and the pages of the API, where each stands alone. They are found
in the source text, so nothing is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import prose

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "sdgar"
MODULES = sorted(SRC.rglob("*.py"))

LEAST_WORDS = 3
_RELATIONS = re.compile(r"[=∝≈≤≥∈←]|->")
_PLAIN_WORD = re.compile(r"a|[a-z]{2,}")
_FUNCTIONS = ("log", "exp")


def complaint(docstring: str) -> str | None:
    """Say what is wrong with the first sentence of a docstring; None if nothing is."""
    if not docstring.strip():
        return "no docstring"
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    equation = bool(_RELATIONS.search(docstring.strip().splitlines()[0]))
    sentence = re.match(r".*?[.](?=\s|$)", paragraph)
    if sentence is None and not equation:
        return "no full stop"
    words = (sentence[0] if sentence else paragraph).split()
    if len(words) < LEAST_WORDS:
        return f"fewer than {LEAST_WORDS} words"
    first = words[0].rstrip(",:;.")
    if not equation and _PLAIN_WORD.fullmatch(first) and first not in _FUNCTIONS:
        return "starts with a lower-case word"
    return None


def is_public(name: str) -> bool:
    return not name.startswith("_")


def is_dataclass(node: ast.ClassDef) -> bool:
    """Whether the fields of a class are what it is made from, so that each needs a sentence.

    Fields of an estimator can have the sentence of its base class.
    """
    marks = [ast.unparse(mark).split("(")[0] for mark in node.decorator_list]
    return any(mark.split(".")[-1] == "dataclass" for mark in marks)


def text_of(node: ast.stmt | None) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else None
    return None


def fields_of(node: ast.ClassDef | ast.Module) -> Iterator[tuple[str, int, bool, str | None]]:
    """Yield the public names of a body: name, line, whether it is a field, and the text below."""
    for statement, below in zip(node.body, [*node.body[1:], None], strict=True):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if is_public(name):
                field = not ast.unparse(kind).startswith("ClassVar")
                yield name, statement.lineno, field, text_of(below)
            case ast.Assign(targets=[ast.Name(id=name)]) if is_public(name):
                yield name, statement.lineno, False, text_of(below)


def docstrings(node: ast.Module | ast.ClassDef, where: str) -> Iterator[tuple[str, int, str]]:
    """Yield the name, the line and the sentence of what is public in a body.

    Modules, classes and functions without one are found by the linter.
    """
    required = isinstance(node, ast.ClassDef) and is_dataclass(node)
    for name, line, field, text in fields_of(node):
        if text is not None or (required and field):
            yield f"{where}.{name}", line, text or ""
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef) and is_public(inner.name):
            if text := ast.get_docstring(inner):
                yield f"{where}.{inner.name}", inner.lineno, text
            if isinstance(inner, ast.ClassDef):
                yield from docstrings(inner, f"{where}.{inner.name}")


def complaints(source: str, where: str = "module") -> list[str]:
    tree = ast.parse(source)
    everything = [(where, 1, ast.get_docstring(tree) or ""), *docstrings(tree, where)]
    return [
        f"line {line}: {name}: {wrong}"
        for name, line, text in everything
        if (wrong := complaint(text))
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_everything_public_has_a_sentence(path):
    where = ".".join(path.relative_to(SRC.parent).with_suffix("").parts)
    assert complaints(path.read_text(encoding="utf-8"), where) == []


@pytest.mark.parametrize(
    ("docstring", "wrong"),
    [
        ("  ", "no docstring"),
        ("The size of vectors", "no full stop"),
        ("Of Adam.", "fewer than 3 words"),
        ("As PNG. It can be large.", "fewer than 3 words"),
        ("where the part computes.", "starts with a lower-case word"),
        ("The size D of vectors.", None),
        ("f = softplus(g)", None),
        ("w_b ∝ exp(f_b / T), which is\nnever reduced.", None),
        ("a share of the rows.", "starts with a lower-case word"),
        ("users_B of the batch, as they are.", None),
        ("log Q(i | c) of the negatives.", None),
        ("u has no numbers.", None),
        ("``lam`` and what it weighs.", None),
        ("The text goes on\nin a second line. And in a second sentence.", None),
    ],
)
def test_a_sentence_is_judged(docstring, wrong):
    assert complaint(docstring) == wrong


def test_what_is_missing_is_found_wherever_it_is():
    source = '''
from dataclasses import dataclass

NAME = 1
"""of people"""

def f(): ...

@dataclass(frozen=True)
class A:
    """A class with two fields."""
    made: ClassVar[int] = 0
    x: int
    y: int = 0
    """The other of the two."""
    _z: int = 0

    def method(self): ...

    def _private(self): ...
'''
    assert complaints(source) == [
        "line 1: module: no docstring",
        "line 4: module.NAME: no full stop",
        "line 13: module.A.x: no docstring",
    ]


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_words_are_plain(folder):
    assert prose.all_findings([ROOT / folder]) == []


def test_banned_words_are_found_wherever_they_stand(tmp_path):
    module = tmp_path / "few.py"
    module.write_text(
        '''"""Items of a user."""
# a comment whose last word is
# beside
def tell_all(whom, n_asked): """Give all of
    those that are left."""
class Room:
    x = f"it goes {2} or goes on"  # it goes on disk, besides
    held_out, unfelt_rooms, household = "told", 1, 2
'''
    )
    assert prose.findings(module) == [
        (1, "module few"),
        (2, "beside"),
        (4, "docstring begins with Give"),
        (4, "name n_asked"),
        (4, "name tell_all"),
        (4, "name whom"),
        (4, "those of"),
        (6, "name Room"),
        (7, "goes on"),
        (8, "name unfelt_rooms"),
        (8, "told"),
    ]
