"""Whether two scorers differ on the same users: paired differences and tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdgar.arguments import of_kind
from sdgar.errors import UsageError, unknown_name
from sdgar.evaluation.metrics import DRAWS_AT_ONCE, interval
from sdgar.evaluation.report import Report
from sdgar.maths.rng import check_seed

_FLIPS = 9_999


@dataclass(frozen=True, slots=True)
class Paired:
    """How two scorers differ on the same users: a - b."""

    metric: str
    """The metric that is compared."""
    users: int
    """The number of users that both scorers have a value for."""
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

    Chosen over Wilcoxon's test because it tests the reported mean, and because most differences
    between two lists are exactly 0, which Wilcoxon's ranks do not allow for.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
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
        of_kind(name, report, Report, "Pass what evaluate(test) returned.")
        if metric in report.overall:
            raise UsageError(
                f"{metric} is one number of all lists together, which cannot be tested over users. "
                "Compare a metric of each user.",
                code="bad_metric",
            )
        if metric not in report.per_user:
            raise unknown_name("metric", metric, report.per_user)
    if not np.array_equal(a.users_T, b.users_T) or a.counts.rows != b.counts.rows:
        raise UsageError(
            f"the reports are not about the same held-out data ({a.counts.users:,} users with "
            f"{a.counts.rows:,} rows, and {b.counts.users:,} with {b.counts.rows:,}), so their "
            "values cannot be paired. Evaluate both on one split.",
            code="unpaired_reports",
        )
    difference_T = a.per_user[metric] - b.per_user[metric]
    difference_T = difference_T[~np.isnan(difference_T)]
    n_users = len(difference_T)
    if n_users < 2:
        raise UsageError(f"a comparison needs at least 2 users, got {n_users}.", code="few_users")
    mean_a, mean_b = a.means()[metric], b.means()[metric]
    difference = float(difference_T.mean())
    low_M, high_M = interval(difference_T[:, None], 0.95, 1000, seed)
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


def _t_test(difference_T: NDArray[np.float64]) -> float:
    from scipy.special import stdtr

    error = difference_T.std(ddof=1) / np.sqrt(len(difference_T))
    if error == 0:
        return 1.0 if difference_T[0] == 0 else 0.0
    return float(2 * stdtr(len(difference_T) - 1, -abs(difference_T.mean() / error)))


def _sign_flip(difference_T: NDArray[np.float64], seed: int) -> float:
    """Return the two-sided p of the mean: without a difference, every sign is a fair coin.

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
    at_once = max(1, DRAWS_AT_ONCE // n_users)
    for start in range(0, _FLIPS, at_once):
        n = min(at_once, _FLIPS - start)
        bits = np.frombuffer(rng.bytes(n * (-(-n_users // 8))), np.uint8).reshape(n, -1)
        plus_RT = np.unpackbits(bits, axis=1, count=n_users).astype(np.float64)
        sums_R = 2 * (plus_RT @ difference_T) - total
        as_large += int((np.abs(sums_R) >= reached).sum())
    return (1 + as_large) / (1 + _FLIPS)
