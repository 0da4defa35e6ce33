"""How new users are folded into models that were saved before models said so themselves.

Such a model says only which system made it, and with which settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdgar.data.history import History
from sdgar.errors import ArtifactError
from sdgar.models.fold_in import GREATEST, LeastSquares, NoVector, OnSphere, PopularityLost, Rule


def settings_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a model tells, by today's names: those given and those decided."""
    given, decided = about.get("hyper_parameters"), about.get("decided")
    settings = given if isinstance(given, dict) else {}
    return settings | (decided if isinstance(decided, dict) else {})


def rule_of_earlier(about: dict[str, Any], history: History, n_items: int) -> Rule | None:
    """Give the rule that models of the system had; None if they had none, or one of their own."""
    match about.get("system"), settings_of(about):
        case "popular", _:
            return NoVector()
        case "ials", {
            "alpha": int() | float() as alpha, "l2": int() | float() as l2,
            "power": int() | float() as power,
        }:  # fmt: skip
            return LeastSquares(**_sound(alpha=alpha, l2=l2, power=power))
        case "sdsoftmax", {"similarity": "cosine"} if about.get("folded_in"):
            return PopularityLost()
        case "sdsoftmax", {
            "similarity": "cosine", "tau": int() | float() as tau,
            "similarity__rho": int() | float() as rho,
        } if tau > 0:  # fmt: skip
            return OnSphere.after(history, n_items, **_sound(tau=tau, rho=rho))
    return None


def _sound(**saved: float) -> dict[str, float]:
    """Give the settings of a saved model as floats, if training could have used them."""
    for name, value in saved.items():
        if not 0 <= value <= GREATEST:
            raise ArtifactError(
                f"the model is damaged: its setting {name} is not between 0 and {GREATEST:g}. "
                "Restore the folder from a copy, or train again.",
                code="damaged",
            )
    return {name: float(value) for name, value in saved.items()}
