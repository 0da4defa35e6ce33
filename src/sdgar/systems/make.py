"""Make estimators: from settings as text, from the settings of a model, or like a saved model."""

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


def estimator_from_text(
    system: str, settings: Mapping[str, str], *, common: Mapping[str, Any] | None = None
) -> Estimator:
    """Make an estimator by name, from settings given as text: ``{"dim": "64", "l2": "0.03"}``.

    ``common`` settings, such as the seed, are for systems that have them. Names of parts among
    them are only for ``Composed``. A name that is not in ``COMMON`` is an error.
    """
    for name in common or ():
        if name not in COMMON:
            raise unknown_name("common setting", name, COMMON)
    if system not in SYSTEMS:
        raise unknown_name("system", system, SYSTEMS)
    cls = SYSTEMS[system]
    types = types_of(cls)
    own = {name: value for name, value in (common or {}).items() if name in types}
    if not issubclass(cls, Composed):
        own = {name: value for name, value in own.items() if name not in KINDS}
    estimator = cls(**own)
    # A part is set before the settings of that part, such as sampler before sampler__layers.
    for name in sorted(settings, key=lambda name: name not in types):
        estimator.set_params(**{name: parsed(name, settings[name], estimator._type_of(name))})
    return estimator


def estimator_like(
    model: Mapping[str, Any], settings: Mapping[str, str], *, common: Mapping[str, Any]
) -> Estimator:
    """Make an estimator like that of a saved model, except for some settings.

    ``model`` is the metadata of the saved model; ``settings`` and ``common`` replace its settings,
    as in ``estimator_from_text``.
    """
    system, saved = model.get("system"), model.get("hyper_parameters")
    if not isinstance(system, str) or not isinstance(saved, dict):
        raise UsageError(
            "the earlier model does not say which system and settings made it, so training "
            "cannot continue from it. Train again from the start.",
            code="cannot_continue",
        )
    estimator = estimator_from_params(system, saved)
    parts = {name: saved[name] for name in KINDS if name in saved}
    given = flat_settings(estimator_from_text(system, settings, common={**parts, **common}))
    named = {name: given[name] for name in (*common, *settings) if name in given}
    return estimator.set_params(**named)


def estimator_from_params(system: str, settings: Mapping[str, Any]) -> Estimator:
    """Make an estimator from all settings that ``get_params`` gave; an unknown one is an error."""
    if system not in SYSTEMS:
        raise unknown_name("system", system, SYSTEMS)
    return SYSTEMS[system]().set_params(**settings)
