"""Compare a new model with the one it would replace, on rows that neither has seen.

The earlier model answers as a server does with it: users with newer events are folded in from all
of their events before the test rows. Users that one of them cannot rank for are
left out for both. The difference is taken in pairs over users.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sdgar.arguments import one_of
from sdgar.data.held_out import measured_users
from sdgar.data.interactions import Interactions
from sdgar.data.splits import share_of
from sdgar.data.splits.single import Split, check_share, parted, seen_before
from sdgar.errors import DataError, UsageError
from sdgar.evaluation.paired import Paired, compare
from sdgar.evaluation.report import Report
from sdgar.maths.rng import Stream, sort_keys
from sdgar.recommend.recommender import Recommender
from sdgar.recommend.update import lacks
from sdgar.systems.base import Estimator
from sdgar.systems.recipe import recipe_of

REPLACE_IF = ("always", "not-worse", "better")
"""The conditions under which a new model replaces the earlier one."""
NEW = "new"
"""The rule of a split that holds out the newest rows that the earlier model was not trained on."""
_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Succession:
    """A new model compared with the one it would replace."""

    earlier: Report
    """The report of the earlier model."""
    new: Report
    """The report of the new model, on the same rows."""
    paired: Paired
    """The difference, new - earlier, over users."""
    left_out: int
    """The number of test users that are unknown to one of the models."""

    def refusal(self, replace_if: str) -> str | None:
        """Return why the new model does not replace the earlier one; None if it does."""
        found = self.paired
        said = (
            f"{found.metric} is {found.mean_a:.4f} after {found.mean_b:.4f}, and the 95 % interval "
            f"of the difference is [{found.low:+.4f}, {found.high:+.4f}]"
        )
        if replace_if == "better" and found.low <= 0:
            return f"the new model is not shown to be better: {said}"
        if replace_if == "not-worse" and found.high < 0:
            return f"the new model is worse: {said}"
        return None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "earlier": self.earlier.means(),
            "earlier_intervals": self.earlier.intervals(),
            "new": self.new.means(),
            "new_intervals": self.new.intervals(),
            "paired": asdict(self.paired),
            "users": len(self.new.users_T),
            "left_out": self.left_out,
        }


def compared(
    model: Recommender,
    before: Recommender,
    train: Interactions,
    test: Interactions,
    *,
    ks: tuple[int, ...],
    metric: str,
) -> Succession:
    """Measure a model that was trained on ``train``, and the one before it, on the test rows."""
    if before.fields is not None:
        raise UsageError(
            "a model whose contexts have several fields is not compared with an earlier one. Leave "
            "--from out.",
            code="bad_context",
        )
    earlier = informed(before, train)
    mine, theirs = (set(measured_users(test, one).tolist()) for one in (model, earlier))
    both = test.users.index_of(sorted(mine & theirs))
    rows = test.subset(np.isin(test.users_E, both), "users unknown to one model")
    if not len(rows):
        raise DataError(
            "no user of the test rows is in both models, so they cannot be compared. Give "
            "more rows, or say --split none, which measures nothing.",
            code="no_common_users",
        )
    new, old = (one.evaluate(rows, ks=ks) for one in (model, earlier))
    old = replace(old, users_T=new.users_T)  # the same users: both models number them by their ids
    left_out = len(np.unique(test.users_E)) - len(both)
    return Succession(old, new, compare(new, old, metric), left_out)


def informed(before: Recommender, rows: Interactions) -> Recommender:
    """Return the earlier model with the newer events of users, as far as it can use them."""
    if not before.abilities["fold_in"]:
        known_U = before.users.index_of(rows.users.values) >= 0
        rows = rows.subset(known_U[rows.users_E], "users unknown to the earlier model")
    bare = replace(rows, weight_E=None)
    return before.update(bare, skip_unknown=True)


def newest(data: Interactions, before: Recommender, rule: str = NEW, *, seed: int = 0) -> Split:
    """Hold out the newest half of the rows that the earlier model has not seen.

    ``new:0.3`` holds out another share. Rows of one moment stay together; without times, rows are
    held out at random.
    """
    share = _share_of(rule)
    unseen_E = lacks(before.saved, data)
    n = int(unseen_E.sum())
    if n < 2:
        raise DataError(
            f"the earlier model was trained on all but {n} of the {len(data):,} rows, so there is "
            "nothing new to be measured on. Give newer rows, or say --split none.",
            code="nothing_new",
        )
    if data.time_E is None:
        key_E, which = sort_keys(seed, Stream.SPLIT_TEST, 0, np.arange(len(data))), "at random"
    else:
        key_E, which = data.time_E, "the newest"
    first = np.sort(key_E[unseen_E])[min(math.ceil((1 - share) * n), n - 1)]
    how = f"{share:.0%} of the {n:,} rows that the earlier model has not seen, {which}"
    parts = parted(data, unseen_E & (key_E >= first), how)
    if data.time_E is None:
        return parts
    return replace(parts, train=seen_before(parts.train, int(first)))


def require_rule(split: str | None) -> None:
    """Refuse a split whose test rows the earlier model may have seen."""
    if split is None or split == "none":
        return
    if split.partition(":")[0] != NEW:
        raise UsageError(
            f"--split {split} may hold out rows that the earlier model was trained on. With --from "
            f"use {NEW} (the default: the newest half of what it has not seen), {NEW}:0.3 or none; "
            "or give --test.",
            code="split_with_from",
        )
    _share_of(split)


def require_condition(replace_if: str, *, measures: bool) -> None:
    """Refuse an unknown condition, and one that nothing would be measured for."""
    one_of("--replace-if", replace_if, REPLACE_IF)
    if replace_if != "always" and not measures:
        raise UsageError(
            f"--replace-if {replace_if} compares both models on test rows, and --split none holds "
            "none out. Leave one of them out.",
            code="no_test",
        )


def require_succession(
    estimator: Estimator,
    before: Recommender,
    test: Interactions | None,
    protocol: str,
    replace_if: str,
) -> None:
    """Raise, before anything is trained, if an estimator cannot continue from an earlier model."""
    require_condition(replace_if, measures=test is not None)
    if not before.version:
        raise UsageError(
            "a run continues from a model in a folder, so that it can be resumed. Save the model, "
            "and load it with sdgar.load(path).",
            code="not_saved",
        )
    if protocol == "paper":
        raise UsageError(
            "the paper's protocol begins at random, and cannot continue from an earlier model. "
            "Leave one of them out.",
            code="cannot_continue",
        )
    recipe_of(estimator).require_warm_start()


def _share_of(rule: str) -> float:
    share = share_of(rule, None if rule.partition(":")[2] else _SHARE)
    check_share(share)
    return share
