"""What a command says of data that was read, a system that is trained, and a measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdgar.cli.console import Screen

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import Loaded
    from sdgar.data.splits import Split
    from sdgar.evaluation.report import Counts, Report
    from sdgar.recommend.effect import Effect
    from sdgar.systems.base import Estimator

_LISTS_BESIDE = 3
"""The lengths of lists that a table of 80 columns has room for."""


def tell_loaded(screen: Screen, label: str, loaded: Loaded, name: str) -> None:
    """Say what was read: sizes, columns, the account of the rows."""
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


def tell_split(screen: Screen, parts: Split) -> None:
    """Say how test rows were told apart."""
    screen.say("split", f"{parts.how}: {parts.sizes()}")
    if parts.warning:
        screen.warn(parts.warning)


def tell_system(screen: Screen, estimator: Estimator, data: Interactions) -> None:
    """Say what is trained: settings that differ from the defaults, and those a rule decides."""
    defaults = type(estimator)().get_params()
    chosen = {k: v for k, v in estimator.get_params().items() if v != defaults[k]}
    words = [f"{name}={value}" for name, value in chosen.items()]
    screen.say("system", f"{estimator.system_name} · {' '.join(words) or 'defaults'}")
    by_rule: dict[str, list[str]] = {}
    for name, value in estimator.decided(data).items():
        by_rule.setdefault(estimator.rules[name], []).append(f"{name}={value}")
    for rule, decided in by_rule.items():
        screen.say("rule", f"{' '.join(decided)} by {rule}; --set overrides it")


def tell_report(
    screen: Screen,
    test: Report,
    popular: Report,
    name: str,
    *,
    metric: str | None = None,
    explain: bool = False,
) -> None:
    """Show all metrics, the main one with its interval beside most popular, and what they mean."""
    means, beside = test.means(), popular.means()
    kinds = list(dict.fromkeys(each.partition("@")[0] for each in means))
    all_ks = list(dict.fromkeys(each.partition("@")[2] for each in means))
    for first in range(0, len(all_ks), _LISTS_BESIDE):
        ks = all_ks[first : first + _LISTS_BESIDE]
        screen.table(
            ("metric", *(f"@{k}" for k in ks), *(f"popular @{k}" for k in ks)),
            [
                (kind, *(f"{all_[f'{kind}@{k}']:.4f}" for all_ in (means, beside) for k in ks))
                for kind in kinds
            ],
        )
    main = metric or f"ndcg@{all_ks[-1]}"
    low, high = test.intervals()[main]
    screen.say(
        "test",
        f"{name}: {main} {means[main]:.4f}, 95 % interval over users [{low:.4f}, {high:.4f}], "
        f"most popular {beside[main]:.4f}",
        style="bold",
    )
    if means[main] < beside[main]:
        screen.say("note", "most popular is ahead here: sdgar compare shows which system is best")
    tell_left_out(screen, test.counts)
    tell_measured(screen, test.definition, explain=explain)


def tell_cold(screen: Screen, cold: Report | None, *, metric: str | None = None) -> None:
    """Say how well cold items are told apart, if there are some with test rows."""
    if cold is None:
        return
    means = cold.means()
    main = metric or [name for name in means if name.startswith("ndcg@")][-1]
    low, high = cold.intervals()[main]
    screen.say(
        "cold",
        f"among {cold.counts.items:,} cold items alone: {main} {means[main]:.4f}, 95 % interval "
        f"over users [{low:.4f}, {high:.4f}], {cold.counts.rows:,} test rows of "
        f"{cold.counts.users:,} users",
    )


def tell_measured(screen: Screen, definition: str, *, explain: bool) -> None:
    """Say how lists were made, and what each metric means if that is wanted."""
    from sdgar.evaluation.metrics import DEFINITIONS

    more = "" if explain else " --explain-metrics says what each metric means."
    screen.say("lists", definition + more)
    for kind, said in DEFINITIONS.items() if explain else ():
        screen.say("metric", f"{kind}@k: {said}")


def tell_left_out(screen: Screen, left: Counts) -> None:
    """Say which held-out rows could not be ranked for, or count as missed."""
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
            how = "count as missed, as this model knows no fields"
        screen.say(
            "note",
            f"{left.unseen_contexts:,} contexts are new combinations of known values: {how}",
        )
    if left.cold_items:
        screen.say(
            "note",
            f"{left.cold_items:,} test items that training never saw count as missed "
            f"({left.cold_item_rows:,} rows)",
        )


def tell_effect(screen: Screen, effect: Effect) -> None:
    """Show what rules do to the lists: measures without them, with them, and the difference."""
    from sdgar.recommend.effect import BEYOND

    without, ruled = effect.means()
    shown = [name for name in ruled if name.partition("@")[0] in ("ndcg", "recall", *BEYOND)]
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
    for name, said in BEYOND.items():
        if any(one.startswith(f"{name}@") for one in ruled):
            screen.say("measure", f"{name}@k: {said}")
