"""``sdgar demo``: everything once, on synthetic data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from sdgar.cli.answers import show
from sdgar.cli.console import Screen
from sdgar.cli.inputs import split_off
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Explain, Json, Overwrite, Seed
from sdgar.cli.reports import print_report
from sdgar.cli.training_screen import training
from sdgar.show.printed import command
from sdgar.systems.recipe import recipe_of


def demo(
    out: Annotated[Path, Option("Write the results here.", "RUN")] = Path("runs/demo"),
    seed: Seed = 0,
    overwrite: Overwrite = False,
    explain: Explain = False,
    as_json: Json = False,
    *,
    extended: Mapping[Any, Any],
) -> None:
    """Make data, train, compare with most-popular, save, draw, recommend."""
    from sdgar.data.synthetic import PRESETS, generate
    from sdgar.runs.figures import draw_run
    from sdgar.runs.job import Job
    from sdgar.runs.run import RunData
    from sdgar.systems.sdsoftmax import SDSoftmax

    screen = Screen(as_json=as_json)
    data = generate(PRESETS["demo"], seed=seed)
    stats = data.stats()
    screen.say(
        "data",
        f"synthetic, seed {seed}: {stats['users']:,} users · {stats['items']:,} items · "
        f"{stats['interactions']:,} interactions · {stats['density']:.2%} filled",
    )
    train, test = split_off(screen, data, None, seed)
    estimator = SDSoftmax(seed=seed)
    job = Job.of(estimator, seed=seed, overwrite=overwrite, keep="all")
    rows = RunData(train=train, test=test, everything=data)
    with training(screen, recipe_of(estimator).loop) as on_epoch:
        result = job.run(estimator, rows, out, on_epoch=on_epoch)
    if result.test is not None and result.popular is not None:
        print_report(
            screen, result.test, result.popular, recipe_of(estimator).name, explain=explain
        )
    picture = draw_run(
        result.log,
        out / "training.png",
        title=f"{recipe_of(estimator).name} on the demo data, seed {seed}",
        metric=estimator.early_stopping.metric,
    )
    some = result.model.users.values[0]
    lists = result.model.recommend_lists([some], k=5)
    screen.say("for you", f"five items that {some} does not have yet")
    show(screen, lists, ["user"])
    files = ("model", "log.jsonl", *([picture.name] if picture else []))
    screen.say("saved", f"{out} ({', '.join(files)})")
    first = lists.dicts()[0]["items"][0]["item"]
    screen.say("next", command("sdgar", "recommend", out, "--user", some, "-k", 10))
    screen.say("next", command("sdgar", "similar", out, "--item", first))
    screen.say("next", command("sdgar", "train", "your-events.csv", "--out", "runs/mine"))
    for extension in extended:
        screen.say("next", extension.next_command())
    screen.result(result.summary | {"out": str(out), "recommendations": lists.dicts()})
    for extension, options in extended.items():
        extension.after_demo(screen, out, options)
