"""What an evaluation says: means with intervals over users, and paired comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.data.interactions import History
from sdgar.errors import SdgarWarning, UsageError, unknown_name
from sdgar.evaluation.metrics import DEFINITIONS, check_ks, per_user
from sdgar.evaluation.topk import top_k
from sdgar.maths.rng import check_seed
from sdgar.models.field_factors import FieldFactors
from sdgar.settings import KS
from sdgar.show.printed import Described

if TYPE_CHECKING:
    from sdgar.data.held_out import HeldOut
    from sdgar.models.model import Scorer

_DRAWS_AT_ONCE = 1 << 21
_FLIPS = 9_999


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of users, items and rows that were evaluated or could not be."""

    items: int
    """The number of items in the catalogue that was ranked."""
    users: int
    """The number of evaluated users."""
    rows: int
    """The number of held-out interactions of the evaluated users."""
    unknown_users: int
    """The number of held-out users that training never saw, who are left out."""
    unknown_user_rows: int
    """The number of held-out rows of users that training never saw."""
    cold_items: int
    """The number of held-out items that training never saw, which count as missed."""
    cold_item_rows: int
    """The number of held-out rows with items that training never saw."""
    unseen_contexts: int = 0
    """The number of held-out contexts that are new, though each of their values is known."""
    unranked_contexts: int = 0
    """The number of new contexts that the model cannot rank for: their items count as missed."""
    known_rows: int = 0
    """The number of held-out rows that the history has too: no list has them, so all are missed."""
    training_rows: int = 0
    """How many of the known rows are training rows; the user has the others in other contexts."""
    folded_in: int = 0
    """The number of users who are new to the model and were folded in from histories."""


