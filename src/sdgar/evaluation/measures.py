"""All metrics by name: meaning, range, direction, and other implementations of the same.

With the list of a user cut at k, L = (i_1, …, i_k); rel_r = 1 if the item at rank r is held out
for the user; P the held-out items of the user; I all items of the catalogue; n_i the number of
users who have item i; and n the number of users who have any item.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sdgar.arguments import length
from sdgar.errors import UsageError, unknown_name

About = Literal["accuracy", "held-out", "list", "catalogue"]
"""The basis of a metric: held-out items that were found, another property of such items, the list
of each user alone, or all lists together."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric, as it is explained to people."""

    meaning: str
    """The equation of the metric in words."""
    equation: str
    """The equation of the metric in symbols."""
    span: str
    """The range of the values."""
    good: Literal["higher", "lower", "neither"]
    """The direction that is better; neither if that depends on the application."""
    about: About
    """The basis of the metric."""
    same_as: str
    """The public implementation that defines the same."""
    column: bool = False
    """Whether the metric compares items by a column, as in diversity:genres@10."""


_IR = "ir_measures"
MEASURES: dict[str, Measure] = {
    "precision": Measure(
        "held-out items among the first k, divided by k (also where fewer than k items "
        "could be recommended)",
        "Σ_r rel_r / k",
        "0 to 1", "higher", "accuracy", f"{_IR} P@k",
    ),
    "recall": Measure(
        "held-out items among the first k, divided by the number of held-out items (not "
        "capped at k)",
        "Σ_r rel_r / |P|",
        "0 to 1", "higher", "accuracy", f"{_IR} R@k",
    ),
    "ndcg": Measure(
        "sum of 1 / log2(rank + 1) over held-out items among the first k, divided by the same "
        "sum for the ideal list, which starts with min(held-out items, k) of them",
        "Σ_r rel_r / log2(r + 1) / Σ_{r ≤ min(|P|, k)} 1 / log2(r + 1)",
        "0 to 1", "higher", "accuracy", f"{_IR} nDCG@k",
    ),
    "mrr": Measure(
        "1 / rank of the first held-out item among the first k, 0 if there is none",
        "1 / min{r : rel_r = 1}",
        "0 to 1", "higher", "accuracy", f"{_IR} RR",
    ),
    "map": Measure(
        "precision at the rank of each held-out item among the first k, summed and divided by "
        "the number of held-out items (trec_eval's map_cut, not capped at k)",
        "Σ_r rel_r · precision@r / |P|",
        "0 to 1", "higher", "accuracy", f"{_IR} AP@k",
    ),
    "hit": Measure(
        "1 if any held-out item is among the first k, else 0",
        "max_r rel_r",
        "0 or 1", "higher", "accuracy", f"{_IR} Success@k",
    ),
    "coverage": Measure(
        "items that are among the first k of at least one list, divided by all items",
        "|∪_u L_u| / |I|",
        "0 to 1", "higher", "catalogue", "RecTools CatalogCoverage(normalize=True)",
    ),
    "gini": Measure(
        "how unevenly lists show items: with the number of lists that have each item among their "
        "first k, in ascending order, the sum of (2 · place - items - 1) · number, divided by "
        "items · all entries; 0 if every item is shown as often, near 1 if few are shown to all",
        "Σ_j (2j - |I| - 1) x_(j) / (|I| Σ_j x_j),  x_i = |{u : i ∈ L_u}|",
        "0 to 1", "lower", "catalogue", "LensKit ListGini",
    ),
    "popularity": Measure(
        "the number of users who have an item, mean over the first k",
        "Σ_{i ∈ L} n_i / |L|",
        "0 to the number of users", "neither", "list", "RecTools AvgRecPopularity",
    ),
    "popular": Measure(
        "the share of the first k that is of the tenth of the items that most users have",
        "|{i ∈ L : i among the 10 % with the largest n_i}| / |L|",
        "0 to 1", "neither", "list", "by enumeration",
    ),
    "tail": Measure(
        "the share of the first k that is of the long tail: of the items that are not of the fifth "
        "that most users have",
        "1 - |{i ∈ L : i among the 20 % with the largest n_i}| / |L|",
        "0 to 1", "neither", "list", "by enumeration",
    ),
    "novelty": Measure(
        "-log2 of the share of users who have an item (an item that nobody has counts as if one "
        "user had it), mean over the first k",
        "-Σ_{i ∈ L} log2(max(n_i, 1) / n) / |L|",
        "0 to log2(users)", "higher", "list", "RecTools MeanInvUserFreq",
    ),
    "diversity": Measure(
        "1 minus the likeness of two items (cosine of vectors, or shared values of a column "
        "divided by all values of the two), mean over the pairs of the first k; lists with fewer "
        "than two items have none",
        "1 - Σ_{i<j} c_ij / (|L| (|L| - 1) / 2)",
        "0 to 1 (to 2 by vectors)", "higher", "list", "RecTools IntraListDiversity",
        column=True,
    ),
    "serendipity": Measure(
        "for held-out items among the first k, how much higher the list ranks them than popularity "
        "does: (place by popularity - rank) / items if that is above 0, where items with as many "
        "users share a place and those without any come last; summed and divided by k",
        "Σ_r max(p_r - q_r, 0) rel_r / k,  p_r = (|I| + 1 - r) / |I|,  q_r = (|I| + 1 - place of "
        "n_i among all n) / |I|, 0 if n_i = 0",
        "0 to 1", "higher", "held-out", "RecTools Serendipity",
    ),
    "calibration": Measure(
        "how far the shares of categories in the first k are from the shares in the history of the "
        "user: sum of p · log(p / q), where p are the shares of the history and q is 0.99 · shares "
        "of the list + 0.01 · p, and an item gives equal parts to its categories (Steck, 2018); "
        "users without categories in their history have none",
        "Σ_g p_g log(p_g / q̃_g),  q̃ = 0.99 q + 0.01 p",
        "0 to log(100)", "lower", "list", "by enumeration",
        column=True,
    ),
    "new_hit": Measure(
        "1 if any held-out item is among the first k that is new (its first event is in the last "
        "tenth of the training rows by time, or it has none), else 0; users without a new held-out "
        "item have none",
        "max_r rel_r [i_r new]",
        "0 or 1", "higher", "held-out", "by enumeration",
    ),
    "cold_hit": Measure(
        "1 if any held-out item is among the first k that no user has in the training rows, else "
        "0; users without such a held-out item have none",
        "max_r rel_r [n_{i_r} = 0]",
        "0 or 1", "higher", "held-out", "by enumeration",
    ),
}  # fmt: skip
"""The metrics, in the order in which they are shown."""
BEYOND = tuple(kind for kind, one in MEASURES.items() if one.about != "accuracy")
"""The names of the metrics that are not about accuracy."""
DEFINITIONS = {kind: one.meaning for kind, one in MEASURES.items() if one.about == "accuracy"}
"""The meaning of each metric of accuracy."""
_NAME = re.compile(r"([^@:]+)(?::([^@]+))?(?:@([1-9][0-9]{0,17}))?")
"""A kind, a column, and the length of the lists, which surely fits into 64 bits."""


