"""Settings by name, in scikit-learn's manner: ``get_params``, ``set_params`` and ``clone``.

Nothing is checked when a setting is set, so that these work on any values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from typing import Any, ClassVar, Self, TypeVar, cast

from sdgar.settings import (
    Group,
    default_of,
    described,
    flat_settings,
    groups_of,
    nearest_setting,
)
from sdgar.systems.checks import plain_value

_Class = TypeVar("_Class", bound=type)


def estimator(kind: _Class) -> _Class:
    """Make the settings of a class parameters of its constructor, and document them."""
    words = kind.__doc__ or kind.__name__
    made: Any = dataclass(kw_only=True, eq=False, repr=False, init=False)(kind)
    made.__doc__ = described(made, words)
    made.__signature__ = Signature(
        [
            Parameter(f.name, Parameter.KEYWORD_ONLY, default=default_of(f), annotation=f.type)
            for f in fields(made)
        ]
    )
    made._groups = groups_of(made)
    return made  # type: ignore[no-any-return]


class Parameters:
    """The settings of an estimator: fields of its class, and of groups by nested names."""

    _groups: ClassVar[Mapping[str, type[Group]]] = {}
    """The classes of those settings that are groups."""

    def __init__(self, **settings: Any) -> None:
        for f in fields(cast("Any", self)):
            self.__dict__[f.name] = default_of(f)
        self.set_params(**settings)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a setting; a group can be given as a dict, or by the setting that leads it."""
        is_group = name in self._groups and name in self.__dict__
        self.__dict__[name] = self.__dict__[name].taken(name, value) if is_group else value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; with ``deep`` also nested ones, as sampler__states."""
        whole = {f.name: getattr(self, f.name) for f in fields(cast("Any", self))}
        inner = flat_settings(self) if deep else {}
        return whole | {name: value for name, value in inner.items() if name not in whole}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; settings in groups have nested names, as sampler__states."""
        known = {f.name for f in fields(cast("Any", self))}
        for name in sorted(params, key=lambda name: name not in known):  # groups as a whole first
            group, _, inner = name.partition("__")
            if name in known:
                setattr(self, name, params[name])
                continue
            if group not in self._groups or not getattr(self, group).accepts(inner):
                raise nearest_setting(
                    f"parameter of {type(self).__name__}", name, flat_settings(self)
                )
            setattr(self, group, getattr(self, group).changed({inner: params[name]}))
        return self

    def _left_to_rules(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those values whose settings have none."""
        own = flat_settings(self)
        return {name: value for name, value in values.items() if own[name] is None}

    def _changed(self, **settings: Any) -> Self:
        """Return a system that is not fitted, with some settings changed."""
        return type(self)(**self.get_params(deep=False)).set_params(**settings)

    def _plain_params(self) -> dict[str, Any]:
        """Return all settings by nested names as JSON has them; a NumPy number becomes a number."""
        return {name: plain_value(value) for name, value in flat_settings(self).items()}