@dataclass(frozen=True, slots=True, repr=False)
class Report(Described):
    """The metrics of one scorer on one held-out set, with one value for each user."""

    users_T: NDArray[np.int64]
    """The numbers of the evaluated users."""
    per_user: dict[str, NDArray[np.float64]]
    """The value of each metric for each evaluated user."""
    counts: Counts
    """The numbers of users, items and rows that were evaluated or could not be."""
    _found: dict[tuple[float, int, int], dict[str, tuple[float, float]]] = field(
        default_factory=dict, init=False, compare=False
    )
    """The intervals that were asked for so far, by level, resamples and seed."""

    def _lines(self) -> list[str]:
        n, means = self.counts, self.means()
        ks = list(dict.fromkeys(name.partition("@")[2] for name in means))
        lines = [
            f"Report: {n.users:,} users with {n.rows:,} held-out rows, all {n.items:,} items ranked"
        ]
        for k in ks[:3]:
            at_k = {name: mean for name, mean in means.items() if name.endswith(f"@{k}")}
            lines.append(" · ".join(f"{name} {mean:.4f}" for name, mean in at_k.items()))
        more = [f"see means() for @{', @'.join(ks[3:])}"] if ks[3:] else []
        more += [f"warning: {self.warning}"] if self.warning else []
        return lines + ["; ".join(more)] * bool(more)

    @property
    def warning(self) -> str | None:
        """A warning to read before the numbers are believed; None if there is none."""
        known = self.counts.known_rows
        return _overlap(known, self.counts.training_rows, self.counts.rows) if known else None

    @property
    def definition(self) -> str:
        """How the lists were made, to be printed with the numbers."""
        return (
            f"Full ranking of all {self.counts.items:,} items for each user, without the items in "
            "the user's history; ties go to the lower item index; mean over "
            f"{self.counts.users:,} users with held-out items"
            + (", who are new to the model and folded in." if self.counts.folded_in else ".")
        )

    def means(self) -> dict[str, float]:
        """Give the mean over users of each metric."""
        return {name: float(values_T.mean()) for name, values_T in self.per_user.items()}

    def intervals(
        self, level: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> dict[str, tuple[float, float]]:
        """Give (low, high) of each mean by the percentile bootstrap over users.

        All metrics see the same resamples. The interval is about the choice of users, not of the
        training seed: another seed can move the mean by more.
        """
        asked = level, resamples, seed
        if asked not in self._found:
            values_TM = np.stack(list(self.per_user.values()), axis=1)
            low_M, high_M = _interval(values_TM, *asked)
            pairs = zip(low_M.tolist(), high_M.tolist(), strict=True)
            self._found[asked] = dict(zip(self.per_user, pairs, strict=True))
        return dict(self._found[asked])

    def as_dict(self, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> dict[str, Any]:
        """Give plain values, for JSON."""
        means, intervals = self.means(), self.intervals(level, resamples, seed)
        return {
            "definition": self.definition,
            "warning": self.warning,
            "definitions": dict(DEFINITIONS),
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
            },
        }


def evaluate(
    scorer: Scorer,
    held_out: HeldOut,
    *,
    seen: History,
    ks: Sequence[int] = KS,
    blocked_I: NDArray[np.bool_] | None = None,
) -> Report:
    """Rank the whole catalogue for every held-out user and measure the lists.

    ``seen`` are the items left out of a user's list, as ``held_out.left_out`` gives them: the
    training items, and the validation items too when the model was trained on them. ``blocked_I``
    are items that are not ranked for anyone.
    """
    ks = check_ks(ks)
    ranked_T, unseen = np.ones(len(held_out), bool), 0
    if held_out.unseen_XF is not None:
        unseen_T = held_out.users_T >= seen.n_users - len(held_out.unseen_XF)
        unseen = int(unseen_T.sum())
        with_unseen = _with_unseen(scorer, held_out.unseen_XF)
        ranked_T, scorer = ~unseen_T | (with_unseen is not None), with_unseen or scorer
    longest = min(ks[-1], max(1, scorer.n_items))
    items_TK = np.full((len(held_out), longest), -1, np.int32)
    users_T = held_out.users_T[ranked_T]
    items_TK[ranked_T] = top_k(scorer, users_T, longest, seen=seen, blocked_I=blocked_I).items_TK
    return Report(
        users_T=held_out.users_T,
        per_user=per_user(items_TK, held_out, ks, scorer.device, n_items=scorer.n_items),
        counts=Counts(
            items=scorer.n_items if blocked_I is None else int((~blocked_I).sum()),
            users=len(held_out),
            rows=len(held_out.items_E),
            unknown_users=held_out.unknown_users,
            unknown_user_rows=held_out.unknown_user_rows,
            cold_items=held_out.cold_items,
            cold_item_rows=held_out.cold_item_rows,
            unseen_contexts=unseen,
            unranked_contexts=int((~ranked_T).sum()),
            known_rows=_known_rows(held_out, seen),
            training_rows=held_out.training_rows,
        ),
    )


def warn_of_known(held_out: HeldOut, seen: History) -> None:
    """Warn of held-out rows that are training rows, as numbers about them say little."""
    known = _known_rows(held_out, seen)
    if known:
        said = _overlap(known, held_out.training_rows, len(held_out.items_E))
        warnings.warn(said, SdgarWarning, stacklevel=3)


def _overlap(known: int, trained: int, rows: int) -> str:
    if known > trained:
        return (
            f"{known:,} of {rows:,} held-out rows are of items that their user has already, most "
            "in another context. What a user has is not recommended again, so each of them counts "
            "as missed. If users come back to items, let these come back in other contexts with "
            "--seen-by context (seen_by=… in Python)."
        )
    return (
        f"{known:,} of {rows:,} held-out rows are training rows. What a user has is never "
        "recommended, so each of them counts as missed, and the numbers are too low: hold out "
        "rows that training does not see."
    )


def _known_rows(held_out: HeldOut, seen: History) -> int:
    """Count the held-out rows that are in the history; both are sorted by user and item."""
    stride = 1 + max(
        (int(items_E.max()) for items_E in (seen.items_E, held_out.items_E) if len(items_E)),
        default=0,
    )
    known_E = np.repeat(np.arange(seen.n_users), np.diff(seen.indptr_U1)) * stride + seen.items_E
    row_E = np.repeat(held_out.users_T, np.diff(held_out.indptr_T1)) * stride + held_out.items_E
    return int(np.isin(row_E, known_E, assume_unique=True).sum())


def _with_unseen(scorer: Scorer, unseen_XF: NDArray[np.int64]) -> Scorer | None:
    """Give the model with contexts that are new, if it can make them up of their fields."""
    if not isinstance(scorer, FieldFactors):
        return None
    return scorer.followed_by(torch.from_numpy(unseen_XF))


@dataclass(frozen=True, slots=True)
class Paired:
    """How two scorers differ on the same users: a - b."""

    metric: str
    """The metric that is compared."""
    users: int
    """The number of users that both scorers were evaluated on."""
    mean_a: float
    """The mean of scorer a over users."""
    mean_b: float
    """The mean of scorer b over users."""
    difference: float
    """The difference mean_a - mean_b."""
    relative: float | None
    """The ratio difference / mean_b; None where mean_b is 0."""
    low: float
    """The lower end of the 95 % percentile bootstrap interval of the difference, over users."""
    high: float
    """The upper end of that interval."""
    t_p: float
    """The two-sided p of the paired t-test."""
    sign_flip_p: float
    """The two-sided p of the sign-flip permutation test of the mean difference, 9,999 flips.

    Chosen over Wilcoxon's test because it tests the mean that is reported, and because most
    differences between two lists are exactly 0, which Wilcoxon's ranks have no place for.
    """

    def as_dict(self) -> dict[str, Any]:
        """Give plain values, for JSON."""
        return asdict(self)


def compare(a: Report, b: Report, metric: str, *, seed: int = 0) -> Paired:
    """Test over users whether ``a`` and ``b`` differ in the mean of ``metric``.

    d_u = a_u - b_u,   t = mean(d) / (std(d) / √n)

    >>> train, test = sdgar.split(sdgar.synthetic("demo"))
    >>> one, two = (kind().fit(train) for kind in (sdgar.ItemKNN, sdgar.MostPopular))
    >>> sdgar.compare(one.evaluate(test), two.evaluate(test), "ndcg@10").difference > 0
    True
    """
    for name, report in (("a", a), ("b", b)):
        of_kind(name, report, Report, "Give what evaluate(test) returned.")
        if metric not in report.per_user:
            raise unknown_name("metric", metric, report.per_user)
    if not np.array_equal(a.users_T, b.users_T) or a.counts.rows != b.counts.rows:
        raise UsageError(
            f"the reports are not about the same held-out data ({a.counts.users:,} users with "
            f"{a.counts.rows:,} rows, and {b.counts.users:,} with {b.counts.rows:,}), so their "
            "values cannot be paired. Evaluate both on one split.",
            code="unpaired_reports",
        )
    n_users = len(a.users_T)
    if n_users < 2:
        raise UsageError(f"a comparison needs at least 2 users, got {n_users}.", code="few_users")
    mean_a, mean_b = a.means()[metric], b.means()[metric]
    difference_T = a.per_user[metric] - b.per_user[metric]
    difference = float(difference_T.mean())
    low_M, high_M = _interval(difference_T[:, None], 0.95, 1000, seed)
    return Paired(
        metric=metric,
        users=n_users,
        mean_a=mean_a,
        mean_b=mean_b,
        difference=difference,
        relative=difference / mean_b if mean_b else None,
        low=float(low_M[0]),
        high=float(high_M[0]),
        t_p=_t_test(difference_T),
        sign_flip_p=_sign_flip(difference_T, seed),
    )


def _interval(
    values_TM: NDArray[np.float64], level: float, resamples: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the percentile bootstrap interval of the mean over T of each column.

    A resample is how often each user was drawn, so all its means are one matrix product.
    """
    if not 0 < level < 1:
        raise UsageError(f"level must be between 0 and 1, got {level}.", code="bad_level")
    if resamples < 1:
        raise UsageError(f"resamples must be at least 1, got {resamples}.", code="bad_resamples")
    rng = np.random.default_rng(check_seed(seed))
    n_users, n_metrics = values_TM.shape
    means_RM = np.empty((resamples, n_metrics))
    at_once = max(1, _DRAWS_AT_ONCE // n_users)
    for start in range(0, resamples, at_once):
        n = min(at_once, resamples - start)
        draws_RT = rng.integers(0, n_users, (n, n_users))
        draws_RT += np.arange(n)[:, None] * n_users
        times_RT = np.bincount(draws_RT.ravel(), minlength=n * n_users).reshape(n, n_users)
        means_RM[start : start + n] = times_RT.astype(np.float64) @ values_TM / n_users
    low_M, high_M = np.quantile(means_RM, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low_M, high_M


def _t_test(difference_T: NDArray[np.float64]) -> float:
    from scipy.special import stdtr

    error = difference_T.std(ddof=1) / np.sqrt(len(difference_T))
    if error == 0:
        return 1.0 if difference_T[0] == 0 else 0.0
    return float(2 * stdtr(len(difference_T) - 1, -abs(difference_T.mean() / error)))


def _sign_flip(difference_T: NDArray[np.float64], seed: int) -> float:
    """Give the two-sided p of the mean: with no difference between the two, every sign is a coin.

    p = (1 + #{ |Σ ±d_u| ≥ |Σ d_u| }) / (1 + flips)
    """
    difference_T = difference_T[difference_T != 0]
    n_users = len(difference_T)
    if n_users == 0:
        return 1.0
    rng = np.random.default_rng(check_seed(seed))
    total = difference_T.sum()
    # Sums of the same numbers in another order differ in the last digits, and count as equal.
    reached = abs(total) - 1e-12 * np.abs(difference_T).sum()
    as_large = 0
    at_once = max(1, _DRAWS_AT_ONCE // n_users)
    for start in range(0, _FLIPS, at_once):
        n = min(at_once, _FLIPS - start)
        bits = np.frombuffer(rng.bytes(n * (-(-n_users // 8))), np.uint8).reshape(n, -1)
        plus_RT = np.unpackbits(bits, axis=1, count=n_users).astype(np.float64)
        sums_R = 2 * (plus_RT @ difference_T) - total
        as_large += int((np.abs(sums_R) >= reached).sum())
    return (1 + as_large) / (1 + _FLIPS)
