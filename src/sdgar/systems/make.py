"""How a system is made from its name and settings that are given as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from sdgar.errors import UsageError, unknown_name
from sdgar.systems.base import Estimator
from sdgar.systems.checks import parsed
from sdgar.systems.composed import Composed
from sdgar.systems.names import SYSTEMS

COMMON = (
    "seed", "engine", "device", "metric", "dislikes", "discriminator", "sampler", "objective",
)  # fmt: skip
"""The settings that commands give to several systems at once, for those that have them."""


_PARTS = ("discriminator", "sampler", "objective")


def make(
    system: str, settings: Mapping[str, str], *, common: Mapping[str, Any] | None = None
) -> Estimator:
    """Make an estimator by name, from settings given as text: ``{"dim": "64", "l2": "0.03"}``.

    ``common`` settings, such as the seed, are for those systems that have them; a name that is not
    in ``COMMON`` is an error.
    """
    for name in common or ():
        if name not in COMMON:
            raise unknown_name("common setting", name, COMMON)
    if system not in SYSTEMS:
        raise unknown_name("system", system, SYSTEMS)
    kind = SYSTEMS[system]
    types = get_type_hints(kind)
    known = [f.name for f in fields(kind)]
    values = {name: value for name, value in (common or {}).items() if name in known}
    of_parts = {name: text for name, text in settings.items() if "." in name}
    for name, text in settings.items():
        if kind is Composed and name in of_parts:
            continue
        if name not in known or (kind is Composed and name == "settings"):
            raise unknown_name(f"setting of {system}", name, known)
        values[name] = parsed(name, text, types[name])
    made = kind(**values)
    if isinstance(made, Composed):
        typed = {name: parsed(name, t, made.type_of(name)) for name, t in of_parts.items()}
        made.settings = made.settings | typed
    return made


def make_like(
    model: Mapping[str, Any], settings: Mapping[str, str], *, common: Mapping[str, Any]
) -> Estimator:
    """Make the estimator of a saved model, with the settings that it had but for those given.

    ``model`` is what a saved model says of itself.
    """
    system, had = model.get("system"), model.get("hyper_parameters")
    if not isinstance(system, str) or not isinstance(had, dict):
        raise UsageError(
            "the earlier model does not say which system and settings made it, so that training "
            "cannot go on from it. Train anew.",
            code="cannot_go_on",
        )
    again = make_again(system, had)
    parts = {name: had[name] for name in _PARTS if name in had}
    given = make(system, settings, common={**parts, **common})
    own = [name for name in (*settings, *common) if "." not in name]
    known = again.get_params()
    again.set_params(**{name: getattr(given, name) for name in own if name in known})
    if isinstance(again, Composed) and isinstance(given, Composed):
        again.settings = again.settings | given.settings
    return again


def make_again(system: str, settings: Mapping[str, Any]) -> Estimator:
    """Make an estimator from all settings that ``get_params`` gave; an unknown one is an error."""
    if system not in SYSTEMS:
        raise unknown_name("system", system, SYSTEMS)
    return SYSTEMS[system]().set_params(**settings)
