"""Lists that were made for held-out users, and all that metrics say of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.errors import DataError
from sdgar.evaluation import beyond
from sdgar.evaluation.asked import Metric
from sdgar.evaluation.known import Known
from sdgar.evaluation.measures import MEASURES
from sdgar.evaluation.metrics import DEFINITIONS, hits, per_user

_LISTS = {
    "popularity": beyond.popularity,
    "popular": beyond.popular,
    "tail": beyond.tail,
    "novelty": beyond.novelty,
}
_ALL_LISTS = {"coverage": beyond.coverage, "gini": beyond.gini}


@dataclass(frozen=True, slots=True)
class Ranked:
    """The lists of held-out users; row t of ``items_TK`` is of ``held_out.users_T[t]``."""

    items_TK: NDArray[np.integer[Any]]
    """The listed items, best first; -1 is no item."""
    held_out: HeldOut
    """The items that the lists were to find."""
    known: Known
    """What is known of users and items."""
    metrics: tuple[Metric, ...]
    """The metrics that are asked for."""

    def only(self, places: NDArray[np.int64]) -> Ranked:
        """Return the lists of some users."""
        return replace(self, items_TK=self.items_TK[places], held_out=self.held_out.only(places))

    def among(self, rows_E: NDArray[np.bool_]) -> Ranked:
        """Return what the lists were to find of some held-out rows, for users who have any."""
        held_out, places = self.held_out.among(rows_E)
        about = tuple(m for m in self.metrics if MEASURES[m.kind].about in ("accuracy", "held-out"))
        return replace(self, items_TK=self.items_TK[places], held_out=held_out, metrics=about)

    def values(self) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
        """Return the metrics of each user, and those of all lists together, as they were asked for.

        A value is NaN where a metric is not defined.
        """
        accuracy = {m.k for m in self.metrics if m.kind in DEFINITIONS}
        of_users = self._accuracy(accuracy) if accuracy else {}
        for by in {m.by: None for m in self.metrics if m.kind == "diversity"}:
            at = beyond.diversity(self._first(self._ks("diversity", by)[-1]), by, self.known)
            of_users |= {Metric("diversity", by, k).name: at(k) for k in self._ks("diversity", by)}
        for by in {m.by: None for m in self.metrics if m.kind == "calibration"}:
            ks = self._ks("calibration", by)
            users_T = self.held_out.users_T
            found = beyond.calibration(self._first(ks[-1]), users_T, ks, by, self.known)
            of_users |= {Metric("calibration", by, k).name: found[k] for k in ks}
        of_users |= {
            m.name: _LISTS[m.kind](self._first(m.k), self.known)
            for m in self.metrics
            if m.kind in _LISTS
        }
        of_users |= self._serendipity()
        for kind, rows_E in self._fresh():
            of_users |= self._hits_of(kind, rows_E)
        wanted = [m for m in self.metrics if m.kind not in _ALL_LISTS]
        return {m.name: of_users[m.name] for m in wanted}, {
            m.name: _ALL_LISTS[m.kind](self._first(m.k), self.known)
            for m in self.metrics
            if m.kind in _ALL_LISTS
        }

    def require_defined(self, values: dict[str, NDArray[np.float64]]) -> None:
        """Raise if a metric is defined for no user at all."""
        for name, values_T in values.items():
            if len(values_T) and np.isnan(values_T).all():
                kind = name.partition("@")[0].partition(":")[0]
                raise DataError(
                    f"{name} is defined for none of {len(values_T):,} users: it is "
                    f"{MEASURES[kind].says}. Leave it out.",
                    code="undefined_metric",
                )

    def _ks(self, kind: str, by: str | None) -> list[int]:
        return sorted(m.k for m in self.metrics if (m.kind, m.by) == (kind, by))

    def _first(self, k: int) -> NDArray[np.integer[Any]]:
        return self.items_TK[:, :k]

    def _accuracy(self, ks: set[int]) -> dict[str, NDArray[np.float64]]:
        n_items = self.known.n_items
        return per_user(self.items_TK, self.held_out, sorted(ks), n_items=n_items)

    def _serendipity(self) -> dict[str, NDArray[np.float64]]:
        ks = self._ks("serendipity", None)
        if not ks:
            return {}
        items_TK = self._first(ks[-1])
        hits_TK = hits(items_TK, self.held_out)
        return {
            f"serendipity@{k}": beyond.serendipity(items_TK[:, :k], hits_TK[:, :k], k, self.known)
            for k in ks
        }

    def _fresh(self) -> list[tuple[str, NDArray[np.bool_]]]:
        """Return which held-out rows each metric of new items is about."""
        kinds = {m.kind for m in self.metrics}
        items_E = self.held_out.items_E
        outside_E = items_E >= self.known.n_items
        at_E = np.where(outside_E, 0, items_E)
        found = []
        if "new_hit" in kinds:
            found.append(("new_hit", outside_E | self.known.is_new()[at_E]))
        if "cold_hit" in kinds:
            found.append(("cold_hit", outside_E | (self.known.count_I == 0)[at_E]))
        return found

    def _hits_of(self, kind: str, rows_E: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
        """Return hit@k of some held-out rows alone; NaN for users who have none of them."""
        held_out, places = self.held_out.among(rows_E)
        ks = self._ks(kind, None)
        found = {f"{kind}@{k}": np.full(len(self.items_TK), np.nan) for k in ks}
        if len(places):
            n_items = self.known.n_items
            own = per_user(self.items_TK[places], held_out, ks, n_items=n_items)
            for k in ks:
                found[f"{kind}@{k}"][places] = own[f"hit@{k}"]
        return found
