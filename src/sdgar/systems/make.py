"""How a system is made from its name and settings that are given as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdgar.errors import UsageError, unknown_name
from sdgar.parts import KINDS
from sdgar.settings import flat_settings, types_of
from sdgar.systems.base import Estimator
from sdgar.systems.checks import parsed
from sdgar.systems.composed import Composed
from sdgar.systems.names import SYSTEMS

COMMON = (
    "seed", "engine", "device", "early_stopping__metric", "sampler__dislikes", "discriminator",
    "sampler", "objective",
)  # fmt: skip
"""The settings that commands give to several systems at once, if they have them."""


def make(
    system: str, settings: Mapping[str, str], *, common: Mapping[str, Any] | None = None
) -> Estimator:
    """Make an estimator by name, from settings given as text: ``{"dim": "64", "l2": "0.03"}``.

    ``common`` settings, such as the seed, are for systems that have them; a name that is not
    in ``COMMON`` is an error.
    """
    for name in common or ():
        if name not in COMMON:
            raise unknown_name("common setting", name, COMMON)
    if system not in SYSTEMS:
        raise unknown_name("system", system, SYSTEMS)
    kind = SYSTEMS[system]
    types = types_of(kind)
    own = {name: value for name, value in (common or {}).items() if name in types}
    if not issubclass(kind, Composed):
        own = {name: value for name, value in own.items() if name not in KINDS}
    made = kind(**own)
    for name in sorted(settings, key=lambda name: name not in types):  # names of parts first
        made.set_params(**{name: parsed(name, settings[name], made._type_of(name))})
    return made


def make_like(
    model: Mapping[str, Any], settings: Mapping[str, str], *, common: Mapping[str, Any]
) -> Estimator:
    """Make the estimator of a saved model, with its settings where no others are given.

    ``model`` is the metadata of a saved model.
    """
    system, had = model.get("system"), model.get("hyper_parameters")
    if not isinstance(system, str) or not isinstance(had, dict):
        raise UsageError(
            "the earlier model does not say which system and settings made it, so that training "
            "cannot continue from it. Train again from the start.",
            code="cannot_go_on",
        )
    again = make_again(system, had)
    parts = {name: had[name] for name in KINDS if name in had}
    given = flat_settings(make(system, settings, common={**parts, **common}))
    named = {name: given[name] for name in (*common, *settings) if name in given}
    return again.set_params(**named)


def make_again(system: str, settings: Mapping[str, Any]) -> Estimator:
    """Make an estimator from all settings that ``get_params`` gave; an unknown one is an error."""
    if system not in SYSTEMS:
        raise unknown_name("system", system, SYSTEMS)
    return SYSTEMS[system]().set_params(**settings)