def meanings(names: list[str]) -> dict[str, str]:
    """Return what the kinds of these metrics mean, each once: ``ndcg@10`` is of kind ``ndcg``."""
    kinds = dict.fromkeys(name.partition("@")[0].partition(":")[0] for name in names)
    return {kind: MEASURES[kind].meaning for kind in kinds}


class Metric(NamedTuple):
    """One metric at one length of lists, such as ndcg@20 or diversity:genres@10."""

    kind: str
    """The name in ``MEASURES``."""
    by: str | None
    """The column that items are compared by; None for the default of the kind."""
    k: int
    """The length of the lists."""

    @property
    def name(self) -> str:
        """The full name of the metric."""
        return f"{self.kind}{'' if self.by is None else f':{self.by}'}@{self.k}"


def metrics_of(names: Sequence[str] | None, ks: Sequence[int]) -> tuple[Metric, ...]:
    """Return the metrics of these names, each once; without names, all metrics of accuracy.

    A name without @ is measured at each k.
    """
    ks = check_ks(ks)
    names = tuple(DEFINITIONS) if names is None else names
    if not isinstance(names, Iterable) or isinstance(names, str) or not (wanted := list(names)):
        raise UsageError(
            f"metrics must be a list of names, such as ['ndcg@20', 'coverage@10'], got {names!r}.",
            code="bad_metric",
        )
    found: dict[Metric, None] = {}
    for name in wanted:
        kind, by, own = split_name(name)
        found |= dict.fromkeys(Metric(kind, by, k) for k in ((own,) if own else ks))
    return tuple(found)


def split_name(text: Any) -> tuple[str, str | None, int | None]:
    """Return the kind, the column and the length of lists of a metric; None for missing ones."""
    found = _NAME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(
            "a metric is a kind, @ and the length of the lists, such as ndcg@20, or "
            f"diversity:genres@20 by a column, got {str(text)[:40]!r}. Kinds: "
            f"{', '.join(MEASURES)}.",
            code="bad_metric",
        )
    kind, by, k = found.groups()
    if kind not in MEASURES:
        raise unknown_name("metric", kind, MEASURES)
    if by and not MEASURES[kind].column:
        by_column = ", ".join(name for name, one in MEASURES.items() if one.column)
        raise UsageError(
            f"{text[:40]!r} names a column, which {kind} does not use. Metrics with a column: "
            f"{by_column}.",
            code="bad_metric",
        )
    return kind, by, None if k is None else int(k)


def check_metric(text: Any) -> tuple[str, int]:
    """Return the kind and the length of the lists of a metric of accuracy, such as ndcg@50."""
    kind, _, k = split_name(text)
    if kind in BEYOND:
        raise UsageError(
            f"{kind} does not measure accuracy, by which epochs and settings are chosen: "
            f"{', '.join(DEFINITIONS)}. Measure {kind} with --metrics (metrics=… in Python).",
            code="bad_metric",
        )
    if k is None:
        raise UsageError(
            f"metric needs the length of the lists, such as {kind}@20, got {text!r}.",
            code="bad_metric",
        )
    return kind, k


def check_ks(ks: Any) -> tuple[int, ...]:
    """Return the lengths of lists, ascending and distinct; raise if they are wrong."""
    if not isinstance(ks, Iterable) or isinstance(ks, str) or not (lengths := list(ks)):
        raise UsageError(
            f"ks must name at least one list length, such as (10, 50), got {ks!r}.", code="bad_k"
        )
    return tuple(sorted({length("each of ks", k) for k in lengths}))
