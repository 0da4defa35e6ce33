"""Metrics that were asked for by name: a kind, for some kinds a column, and a length of lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sdgar.errors import UsageError, unknown_name
from sdgar.evaluation.measures import MEASURES

_DIGITS = 18
"""The number of decimal digits that surely fit into 64 bits."""


class Metric(NamedTuple):
    """One metric at one length of lists, such as ndcg@20 or diversity:genres@10."""

    kind: str
    """The name in ``MEASURES``."""
    by: str | None
    """The column that items are compared by; None for the kind's own way."""
    k: int
    """The length of the lists."""

    @property
    def name(self) -> str:
        """The metric as one writes it."""
        return f"{self.kind}{'' if self.by is None else f':{self.by}'}@{self.k}"


def asked_metrics(names: Any, ks: Sequence[int]) -> tuple[Metric, ...]:
    """Return the metrics of these names, each once; a name without @ is measured at each k."""
    if not isinstance(names, Iterable) or isinstance(names, str) or not (asked := list(names)):
        raise UsageError(
            f"metrics must be a list of names, such as ['ndcg@20', 'coverage@10'], got {names!r}.",
            code="bad_metric",
        )
    found: dict[Metric, None] = {}
    for name in asked:
        kind, by, own = split_name(name)
        found |= dict.fromkeys(Metric(kind, by, k) for k in ((own,) if own else ks))
    return tuple(found)


def split_name(text: Any) -> tuple[str, str | None, int | None]:
    """Split a name into its kind, its column and the length of its lists, where it has them."""
    whole, at, k = str(text).partition("@")
    kind, colon, by = whole.partition(":")
    if not isinstance(text, str) or (at and not _is_length(k)) or (colon and not by) or not kind:
        raise UsageError(
            "a metric is a kind, @ and the length of the lists, such as ndcg@20, or "
            f"diversity:genres@20 by a column, got {str(text)[:40]!r}. Kinds: "
            f"{', '.join(MEASURES)}.",
            code="bad_metric",
        )
    if kind not in MEASURES:
        raise unknown_name("metric", kind, MEASURES)
    if by and not MEASURES[kind].column:
        by_column = ", ".join(name for name, one in MEASURES.items() if one.column)
        raise UsageError(
            f"{kind} compares no items by a column, so that {text[:40]!r} means nothing. Metrics "
            f"with a column: {by_column}.",
            code="bad_metric",
        )
    return kind, by or None, int(k) if at else None


def _is_length(k: str) -> bool:
    return k.isascii() and k.isdigit() and k[0] != "0" and len(k) <= _DIGITS
