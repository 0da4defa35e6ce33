"""What commands print of data that was read, a system that is trained, and its measurement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sdgar.cli.console import Screen
from sdgar.errors import NotReplacedError
from sdgar.settings import METRIC
from sdgar.show.printed import command
from sdgar.storage import remote
from sdgar.systems.recipe import recipe_of, spec_of

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import LoadedRows
    from sdgar.data.splits import Split
    from sdgar.evaluation.ranked import Counts
    from sdgar.evaluation.report import Report
    from sdgar.recommend.recommender import Recommender
    from sdgar.runs.job import Job
    from sdgar.runs.run import RunResult
    from sdgar.runs.succession import Succession
    from sdgar.systems.base import Estimator

_LENGTHS = 3
"""The number of lengths of lists that fit into a table of 80 columns."""


def print_loaded(screen: Screen, label: str, loaded: LoadedRows, name: str) -> None:
    """Print what was read: sizes, columns, the account of the rows."""
    stats = loaded.interactions.stats()
    screen.say(
        label,
        f"{name}: {stats['users']:,} users · {stats['items']:,} items · "
        f"{stats['interactions']:,} interactions · {stats['density']:.3%} filled",
    )
    screen.say("columns", loaded.columns.sentence())
    screen.say("rows", loaded.interactions.account.sentence())
    for fact, text in loaded.facts.items():
        screen.say(fact, text)
    for note in loaded.notes:
        screen.say("note", note)


def print_split(screen: Screen, parts: Split) -> None:
    """Print how test rows were split off."""
    screen.say("split", f"{parts.how}: {parts.size_text()}")
    if parts.warning:
        screen.warn(parts.warning)


def print_system(screen: Screen, estimator: Estimator, data: Interactions) -> None:
    """Print the system: settings that differ from the defaults, and settings decided by a rule."""
    recipe, defaults = recipe_of(estimator), recipe_of(type(estimator)()).settings
    chosen = [f"{k}={v}" for k, v in recipe.settings.items() if v != defaults.get(k)]
    screen.say("system", f"{recipe.name} · {' '.join(chosen) or 'defaults'}")
    by_rule: dict[str, list[str]] = {}
    for name, value in recipe.decided(data).items():
        by_rule.setdefault(spec_of(estimator).rules[name], []).append(f"{name}={value}")
    for rule, decided in by_rule.items():
        screen.say("rule", f"{' '.join(decided)} by {rule}; --set overrides it")


def print_earlier(screen: Screen, job: Job, estimator: Estimator, before: Recommender) -> None:
    """Print the model that training continues from; a system without epochs starts again."""
    options = recipe_of(estimator).warm_loop
    said = f"{recipe_of(estimator).name} has no epochs and is computed again from all rows"
    if options is not None:
        rate = f"{estimator.get_params()['warm_start__rate']:g}"
        said = f"continues for {options.epochs} epochs, from {rate} of the learning rate"
    screen.say("from", f"{job.earlier} ({before.version}): {said}")


def print_result(screen: Screen, job: Job, out: Path, result: RunResult, *, explain: bool) -> None:
    """Print the report of a run, its time, where its model is, and the command to run next."""
    summary = result.summary
    if result.test is not None and result.popular is not None:
        print_report(
            screen, result.test, result.popular, job.system, metric=job.metric, explain=explain
        )
        print_cold(screen, result.cold, metric=job.metric)
        if job.protocol == "paper" and result.log:
            screen.warn("the epoch was chosen on test rows (protocol paper): optimistic numbers.")
    if result.succession is not None:
        _print_succession(screen, result.succession)
    seconds = summary["seconds"]
    screen.say(
        "time",
        f"{seconds['train']:.1f} s training · {seconds['evaluate']:.1f} s evaluating · "
        f"{summary['positives_per_second']:,} positives a second",
    )
    screen.say("engine", f"{summary['engine']}: {summary['why']}")
    if weight := summary["memory"]:
        screen.say(
            "memory",
            f"added to the scores with weight {weight:g}; --set item_memory=0 leaves it out",
        )
    if result.refusal is not None:
        raise NotReplacedError(
            f"{result.refusal}. Nothing was saved, and {job.earlier} is as it was (--replace-if "
            f"{job.replace_if}).",
            code="not_replaced",
        )
    picture = _picture(job, out, result)
    where = remote.deliver(out)
    screen.say("saved", f"{where} ({_what_was_kept(result)})")
    if picture is not None:
        screen.say("drawn", f"{where}/{picture.name}: loss and metric of every epoch")
    screen.say("next", command("sdgar", "recommend", where, *_someone(result)))
    screen.result(summary | {"out": where})


def _print_succession(screen: Screen, found: Succession) -> None:
    """Print both models on the same rows with their intervals, and the difference in pairs."""
    metrics = [name for name in found.new.means() if name.partition("@")[0] in ("ndcg", "recall")]
    reports = [(report.means(), report.intervals()) for report in (found.earlier, found.new)]
    rows = []
    for name in metrics:
        cells = [(means[name], intervals[name]) for means, intervals in reports]
        rows.append([name, *(c for mean, (a, b) in cells for c in (mean, f"[{a:.4f}, {b:.4f}]"))])
    screen.table(("metric", "earlier", "interval", "new", "interval"), rows)
    paired = found.paired
    change = "" if paired.relative is None else f" ({paired.relative:+.1%})"
    screen.say(
        "compared",
        f"{paired.metric} of the new model {paired.mean_a:.4f}, of the earlier one "
        f"{paired.mean_b:.4f}: {paired.difference:+.4f}{change}, 95 % interval over the same "
        f"{paired.users:,} users [{paired.low:+.4f}, {paired.high:+.4f}]",
        style="bold",
    )
    if found.left_out:
        screen.say("note", f"{found.left_out:,} test users who are not in both models are left out")


def _picture(job: Job, out: Path, result: RunResult) -> Path | None:
    """Draw how the epoch was chosen, next to the log of the run."""
    from sdgar.runs.figures import draw_run

    by_paper = job.protocol == "paper"
    metric = METRIC if by_paper else job.settings.get("early_stopping__metric", METRIC)
    return draw_run(
        result.log,
        out / "training.png",
        title=f"{job.system}, seed {job.seed}",
        metric=metric,
        rows="test" if by_paper else "validation",
    )


def _what_was_kept(result: RunResult) -> str:
    kept = result.summary["kept"]
    if kept["rows"] != "all":
        return "the model that was measured"
    how = f"trained on all {kept['interactions']:,} rows"
    if result.test is None:
        return how
    return f"{how} after it was measured; --keep measured saves the measured one"


def _someone(result: RunResult) -> list[str]:
    """Return the options that name the first context."""
    fields, some = result.model.fields, result.model.users.values[0]
    if fields is None:
        return ["--user", str(some)]
    pairs = dict(zip(fields.names, json.loads(some), strict=True))
    words = ["--user", str(pairs.pop("user"))]
    return words + [word for k, v in pairs.items() for word in ("--context", f"{k}={v}")]


def print_report(
    screen: Screen,
    test: Report,
    popular: Report | None,
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
            [(kind, *(each.get(f"{kind}@{k}") for each in shown for k in ks)) for kind in kinds],
        )


def print_main_metric(
    screen: Screen, test: Report, popular: Report | None, name: str, metric: str | None = None
) -> None:
    """Print the main metric with its interval; without a name it is NDCG on the longest lists."""
    from sdgar.evaluation.measures import DEFINITIONS

    if not test.intervals():
        return
    main, mean, interval = _main_of(test, metric)
    baseline = None if popular is None else popular.means()[main]
    screen.say(
        "test",
        f"{name}: {main} {mean:.4f}, {interval}"
        + ("" if baseline is None else f", most popular {baseline:.4f}"),
        style="bold",
    )
    if baseline is not None and main.partition("@")[0] in DEFINITIONS and mean < baseline:
        screen.say("note", "most popular is ahead here: sdgar compare shows which system is best")


def main_metric(names: Iterable[str]) -> str:
    """Return the NDCG of the longest lists; without one, the last metric."""
    *_, last = names
    lists = {int(name.partition("@")[2]): name for name in names if name.startswith("ndcg@")}
    return lists[max(lists)] if lists else last


def _main_of(report: Report, metric: str | None) -> tuple[str, float, str]:
    """Return the name, the mean and the interval of the main metric of a report."""
    intervals = report.intervals()
    name = metric or main_metric(intervals)
    low, high = intervals[name]
    return name, report.means()[name], f"95 % interval over users [{low:.4f}, {high:.4f}]"


def print_cold(screen: Screen, cold: Report | None, *, metric: str | None = None) -> None:
    """Print how well cold items are ranked, if there are some with test rows."""
    if cold is not None:
        main, mean, interval = _main_of(cold, metric)
        screen.say(
            "cold",
            f"among {cold.counts.items:,} cold items alone: {main} {mean:.4f}, {interval}, "
            f"{cold.counts.rows:,} test rows of {cold.counts.users:,} users",
        )


def print_groups(screen: Screen, what: str, groups: Mapping[str, Report], *, named: bool) -> None:
    """Print metrics for each group: the ones named by the user, by default NDCG and recall."""
    means = {name: report.means() for name, report in groups.items()}
    metrics = [
        metric
        for metric in next(iter(means.values()))
        if named or metric.partition("@")[0] in ("ndcg", "recall")
    ]
    counts = {name: (report.counts.users, report.counts.rows) for name, report in groups.items()}
    screen.table(
        (what, "users", "rows", *metrics),
        [(name, *counts[name], *(own[m] for m in metrics)) for name, own in means.items()],
    )


def print_definitions(
    screen: Screen, definition: str, metrics: Iterable[str], *, explain: bool
) -> None:
    """Print how recommendations were made, and what each metric means if requested."""
    from sdgar.evaluation.measures import meanings

    more = "" if explain else " --explain-metrics says what each metric means."
    screen.say("lists", definition + more)
    for kind, said in meanings(list(metrics)).items() if explain else ():
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


def print_effect(screen: Screen, without: dict[str, float], ruled: dict[str, float]) -> None:
    """Print measures without rules, with rules, and the difference."""
    from sdgar.evaluation.measures import BEYOND, MEASURES, meanings

    said = meanings(list(ruled))
    shown = [
        name
        for kind in MEASURES
        if kind in ("ndcg", "recall", *BEYOND)
        for name in ruled
        if name in without and name.partition("@")[0].partition(":")[0] == kind
    ]
    screen.table(
        ("measure", "without rules", "with rules", "difference"),
        [(n, without[n], ruled[n], f"{ruled[n] - without[n]:+.4f}") for n in shown],
    )
    for kind in MEASURES:
        if kind in said and kind in BEYOND:
            screen.say("measure", f"{kind}@k: {said[kind]}")
