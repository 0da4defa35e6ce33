"""What is said of a run that is over: its report, its time, where its model is, what is next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sdgar.cli.console import Screen
from sdgar.cli.reports import tell_report
from sdgar.settings import METRIC
from sdgar.show.printed import command

if TYPE_CHECKING:
    from sdgar.experiments.job import Job
    from sdgar.experiments.run import RunResult


def tell_finished(screen: Screen, job: Job, out: Path, result: RunResult, *, explain: bool) -> None:
    """Show the report of a run, and say where its model is."""
    if result.test is not None and result.popular is not None:
        tell_report(
            screen, result.test, result.popular, job.system, metric=job.metric, explain=explain
        )
        if job.protocol == "paper" and result.log:
            screen.warn("the epoch was chosen on test rows (protocol paper): optimistic numbers.")
    seconds = result.summary["seconds"]
    screen.say(
        "time",
        f"{seconds['train']:.1f} s training · {seconds['evaluate']:.1f} s evaluating · "
        f"{result.summary['positives_per_second']:,} positives a second",
    )
    screen.say("engine", f"{result.summary['engine']}: {result.summary['why']}")
    if weight := result.summary["memory"]:
        screen.say(
            "memory", f"added to the scores with weight {weight:g}; --set memory=0 leaves it out"
        )
    screen.say("saved", f"{out} ({_what_was_kept(result)})")
    picture = _picture(job, out, result)
    if picture is not None:
        screen.say("drawn", f"{picture}: loss and metric of every epoch")
    screen.say("next", command("sdgar", "recommend", out, *_someone(result)))
    screen.result(result.summary | {"out": str(out)})


def _picture(job: Job, out: Path, result: RunResult) -> Path | None:
    """Draw how the epoch was chosen, beside the log of the run."""
    from sdgar.experiments.figures import draw_run

    return draw_run(
        result.log,
        out / "training.png",
        title=f"{job.system}, seed {job.seed}",
        metric=METRIC if job.protocol == "paper" else job.settings.get("metric", METRIC),
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
