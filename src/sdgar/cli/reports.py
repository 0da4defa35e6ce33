"""What commands print of data that was read, a system that is trained, and a measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sdgar.cli.console import Screen
from sdgar.systems.recipe import recipe_of, spec_of

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import Loaded
    from sdgar.data.splits import Split
    from sdgar.evaluation.counts import Counts
    from sdgar.evaluation.report import Report
    from sdgar.recommend.effect import Effect
    from sdgar.systems.base import Estimator

_LENGTHS = 3
"""The number of lengths of lists that fit into a table of 80 columns."""


def print_loaded(screen: Screen, label: str, loaded: Loaded, name: str) -> None:
    """Print what was read: sizes, columns, the account of the rows."""
    stats = loaded.interactions.stats()
    screen.say(
        label,
        f"{name}: {stats['users']:,} users · {stats['items']:,} items · "
        f"{stats['interactions']:,} interactions · {stats['density']:.3%} filled",
    )
    screen.say("columns", loaded.columns.sentence())
    screen.say("rows", loaded.interactions.account.sentence())
    if loaded.weighting:
        screen.say("weights", loaded.weighting)
    if loaded.seen:
        screen.say("seen", loaded.seen)
    if loaded.kinds:
        screen.say("kinds", loaded.kinds)
    for note in loaded.notes:
        screen.say("note", note)


def print_split(screen: Screen, parts: Split) -> None:
    """Print how test rows were split off."""
    screen.say("split", f"{parts.how}: {parts.sizes()}")
    if parts.warning:
        screen.warn(parts.warning)


def print_system(screen: Screen, estimator: Estimator, data: Interactions) -> None:
    """Print the system: settings that differ from the defaults, and settings decided by a rule."""
    defaults = recipe_of(type(estimator)()).settings
    chosen = {k: v for k, v in recipe_of(estimator).settings.items() if v != defaults.get(k)}
    words = [f"{name}={value}" for name, value in chosen.items()]
    screen.say("system", f"{recipe_of(estimator).name} · {' '.join(words) or 'defaults'}")
    by_rule: dict[str, list[str]] = {}
    for name, value in recipe_of(estimator).decided(data).items():
        by_rule.setdefault(spec_of(estimator).rules[name], []).append(f"{name}={value}")
    for rule, decided in by_rule.items():
        screen.say("rule", f"{' '.join(decided)} by {rule}; --set overrides it")


def print_report(
    screen: Screen,
    test: Report,
    popular: Report,
    name: str,
    *,
    metric: str | None = None,
    explain: bool = False,
) -> None:
    """Print all metrics, the main one with its interval and most popular, and what they mean."""
    print_metrics(screen, test, popular)
    print_main_metric(screen, test, popular, name, metric)
    print_left_out(screen, test.counts)
    print_definitions(screen, test.definition, list(test.means()), explain=explain)


def print_metrics(screen: Screen, test: Report, popular: Report | None = None) -> None:
    """Print a table of all metrics by the length of lists, for the model and most popular."""
    shown = [test.means(), *([] if popular is None else [popular.means()])]
    kinds = list(dict.fromkeys(each.partition("@")[0] for each in shown[0]))
    all_ks = sorted({each.partition("@")[2] for each in shown[0]}, key=int)
    for first in range(0, len(all_ks), _LENGTHS):
        ks = all_ks[first : first + _LENGTHS]
        screen.table(
            ("metric", *(f"{of}@{k}" for of in ("", "popular ")[: len(shown)] for k in ks)),
            [
                (kind, *(_number(all_.get(f"{kind}@{k}")) for all_ in shown for k in ks))
                for kind in kinds
            ],
        )


def print_main_metric(
    screen: Screen, test: Report, popular: Report | None, name: str, metric: str | None = None
) -> None:
    """Print the main metric with its interval; without a name it is NDCG on the longest lists."""
    from sdgar.evaluation.metrics import DEFINITIONS

    intervals = test.intervals()
    if not intervals:
        return
    main = metric or _main_of(intervals)
    low, high = intervals[main]
    mean, baseline = test.means()[main], None if popular is None else popular.means()[main]
    screen.say(
        "test",
        f"{name}: {main} {mean:.4f}, 95 % interval over users [{low:.4f}, {high:.4f}]"
        + ("" if baseline is None else f", most popular {baseline:.4f}"),
        style="bold",
    )
    if baseline is not None and main.partition("@")[0] in DEFINITIONS and mean < baseline:
        screen.say("note", "most popular is ahead here: sdgar compare shows which system is best")


def _main_of(metrics: Iterable[str]) -> str:
    """Return the name of the last metric of NDCG, or of any kind if none is of NDCG."""
    names = list(metrics)
    return ([name for name in names if name.startswith("ndcg@")] or names)[-1]


def print_cold(screen: Screen, cold: Report | None, *, metric: str | None = None) -> None:
    """Print how well cold items are ranked, if there are some with test rows."""
    if cold is None:
        return
    means, intervals = cold.means(), cold.intervals()
    main = metric or _main_of(intervals)
    low, high = intervals[main]
    screen.say(
        "cold",
        f"among {cold.counts.items:,} cold items alone: {main} {means[main]:.4f}, 95 % interval "
        f"over users [{low:.4f}, {high:.4f}], {cold.counts.rows:,} test rows of "
        f"{cold.counts.users:,} users",
    )


def print_groups(screen: Screen, what: str, groups: Mapping[str, Report], *, named: bool) -> None:
    """Print metrics for each group: the ones named by the user, by default NDCG and recall."""
    means = {name: report.means() for name, report in groups.items()}
    metrics = [
        metric
        for metric in next(iter(means.values()))
        if named or metric.partition("@")[0] in ("ndcg", "recall")
    ]
    screen.table(
        (what, "users", "rows", *metrics),
        [
            (
                name,
                f"{groups[name].counts.users:,}",
                f"{groups[name].counts.rows:,}",
                *(_number(of_group[metric]) for metric in metrics),
            )
            for name, of_group in means.items()
        ],
    )


def _number(value: float | None) -> str:
    return "" if value is None else "–" if math.isnan(value) else f"{value:.4f}"


def print_definitions(
    screen: Screen, definition: str, metrics: list[str], *, explain: bool
) -> None:
    """Print how recommendations were made, and what each metric means if requested."""
    from sdgar.evaluation.measures import meanings

    more = "" if explain else " --explain-metrics says what each metric means."
    screen.say("lists", definition + more)
    for kind, said in meanings(metrics).items() if explain else ():
        screen.say("metric", f"{kind}@k: {said}")


def print_left_out(screen: Screen, left: Counts) -> None:
    """Print which held-out rows were left out, or count as missed."""
    if left.unknown_users:
        screen.say(
            "note",
            f"{left.unknown_user_rows:,} test rows of {left.unknown_users:,} users that "
            f"training never saw are left out, of {left.unknown_user_rows + left.rows:,} rows: "
            "there is no history to rank from. --split paper and leave-last-out hold out rows "
            "of known users only; users:0.1 measures new users, folded in from part of theirs",
        )
    if left.unseen_contexts:
        how = "ranked by the sum of their fields"
        if left.unranked_contexts:
            how = "count as missed, as this model has no fields"
        screen.say(
            "note",
            f"{left.unseen_contexts:,} contexts are new combinations of values in the model: {how}",
        )
    if left.cold_items:
        screen.say(
            "note",
            f"{left.cold_items:,} test items that training never saw count as missed "
            f"({left.cold_item_rows:,} rows)",
        )


def print_effect(screen: Screen, effect: Effect) -> None:
    """Print measures without rules, with rules, and the difference."""
    from sdgar.evaluation.measures import BEYOND, MEASURES, meanings

    without, ruled = effect.means()
    said = meanings(list(ruled))
    shown = [
        name
        for kind in MEASURES
        if kind in ("ndcg", "recall", *BEYOND)
        for name in ruled
        if name.partition("@")[0].partition(":")[0] == kind
    ]
    screen.table(
        ("measure", "without rules", "with rules", "difference"),
        [
            (
                name,
                f"{without[name]:.4f}",
                f"{ruled[name]:.4f}",
                f"{ruled[name] - without[name]:+.4f}",
            )
            for name in shown
            if name in without
        ],
    )
    for kind in MEASURES:
        if kind in said and kind in BEYOND:
            screen.say("measure", f"{kind}@k: {said[kind]}")
