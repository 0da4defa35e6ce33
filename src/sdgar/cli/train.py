"""``sdgar train``: from files of events to a saved, measured model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli.console import Screen
from sdgar.cli.inputs import absolute, bounded, read_rows
from sdgar.cli.options.option import Option, first_page, options_of, written_out
from sdgar.cli.options.shared import (
    Explain,
    Json,
    Ks,
    Overwrite,
    lengths_of,
    require_one_split,
    require_one_test,
)
from sdgar.cli.options.train import (
    WITH_RESUME,
    TrainOptions,
    interrupted_job,
    read_as_before,
)
from sdgar.cli.options.values import source
from sdgar.cli.reports import print_earlier, print_result, print_system
from sdgar.cli.training_screen import stop_signals
from sdgar.cli.training_screen import training as training_bar
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError
from sdgar.storage import remote
from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from sdgar.runs.job import Job
    from sdgar.systems.base import Estimator


@first_page(
    "--out", "--system", "--fast", "--thorough", "--set", "--test", "--split", "--metric", "--k",
    "--seed", "--item-features", "--from", "--resume", "--overwrite", "--json", "--user-column",
    "--item-column", "--min-rating",
)  # fmt: skip
def train(
    context: typer.Context,
    files: Annotated[
        list[Any] | None,
        Option(
            "Train on these files of events, or on a store: sqlite:///FILE.db, postgresql://…",
            "TRAIN",
            parse=source,
            is_argument=True,
        ),
    ] = None,
    out: Annotated[
        Path | None, Option("Save the model here.", "RUN", parse=remote.place_for)
    ] = None,
    *,
    options: TrainOptions,
    ks: Ks = None,
    resume: Annotated[
        Path | None, Option("Resume the interrupted run of RUN.", "RUN", parse=remote.place_for)
    ] = None,
    overwrite: Overwrite = False,
    explain: Explain = False,
    verbose: Annotated[
        bool, Option("Print diagnostics of the sampler with each validation.")
    ] = False,
    as_json: Json = False,
    reading: ReadOptions,
    extended: Mapping[Any, Any],
) -> None:
    """Train a model on files of (user, item) events and measure it.

    Files are CSV, TSV, JSONL or Parquet, plain or compressed; a store stands alone. Without --test,
    test rows are split off: by time if there is a time column, else 20 % of each user's rows. The
    model is measured on them, and then trained on all rows for as many epochs: that one is saved.

    --fast gives a good model in seconds, and --thorough takes several times as long for the last
    percent.

    --from RUN continues from the model of yesterday: known users and items keep their vectors, new
    ones are folded in, and a few epochs follow. Both models are measured on the newest rows that
    RUN has not seen. Without --out the new model replaces RUN.

    A folder that `sdgar data shard` wrote is trained on within --ram, however large it is, by one
    process or several (--workers, or torchrun).

    The run is kept in RUN.partial while it trains. SIGTERM and Ctrl-C end it after the current
    epoch, and `sdgar train --resume RUN` resumes to the same model, also after a crash.
    """
    from sdgar.runs.workspace import partial_of, require_free

    screen, written = Screen(as_json=as_json), written_out(context)
    run = partial(_run, screen, extended, verbose=verbose, explain=explain)
    restarted = any(other.started_again() for other in extended)
    if restarted and out is not None and partial_of(out).exists():
        # Workers that torchrun has started again resume the run that they had begun.
        resume, written = out, {k: word for k, word in written.items() if k in WITH_RESUME}
    if resume is not None:
        job = interrupted_job(resume, written)
        every = options.checkpoint_every if "checkpoint_every" in written else job.checkpoint_every
        job = replace(job, checkpoint_every=every, overwrite=job.overwrite or overwrite)
        other = next((other for other in extended if other.claims_job(job)), None)
        _require_used(written, other, extended)
        run(job, job.estimator(), resume, other, resume=True)
        return
    if out is None and options.earlier is not None:
        out, overwrite = options.earlier, True
    if not files or out is None:
        raise UsageError(
            "sdgar train needs files of events and --out RUN, or --from RUN to replace it; or "
            "--resume RUN, to resume an interrupted run.",
            code="missing_argument",
        )
    if not any(other.follows() for other in extended):  # the leading process checks and writes
        remote.require_absent(out, overwrite=overwrite)
        require_free(out, overwrite=overwrite)
    other = next((other for other in extended if other.claims(files)), None)
    _require_used(written, other, extended)
    inputs = bounded(files), bounded(options.test), bounded(options.valid)
    shards = None if other is None else other.of_job(extended[other])
    estimator, job = _new_job(
        screen, options, written, inputs, lengths_of(ks), reading, overwrite=overwrite,
        shards=shards,
    )  # fmt: skip
    run(job, estimator, out, other, inputs=inputs)


def _new_job(
    screen: Screen,
    options: TrainOptions,
    written: Mapping[str, str],
    inputs: Sequence[Any],
    lengths: tuple[int, ...],
    reading: ReadOptions,
    *,
    overwrite: bool,
    shards: dict[str, int] | None,
) -> tuple[Estimator, Job]:
    """Return the system and the job that options stand for; wrong ones are refused."""
    from sdgar.evaluation.measures import check_metric
    from sdgar.runs.job import Job
    from sdgar.runs.run import check_settings
    from sdgar.systems.checks import require_looks_at_features

    require_one_test(options.test, options.split)
    require_one_split(options.split, "sdgar train", "measures on")
    if options.metric is not None:
        lengths = tuple(dict.fromkeys((*lengths, check_metric(options.metric)[1])))
    estimator, own = options.estimator(written)
    options.check(screen, written, [estimator], protocol=options.protocol, settings=own)
    users, items = options.user_features, options.item_features
    require_looks_at_features(estimator, of_users=bool(users), of_items=bool(items))
    check_settings(estimator, options.protocol)
    kept = options.kept_rows()
    reading, as_before = read_as_before(reading, options.earlier, written)
    if as_before is not None:
        screen.say("reading", as_before)
    files, test, valid = map(absolute, inputs)
    recipe = recipe_of(estimator)
    return estimator, Job(
        files=files, test=test, valid=valid, reading=asdict(reading), system=recipe.name,
        settings=recipe.settings, seed=options.seed, engine=options.engine, device=options.device,
        protocol=options.protocol, split=options.split, ks=list(lengths), overwrite=overwrite,
        checkpoint_every=options.checkpoint_every, user_features=_absolute(users),
        item_features=_absolute(items), feature_kinds=options.kinds(), metric=options.metric,
        keep=kept, earlier=_absolute(options.earlier), vanished=options.vanished,
        replace_if=options.replace_if, shards=shards,
    )  # fmt: skip


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path else None


def _require_used(written: Mapping[str, str], claimed: Any, extended: Mapping[Any, Any]) -> None:
    """Refuse options of other kinds of inputs, and options that this kind does not use."""
    unused = [] if claimed is None else list(claimed.unused)
    for other in extended:
        unused += [] if other is claimed else [one.name for one in options_of(other.options)]
    for name in unused:
        if name in written:
            inputs = "files of events" if claimed is None else "shards"
            raise UsageError(
                f"{written[name]} has no meaning for {inputs}. Leave it out.",
                code="unused_option",
            )


def _run(
    screen: Screen,
    extended: Mapping[Any, Any],
    job: Job,
    estimator: Estimator,
    out: Path,
    other: Any,
    *,
    verbose: bool,
    explain: bool,
    resume: bool = False,
    inputs: Sequence[Any] = (),
) -> None:
    """Read the rows of a job, train and measure, and print the result.

    The extension ``other`` does all of it if the inputs are not files of events.
    """
    from sdgar.runs.run import loop_of

    if other is not None:
        other.train(
            screen, job, estimator, out, extended[other], resume=resume, verbose=verbose,
            explain=explain,
        )  # fmt: skip
        return
    rows = read_rows(screen, job, *inputs)
    print_system(screen, estimator, rows.train)
    loop = loop_of(recipe_of(estimator).settled(rows.train), job.protocol)
    if rows.before is not None:
        print_earlier(screen, job, estimator, rows.before)
        loop = recipe_of(estimator).settled(rows.train).warm_loop
    with stop_signals() as stop, training_bar(screen, loop, verbose=verbose) as on_epoch:
        result = job.run(
            estimator, rows, out, resume=resume, on_epoch=on_epoch, stop=stop,
            notify=lambda note: screen.say("resume", note),
        )  # fmt: skip
    print_result(screen, job, out, result, explain=explain)
