"""Reports: means of metrics with intervals over users, for all users or by groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.errors import UsageError
from sdgar.evaluation.beyond import Known
from sdgar.evaluation.groups import Facts, grouped
from sdgar.evaluation.measures import meanings, metrics_of
from sdgar.evaluation.metrics import interval
from sdgar.evaluation.ranked import Counts, Ranked, known_rows, overlap
from sdgar.models.scorers import AnyScorer
from sdgar.ranking.sweep import sweep_for
from sdgar.ranking.topk import best_items
from sdgar.settings import KS
from sdgar.show.printed import Described


@dataclass(frozen=True, slots=True, repr=False)
class Report(Described):
    """The metrics of one scorer on one held-out set, with one value for each user."""

    users_T: NDArray[np.int64]
    """The indices of the evaluated users."""
    per_user: dict[str, NDArray[np.float64]]
    """The value of each metric for each evaluated user; NaN where a metric is not defined."""
    counts: Counts
    """The numbers of users, items and rows that were evaluated or could not be."""
    overall: dict[str, float] = field(default_factory=dict)
    """The metrics of all lists together, such as coverage."""
    ids: Mapping[str, NDArray[Any]] | None = field(default=None, compare=False)
    """The ids of the evaluated users, as a column or one for each field of a context; None if users
    have no ids."""
    ranked: Ranked | None = field(default=None, compare=False)
    """The lists that were measured; None if only their metrics were kept."""
    how: str | None = None
    """A description of how the lists were made; None for a full ranking by a model."""
    _found: dict[tuple[float, int, int], dict[str, tuple[float, float]]] = field(
        default_factory=dict, init=False, compare=False
    )
    """The intervals that were computed so far, by level, resamples and seed."""

    def _lines(self) -> list[str]:
        n, means = self.counts, self.means()
        ks = list(dict.fromkeys(name.partition("@")[2] for name in means))
        lines = [
            f"Report: {n.users:,} users with {n.rows:,} held-out rows, all {n.items:,} items ranked"
        ]
        for k in ks[:3]:
            at_k = {name: mean for name, mean in means.items() if name.partition("@")[2] == k}
            lines.append(" · ".join(f"{name} {mean:.4f}" for name, mean in at_k.items()))
        more = [f"see means() for @{', @'.join(ks[3:])}"] if ks[3:] else []
        more += [f"warning: {self.warning}"] if self.warning else []
        return lines + ["; ".join(more)] * bool(more)

    @property
    def warning(self) -> str | None:
        """A warning to read before the metrics; None if there is none."""
        known = self.counts.known_rows
        return overlap(known, self.counts.training_rows, self.counts.rows) if known else None

    @property
    def definition(self) -> str:
        """How the lists were made, to be printed with the metrics."""
        if self.how is not None:
            return self.how
        return (
            f"Full ranking of all {self.counts.items:,} items for each user, without the items in "
            "the user's history; ties go to the lower item index; mean over "
            f"{self.counts.users:,} users with held-out items"
            + (", who are new to the model and folded in." if self.counts.folded_in else ".")
        )

    def means(self) -> dict[str, float]:
        """Return the mean of each metric over the users that have it, then the overall metrics.

        A metric that no user has is NaN, which can happen in a group.
        """
        return {name: _mean(values_T) for name, values_T in self.per_user.items()} | self.overall

    def frame(self, like: object = None) -> Any:
        """Return a table with a row for each user: the id, and a column for each metric.

        It is of Polars, or of pandas if ``like`` is of pandas. A metric that is not defined for a
        user is null (NaN in pandas).
        """
        from sdgar.data.tables import to_table

        ids = self.ids or {"user": self.users_T}
        values = {
            name: [None if np.isnan(one) else one for one in values_T.tolist()]
            for name, values_T in self.per_user.items()
        }
        types = dict.fromkeys(values, "float64")
        columns = {name: column_T.tolist() for name, column_T in ids.items()}
        return to_table(columns | values, types=types, like=like)

    def by(
        self, what: str, *, users: Facts | None = None, items: Facts | None = None
    ) -> dict[str, Report]:
        """Return a report for each group of users or of held-out items.

        ``activity`` groups users by the length of their history, in quarters; ``popularity`` groups
        held-out rows by the number of users who have the item, in quarters. Any other word is a
        column of ``users`` or ``items``, tables of fields by id as ``sdgar.read_facts`` returns
        them; numbers of more than ten values are put into quarters. A group of items has the
        metrics of held-out rows with these items; metrics of whole lists are left out.
        """
        if self.ranked is None:
            raise UsageError(
                "this report has no lists, only metrics. Use a report that evaluate returned.",
                code="no_lists",
            )
        ids_T = self.users_T if self.ids is None else self.ids["user"]
        groups = grouped(what, self.ranked, ids_T, users=users, items=items)
        return {name: _of_group(self, places, part) for name, (places, part) in groups.items()}

    def intervals(
        self, level: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> dict[str, tuple[float, float]]:
        """Return (low, high) of each mean by the percentile bootstrap over users.

        Overall metrics have none: a resample has fewer different users, who cover fewer items.
        All metrics use the same resamples. The interval covers the choice of users, not of the
        training seed: another seed can change the mean by more.
        """
        key = level, resamples, seed
        if not self.per_user:
            return {}
        if key not in self._found:
            values_TM = np.stack(list(self.per_user.values()), axis=1)
            low_M, high_M = interval(values_TM, *key)
            pairs = zip(low_M.tolist(), high_M.tolist(), strict=True)
            self._found[key] = dict(zip(self.per_user, pairs, strict=True))
        return dict(self._found[key])

    def as_dict(self, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> dict[str, Any]:
        """Return plain values, for JSON."""
        means, intervals = self.means(), self.intervals(level, resamples, seed)
        return {
            "definition": self.definition,
            "warning": self.warning,
            "definitions": meanings(list(means)),
            "counts": asdict(self.counts),
            "interval": {
                "method": "percentile bootstrap over users",
                "level": level,
                "resamples": resamples,
                "seed": seed,
            },
            "metrics": {
                name: {"mean": means[name], "low": low, "high": high}
                for name, (low, high) in intervals.items()
            }
            | {name: {"mean": value} for name, value in self.overall.items()},
        }


def evaluate(
    scorer: AnyScorer,
    held_out: HeldOut,
    *,
    seen: History,
    ks: Sequence[int] = KS,
    metrics: Sequence[str] | None = None,
    known: Known | None = None,
    blocked_I: NDArray[np.bool_] | None = None,
) -> Report:
    """Rank the whole catalogue for every held-out user and measure the lists.

    ``seen`` are the items left out of a user's list, as ``held_out.excluded`` returns them: the
    training items, and the validation items too when the model was trained on them. Without
    ``metrics``, all metrics of accuracy are measured at all ``ks``; metrics beyond accuracy need
    what is ``known`` of users and items. ``blocked_I`` are items that are not ranked for anyone.
    """
    wanted = metrics_of(metrics, ks)
    ranked_T, unseen = np.ones(len(held_out), bool), 0
    if held_out.unseen_XF is not None:
        unseen_T = held_out.users_T >= seen.n_users - len(held_out.unseen_XF)
        unseen = int(unseen_T.sum())
        with_contexts = getattr(scorer, "followed_by", lambda _: None)
        with_unseen: AnyScorer | None = with_contexts(held_out.unseen_XF)
        ranked_T, scorer = ~unseen_T | (with_unseen is not None), with_unseen or scorer
    longest = min(max(metric.k for metric in wanted), max(1, scorer.n_items))
    items_TK = np.full((len(held_out), longest), -1, np.int32)
    users_T = held_out.users_T[ranked_T]
    finder = sweep_for(scorer, len(users_T))
    best = best_items(finder, scorer, users_T, longest, seen=seen, blocked_I=blocked_I)
    items_TK[ranked_T] = best.items_TK
    known = replace(known or Known(scorer.n_items, seen, seen), blocked_I=blocked_I)
    return report_of(
        Ranked(items_TK, held_out, known, wanted),
        Counts(
            items=known.n_ranked,
            users=len(held_out),
            rows=len(held_out.items_E),
            unknown_users=held_out.unknown_users,
            unknown_user_rows=held_out.unknown_user_rows,
            cold_items=held_out.cold_items,
            cold_item_rows=held_out.cold_item_rows,
            unseen_contexts=unseen,
            unranked_contexts=int((~ranked_T).sum()),
            known_rows=known_rows(held_out, seen),
            training_rows=held_out.training_rows,
        ),
    )


def report_of(
    ranked: Ranked, counts: Counts, how: str | None = None, *, strict: bool = True
) -> Report:
    """Measure lists; a metric that is defined for no user is refused, or left out."""
    per_user, overall = ranked.values()
    if strict:
        ranked.require_defined(per_user)
    per_user = {name: one for name, one in per_user.items() if not np.isnan(one).all()}
    return Report(ranked.held_out.users_T, per_user, counts, overall, ranked=ranked, how=how)


def _of_group(whole: Report, places: NDArray[np.int64], part: Ranked) -> Report:
    """Measure the lists of one group, whose users are at these places of the whole report."""
    per_user, overall = part.values()
    rows = len(part.held_out.items_E)
    return replace(
        whole,
        users_T=part.held_out.users_T,
        per_user=per_user,
        overall=overall,
        counts=replace(whole.counts, users=len(places), rows=rows),
        ids=whole.ids and {name: ids_T[places] for name, ids_T in whole.ids.items()},
        ranked=part,
    )


def _mean(values_T: NDArray[np.float64]) -> float:
    """Return the mean over the users with a value; NaN if there are none."""
    defined_T = ~np.isnan(values_T)
    if defined_T.all():
        return float(values_T.mean())
    return float(values_T[defined_T].mean()) if defined_T.any() else float("nan")
