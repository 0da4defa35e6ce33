"""Describe systems: their settings and what they can do, as their classes say."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from sdgar.contracts import System
from sdgar.engines.choose import ENGINES
from sdgar.errors import unknown_name
from sdgar.parts import DISCRIMINATORS
from sdgar.settings import settings_of
from sdgar.systems.base import Estimator
from sdgar.systems.checks import some_rows
from sdgar.systems.composed import Composed
from sdgar.systems.defaults import Choice, Range
from sdgar.systems.learner import Learner
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of, spec_of

_DEVICES = {"fused-cpu": torch.device("cpu"), "fused-gpu": torch.device("cuda")}


def described(system: str) -> dict[str, Any]:
    """Return everything about one system, as plain values."""
    if system not in SYSTEMS:
        raise unknown_name("system", system, SYSTEMS)
    kind, space = SYSTEMS[system], spec_of(SYSTEMS[system]).searched
    return {
        "name": system,
        "class": f"{'sdgar' if system in SYSTEMS.homes else kind.__module__}.{kind.__name__}",
        "about": _words(kind),
        "settings": [
            asdict(setting) | {"search": _range(space.get(setting.name))}
            for setting in settings_of(kind)
        ],
        "can": _abilities(kind),
    }


def _words(kind: type[Estimator]) -> str:
    """Return the docstring without its settings and examples, which are shown on their own."""
    words = (kind.__doc__ or "").partition("\nParameters\n")[0].partition("\nExamples\n")[0]
    return words.strip()


def _range(values: Choice | Range | None) -> str | None:
    """Return what a search tries, in words; None if it leaves a setting as it is."""
    match values:
        case Range(low=low, high=high):
            return f"from {low:g} to {high:g}"
        case Choice(values=several):
            return f"one of {', '.join(map(str, several))}"
    return None


def _abilities(kind: type[Estimator]) -> dict[str, str]:
    """Return whether a system has each ability, and in what cases."""
    looking = [n for n, part in DISCRIMINATORS.items() if getattr(part, "looks_at_features", False)]
    knowing = [n for n, part in DISCRIMINATORS.items() if hasattr(part, "fold_in")]
    new_users, features = "no: train again with their rows", "no"
    if kind is Composed:
        new_users = f"with discriminator {', '.join(knowing)}, or cosine and objective sdsoftmax"
        features = f"with discriminator {', '.join(looking)}"
    elif recipe_of(kind()).folds_in:
        new_users = "yes"
    contexts = "only contexts with training rows"
    if _has_field_vectors(kind):
        contexts = "also contexts without training rows"
    return {
        "uses row weights": "yes" if spec_of(kind).uses_weights else "no: every row counts alike",
        "takes new users by their history": new_users,
        "looks at features": features,
        "contexts of several fields": contexts,
        **_engines(kind),
    }


def _system(kind: type[Learner], *, fields: bool = False) -> System:
    return recipe_of(kind()).compose(some_rows(fields=fields), seed=0)


def _has_field_vectors(kind: type[Estimator]) -> bool:
    """Return whether a model has a vector for each value of a field."""
    if issubclass(kind, Learner):
        made = _system(kind, fields=True)
        by_vectors = getattr(made.discriminator, "place_UF", None) is not None
        return by_vectors and made.recommends is None
    model = kind().fit(some_rows(fields=True), verbose=False).recommender_.model
    return model.n_values is not None


def _engines(kind: type[Estimator]) -> dict[str, str]:
    """Return whether each fused engine runs the system with its default settings."""
    if not issubclass(kind, Learner):
        return {"computed by": spec_of(kind).computed_by}
    made, said = _system(kind), {}
    for name, device in _DEVICES.items():
        answer = ENGINES[name].covers(made, device)
        said[f"runs on {name}"] = "yes" if answer.runs else f"no: {answer.why}"
    return said
