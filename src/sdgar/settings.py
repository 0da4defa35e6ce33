"""Settings: single ones and groups of them, what they mean, and defaults that several places share.

A setting is a field of a dataclass, and the text under it says what it does. ``help`` and ``sdgar
systems`` show that text, so that nothing is said in two places. Settings that are rarely changed
are fields of a group, and have nested names as in scikit-learn: ``sampler__states`` is the field
``states`` of the group ``sampler``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from itertools import pairwise
from typing import Any, ClassVar, Self, cast, get_type_hints

from sdgar.errors import UsageError, unknown_name

KS = (10, 20, 50)
"""The lengths of ranked lists that a report has, by default."""
METRIC = "ndcg@50"
"""The metric that epochs and settings are chosen by, if no other is named."""
VANISHED = ("keep", "drop")
"""What is done with rows that an earlier model has and the new data lacks."""
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
    """The name of the setting; that of a group and of the field are joined by ``__``."""
    kind: str
    """The type of the setting, as one writes it."""
    default: Any
    """The value of the setting unless another is given."""
    meaning: str
    """The text under the field; empty if the source of the class cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The base class of groups of settings: frozen dataclasses with a default for each field.

    A group may name a field that leads. Its value can be given as the group, and has the name of
    the group: ``optimizer="sgd"`` changes the field ``name`` of ``optimizer``.
    """

    leading: ClassVar[str] = ""
    """The name of the field that leads; empty if none does."""

    def flat(self) -> dict[str, Any]:
        """Return the value of each field by name; the name of the field that leads is empty."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        first = {"": own.pop(self.leading)} if self.leading else {}
        return first | own

    def accepts(self, name: str) -> bool:
        """Return whether there is a field of this name that does not lead."""
        return name in self.flat() and name != ""

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """Return the group with other values of some fields; an empty name is the one that leads.

        The names must be known.
        """
        return replace(self, **{name or self.leading: value for name, value in settings.items()})

    def taken(self, name: str, value: Any) -> Self:
        """Return the group that a value stands for: a group, a dict, or a value of what leads.

        ``name`` is the name of the group, for messages.
        """
        if isinstance(value, type(self)):
            return value
        if isinstance(value, dict):
            inner = {"" if key == self.leading else key: one for key, one in value.items()}
            for key in inner:
                if key and not self.accepts(key):
                    raise unknown_name(f"setting of {name}", key, filter(None, self.flat()))
            return type(self)().changed(inner)
        if not self.leading or isinstance(value, Group):
            raise UsageError(
                f"{name} must be {type(self).__name__} or a dict of its settings, got {value!r}.",
                code="bad_setting",
            )
        return self.changed({"": value})


def joined(group: str, name: str) -> str:
    """Return the nested name of a setting; that of a setting that leads is the group's name."""
    return f"{group}__{name}" if name else group


def groups_of(kind: type) -> dict[str, type[Group]]:
    """Return the classes of those settings of a class that are groups, by name."""
    defaults = {f.name: default_of(f) for f in fields(cast("Any", kind))}
    return {name: type(value) for name, value in defaults.items() if isinstance(value, Group)}


def flat_settings(record: Any) -> dict[str, Any]:
    """Return the values of all settings of an estimator, fields of groups by nested names."""
    found: dict[str, Any] = {}
    for f in fields(record):
        value = getattr(record, f.name)
        inner = value.flat() if f.name in record._groups else {"": value}
        found |= {joined(f.name, name): one for name, one in inner.items()}
    return found


def nearest_setting(what: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown setting, with the nearest known one.

    A name without its group is compared with the names inside groups too.
    """
    known = list(known)
    inside = [full for full in known if full.rpartition("__")[2] == name]
    return unknown_name(what, name, known, near=inside[0] if inside else None)


def types_of(kind: type) -> dict[str, Any]:
    """Return the types of all settings of a class by name, fields of groups by nested names."""
    return {name: hint for name, hint, _, _ in _settings(kind)}


def settings_of(kind: type) -> list[Setting]:
    """Return the settings of a class in the order of its fields."""
    return [
        Setting(name, _written(hint), default, text)
        for name, hint, default, text in _settings(kind)
    ]


def _settings(kind: type) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield the name, type, default and text of each setting; a group yields its own."""
    types = get_type_hints(kind)
    texts = {name: text for base in reversed(kind.__mro__) for name, text in _texts(base)}
    groups = groups_of(kind)
    for f in fields(cast("Any", kind)):
        default, text = default_of(f), texts.get(f.name, "")
        if f.name not in groups:
            yield f.name, types[f.name], default, text
            continue
        own = {name: (hint, text) for name, hint, _, text in _settings(groups[f.name])}
        for inner, value in default.flat().items():
            hint, text = own[inner or default.leading]
            yield joined(f.name, inner), hint, value, text


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


def default_of(field: Any) -> Any:
    """Return the default of a field of a dataclass; raise if it has none."""
    if field.default is MISSING and field.default_factory is MISSING:
        raise UsageError(f"the setting {field.name} needs a default.", code="bad_setting")
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
