"""``sdgar train``: from files of events to a saved, measured model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from sdgar.cli.commands import extensions_of
from sdgar.cli.console import Screen
from sdgar.cli.finished import print_earlier, print_result
from sdgar.cli.inputs import absolute, bounded, read_rows
from sdgar.cli.options.groups import Extension, first_page, given, grouped_with
from sdgar.cli.options.shared import (
    Explain,
    Json,
    Ks,
    Overwrite,
    lengths_of,
    require_one_split,
    require_one_test,
)
from sdgar.cli.options.training import (
    ContinuationOptions,
    FeatureOptions,
    HeldOutOptions,
    PartOptions,
    SystemOptions,
    TrainingOptions,
    require_heeded,
)
from sdgar.cli.options.values import number, run_folder, source
from sdgar.cli.precompile import Precompiler
from sdgar.cli.reports import print_system
from sdgar.cli.train_choices import WITH_RESUME, SystemChoice, interrupted_job, read_as_before
from sdgar.cli.training_screen import StopRequest
from sdgar.cli.training_screen import training as training_bar
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError
from sdgar.settings import CHECKPOINT_SECONDS
from sdgar.storage import remote
from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from sdgar.runs.job import Job
    from sdgar.systems.base import Estimator


class OtherTraining(Extension, Protocol):
    """An extension ``train:…``, which trains on inputs of another kind than files of events."""

    unused: Sequence[str]
    """The options of ``sdgar train`` that it does not use."""

    def claims(self, files: Sequence[Any]) -> bool:
        """Return whether these inputs are of its kind."""

    def claims_job(self, job: Job) -> bool:
        """Return whether an interrupted run was its own."""

    def follows(self) -> bool:
        """Return whether another process leads this one, and writes the model."""

    def started_again(self) -> bool:
        """Return whether this process replaces one that has failed."""

    def of_job(self, options: Any) -> dict[str, int]:
        """Return its options as a job keeps them."""

    def train(
        self, screen: Screen, job: Job, estimator: Estimator, out: Path, options: Any, *,
        resume: bool, verbose: bool, explain: bool,
    ) -> None:  # fmt: skip
        """Run the job, and print the result."""


@first_page(
    "--out", "--system", "--fast", "--thorough", "--set", "--test", "--split", "--metric", "--k",
    "--seed", "--item-features", "--from", "--resume", "--overwrite", "--json", "--user-column",
    "--item-column", "--min-rating",
)  # fmt: skip
@grouped_with(extensions_of("train"))
def train(
    context: typer.Context,
    files: Annotated[
        list[Any] | None,
        typer.Argument(
            metavar="TRAIN",
            parser=source,
            help="Train on these files of events, or on a store: sqlite:///FILE.db, postgresql://…",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=run_folder, metavar="RUN", help="Save the model here."),
    ] = None,
    *,
    system: SystemOptions,
    held_out: HeldOutOptions,
    training: TrainingOptions,
    ks: Ks = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", parser=run_folder, metavar="RUN", help="Resume the interrupted run of RUN."
        ),
    ] = None,
    checkpoint_every: Annotated[
        float,
        typer.Option(
            "--checkpoint-every",
            parser=number("--checkpoint-every", float),
            metavar="SECONDS",
            help="Write a checkpoint every so many seconds; 0 writes one each epoch.",
        ),
    ] = CHECKPOINT_SECONDS,
    overwrite: Overwrite = False,
    explain: Explain = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Print diagnostics of the sampler with each validation."),
    ] = False,
    as_json: Json = False,
    continuation: ContinuationOptions,
    parts: PartOptions,
    features: FeatureOptions,
    reading: ReadOptions,
    extended: Mapping[OtherTraining, Any],
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
    # Before imports that take seconds.
    precompiler = Precompiler(
        "quick" if system.fast else system.system, training.engine, training.device
    )
    context.call_on_close(precompiler.end)

    from sdgar.evaluation.metrics import check_metric
    from sdgar.runs.job import Job
    from sdgar.runs.run import check_settings
    from sdgar.runs.workspace import partial_of, require_free
    from sdgar.systems.checks import require_looks_at_features

    screen, written = Screen(as_json=as_json), given(context)
    restarted = any(other.started_again() for other in extended)
    if restarted and out is not None and partial_of(out).exists():
        # Workers that torchrun has started again resume the run that they had begun.
        resume, written = out, {k: word for k, word in written.items() if k in WITH_RESUME}
    if resume is not None:
        job = interrupted_job(resume, written)
        if "checkpoint_every" in written:
            job = replace(job, checkpoint_every=checkpoint_every)
        job = replace(job, overwrite=job.overwrite or overwrite)
        other = next((other for other in extended if other.claims_job(job)), None)
        _require_used(written, other, extended)
        with precompiler.compiling(job):
            if other is None:
                _train(screen, job, job.estimator(), resume, verbose, explain, resume=True)
            else:
                other.train(
                    screen, job, job.estimator(), resume, extended[other], resume=True,
                    verbose=verbose, explain=explain,
                )  # fmt: skip
        return
    earlier = continuation.earlier
    if out is None and earlier is not None:
        out, overwrite = earlier, True
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
    require_one_test(held_out.test, held_out.split)
    require_one_split(held_out.split, "sdgar train", "measures on")
    lengths, metric = lengths_of(ks), training.metric
    if metric is not None:
        lengths = tuple(dict.fromkeys((*lengths, check_metric(metric)[1])))
    estimator, own = SystemChoice(
        system=system, parts=parts, training=training, held_out=held_out,
        continuation=continuation, given=written,
    ).estimator()  # fmt: skip
    require_heeded(written, [estimator], protocol=held_out.protocol, settings=own)
    training.require_draws(screen, [estimator])
    users, items = features.user_features, features.item_features
    require_looks_at_features(estimator, of_users=bool(users), of_items=bool(items))
    kept = held_out.kept_rows()
    check_settings(estimator, held_out.protocol)
    inputs = tuple(map(bounded, (files, held_out.test, held_out.valid)))
    reading, as_before = read_as_before(reading, earlier, written)
    if as_before is not None:
        screen.say("reading", as_before)
    job = Job(
        files=absolute(inputs[0]), test=absolute(inputs[1]), valid=absolute(inputs[2]),
        reading=asdict(reading), system=recipe_of(estimator).name,
        settings=recipe_of(estimator).settings,
        seed=training.seed, engine=training.engine, device=training.device,
        protocol=held_out.protocol, split=held_out.split, ks=list(lengths), overwrite=overwrite,
        checkpoint_every=checkpoint_every, user_features=_absolute(users),
        item_features=_absolute(items), feature_kinds=features.kinds(), metric=metric, keep=kept,
        earlier=_absolute(earlier), vanished=continuation.vanished,
        replace_if=continuation.replace_if,
        shards=None if other is None else other.of_job(extended[other]),
    )  # fmt: skip
    with precompiler.compiling(job):
        if other is None:
            _train(screen, job, estimator, out, verbose, explain, inputs=inputs)
        else:
            other.train(
                screen, job, estimator, out, extended[other], resume=False, verbose=verbose,
                explain=explain,
            )  # fmt: skip


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path else None


def _require_used(
    written: Mapping[str, str], claimed: OtherTraining | None, extended: Mapping[OtherTraining, Any]
) -> None:
    """Refuse options of other kinds of inputs, and options that this kind does not use."""
    from sdgar.cli.options.groups import options_of

    unused = [] if claimed is None else list(claimed.unused)
    for other in extended:
        if other is not claimed:
            unused += [one.parameter for one in options_of(other.options)]
    for name in unused:
        if name in written:
            inputs = "files of events" if claimed is None else "shards"
            raise UsageError(
                f"{written[name]} has no meaning for {inputs}. Leave it out.",
                code="unused_option",
            )


def _train(
    screen: Screen, job: Job, estimator: Estimator, out: Path, verbose: bool, explain: bool, *,
    resume: bool = False, inputs: Sequence[Any] = (),
) -> None:  # fmt: skip
    """Read the rows of a job, train and measure, and print the result."""
    from sdgar.runs.run import loop_of

    rows = read_rows(screen, job, *inputs)
    print_system(screen, estimator, rows.train)
    loop = loop_of(recipe_of(estimator).settled(rows.train), job.protocol)
    if rows.before is not None:
        print_earlier(screen, job, estimator, rows.before)
        loop = recipe_of(estimator).settled(rows.train).warm_loop
    with StopRequest() as stop, training_bar(screen, loop, verbose=verbose) as on_epoch:
        result = job.run(
            estimator, rows, out, resume=resume, on_epoch=on_epoch, stop=stop,
            notify=lambda note: screen.say("resume", note),
        )  # fmt: skip
    print_result(screen, job, out, result, explain=explain)
