"""What the settings of a system mean, and defaults that several places share.

A setting is a field of a dataclass, and the text under it says what it does. ``help`` and ``sdgar
systems`` show that very text, so that nothing is said in two places.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from itertools import pairwise
from typing import Any, get_type_hints

KS = (10, 20, 50)
"""The lengths of lists that a report has, if no others are asked for."""
METRIC = "ndcg@50"
"""The metric that epochs and settings are chosen by, if no other is named."""
VANISHED = ("keep", "drop")
"""What becomes of rows that an earlier model has and the data of today lacks."""
CHECKPOINT_SECONDS = 60.0
"""The seconds between two checkpoints of a run."""
TOGETHER = 8
"""The number of shards whose users are in memory together."""
TEST_USERS = 20_000
"""The most users on whose rows a model that is trained on shards is measured."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a system, as it is shown to people."""

    name: str
    """The name of the setting."""
    kind: str
    """The type of the setting, as one writes it."""
    default: Any
    """The value of the setting unless another is given."""
    meaning: str
    """The text under the field; empty if the source of the class cannot be read."""


def settings_of(kind: type) -> list[Setting]:
    """Return the settings of a class in the order of its fields."""
    types = get_type_hints(kind)
    texts = {name: text for base in reversed(kind.__mro__) for name, text in _texts(base)}
    return [
        Setting(f.name, _written(types[f.name]), _default(f), texts.get(f.name, ""))
        for f in fields(kind)
    ]


def described(kind: type, docstring: str) -> str:
    """Return the docstring of a class of settings: its words, its settings, its examples."""
    words, prompt, example = inspect.cleandoc(docstring).partition("\n\n>>> ")
    said = [words]
    lines = [
        f"{s.name} : {s.kind}, default {s.default!r}\n{textwrap.indent(s.meaning, '    ')}".rstrip()
        for s in settings_of(kind)
    ]
    if lines:
        said.append("\n".join(("Parameters", "----------", *lines)))
    if example:
        said.append(f"Examples\n--------\n{prompt.strip()} {example}")
    return "\n\n".join(said) + "\n"


def _written(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _default(field: Any) -> Any:
    return field.default if field.default is not MISSING else field.default_factory()


def _texts(kind: type) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the fields of one class, each text in one line."""
    body = _classes(kind.__module__).get(kind.__qualname__, ())
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, " ".join(said.split())


@functools.cache
def _classes(module: str) -> Mapping[str, list[ast.stmt]]:
    """Return the statements of each class at the top of a module, whose source is read once."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):  # typed at a prompt, or installed without its source
        return {}
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
