"""The end of a run: its report, its time, where its model is, and what to do next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sdgar.cli.console import Screen
from sdgar.cli.reports import print_cold, print_report
from sdgar.errors import NotReplacedError
from sdgar.settings import METRIC
from sdgar.show.printed import command
from sdgar.storage import remote
from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from sdgar.recommend.recommender import Recommender
    from sdgar.runs.job import Job
    from sdgar.runs.run import RunResult
    from sdgar.runs.succession import Succession
    from sdgar.systems.base import Estimator


def print_result(screen: Screen, job: Job, out: Path, result: RunResult, *, explain: bool) -> None:
    """Show the report of a run, and say where its model is."""
    if result.test is not None and result.popular is not None:
        print_report(
            screen, result.test, result.popular, job.system, metric=job.metric, explain=explain
        )
        print_cold(screen, result.cold, metric=job.metric)
        if job.protocol == "paper" and result.log:
            screen.warn("the epoch was chosen on test rows (protocol paper): optimistic numbers.")
    if result.succession is not None:
        print_succession(screen, result.succession)
    seconds = result.summary["seconds"]
    screen.say(
        "time",
        f"{seconds['train']:.1f} s training · {seconds['evaluate']:.1f} s evaluating · "
        f"{result.summary['positives_per_second']:,} positives a second",
    )
    screen.say("engine", f"{result.summary['engine']}: {result.summary['why']}")
    if weight := result.summary["memory"]:
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
    screen.result(result.summary | {"out": where})


def print_earlier(screen: Screen, job: Job, estimator: Estimator, before: Recommender) -> None:
    """Print the model that training continues from; a system without epochs starts again."""
    options = recipe_of(estimator).warm_loop
    said = f"{recipe_of(estimator).name} has no epochs and is computed again from all rows"
    if options is not None:
        rate = f"{estimator.get_params()['warm_start__rate']:g}"
        said = f"continues for {options.epochs} epochs, from {rate} of the learning rate"
    screen.say("from", f"{job.earlier} ({before.version}): {said}")


def print_succession(screen: Screen, found: Succession) -> None:
    """Show both models on the same rows with their intervals, and the difference in pairs."""
    metrics = [name for name in found.new.means() if name.partition("@")[0] in ("ndcg", "recall")]
    reports = found.earlier, found.new
    means, intervals = [r.means() for r in reports], [r.intervals() for r in reports]
    screen.table(
        ("metric", "earlier", "interval", "new", "interval"),
        [
            (name, *(cell for m, i in zip(means, intervals, strict=True) for cell in
                     (f"{m[name]:.4f}", f"[{i[name][0]:.4f}, {i[name][1]:.4f}]")))
            for name in metrics
        ],
    )  # fmt: skip
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

    return draw_run(
        result.log,
        out / "training.png",
        title=f"{job.system}, seed {job.seed}",
        metric=METRIC
        if job.protocol == "paper"
        else job.settings.get("early_stopping__metric", METRIC),
        rows="test" if job.protocol == "paper" else "validation",
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
    """Return the options that ask for the first context."""
    fields, some = result.model.fields, result.model.users.values[0]
    if fields is None:
        return ["--user", str(some)]
    pairs = dict(zip(fields.names, json.loads(some), strict=True))
    words = ["--user", str(pairs.pop("user"))]
    return words + [word for k, v in pairs.items() for word in ("--context", f"{k}={v}")]
