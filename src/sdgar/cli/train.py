"""``sdgar train``: from files of events to a saved, measured model."""

from __future__ import annotations

from dataclasses import asdict, replace

import typer

from sdgar.cli import options
from sdgar.cli.ahead import Ahead
from sdgar.cli.console import Screen
from sdgar.cli.inputs import absolute, bounded
from sdgar.cli.to_train import counted_as_before, interrupted_job, system_to_train, to_go_on_with
from sdgar.cli.train_job import train_job
from sdgar.errors import UsageError
from sdgar.scale.commands.workers import follows
from sdgar.settings import CHECKPOINT_SECONDS, TEST_USERS, TOGETHER
from sdgar.storage import remote


@options.reads_files
def train(
    context: typer.Context,
    files: options.MaybeTrain = None,
    out: options.RunPlace = None,
    test: options.Test = None,
    valid: options.Valid = None,
    system: options.System = options.DEFAULT_SYSTEM,
    fast: options.Fast = False,
    thorough: options.Thorough = False,
    discriminator: options.Discriminator = None,
    sampler: options.Sampler = None,
    objective: options.Objective = None,
    user_features: options.UserFeatures = None,
    item_features: options.ItemFeatures = None,
    feature_kinds: options.FeatureKinds = None,
    seed: options.Seed = 0,
    protocol: options.Protocol = "validated",
    split: options.Split = None,
    keep: options.Keep = None,
    engine: options.Engine = "auto",
    device: options.Device = "auto",
    settings: options.Settings = None,
    dislikes: options.Dislikes = False,
    metric: options.Metric = None,
    ks: options.Ks = None,
    earlier: options.From = None,
    vanished: options.Vanished = "keep",
    replace_if: options.ReplaceIf = "always",
    memory: options.Memory = "4GiB",
    together: options.Together = TOGETHER,
    test_users: options.TestUsers = TEST_USERS,
    workers: options.WorkerCount = 1,
    gpu_memory: options.GpuMemory = None,
    resume: options.Resume = None,
    checkpoint_every: options.CheckpointEvery = CHECKPOINT_SECONDS,
    overwrite: options.Overwrite = False,
    explain: options.Explain = False,
    verbose: options.Verbose = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Train a model on files of (user, item) events and measure it.

    Files are CSV, TSV, JSONL or Parquet, plain or compressed; a store stands alone. Without --test,
    test rows are split off: by time if there is a time column, else 20 % of each user's rows. The
    model is measured on them, and then trained on all rows for as many epochs: that one is saved.

    --fast gives a good model in seconds, and --thorough takes several times as long for the last
    percent.

    --from RUN goes on from the model of yesterday: known users and items keep their vectors, new
    ones are folded in, and a few epochs follow. Both models are measured on the newest rows that
    RUN has not seen. Without --out the new model takes the place of RUN.

    A folder that `sdgar data shard` wrote is trained on within --memory, however large it is, by
    one process or several (--workers, or torchrun).

    The run is kept in RUN.partial while it trains. SIGTERM and Ctrl-C end it after the current
    epoch, and `sdgar train --resume RUN` goes on to the same model, also after a crash.
    """
    # Before imports that take seconds.
    ahead = Ahead("quick" if fast else system, engine, device)
    context.call_on_close(ahead.end)

    from sdgar.evaluation.metrics import check_metric
    from sdgar.runs.job import Job
    from sdgar.runs.run import check_settings
    from sdgar.runs.workspace import require_free
    from sdgar.systems.checks import require_looks_at_features

    screen, given = Screen(as_json=as_json), options.given(context)
    resume, given = to_go_on_with(resume, out, given)
    if resume is not None:
        job = interrupted_job(resume, given)
        options.require_for_shards(given, sharded=job.shards is not None)
        if "checkpoint_every" in given:
            job = replace(job, checkpoint_every=checkpoint_every)
        job = replace(job, overwrite=job.overwrite or overwrite)
        train_job(
            screen, job, job.estimator(), resume, verbose, explain, workers, ahead,
            resume=True,
        )  # fmt: skip
        return
    if out is None and earlier is not None:
        out, overwrite = earlier, True
    if not files or out is None:
        raise UsageError(
            "sdgar train needs files of events and --out RUN, or --from RUN to replace it; or "
            "--resume RUN, to go on with an interrupted run.",
            code="missing_argument",
        )
    if not follows():  # the first worker looks, and then writes there
        remote.require_absent(out, overwrite=overwrite)
        require_free(out, overwrite=overwrite)
    folder = options.shards_among(files)
    options.require_for_shards(given, sharded=folder is not None)
    options.require_one_test(test, split)
    options.require_one_split(split, "sdgar train", "measures on")
    lists = options.lists_of(ks)
    if metric is not None:
        lists = tuple(dict.fromkeys((*lists, check_metric(metric)[1])))
    estimator, own = system_to_train(context.params, given)
    options.require_heeded(given, [estimator], protocol=protocol, settings=own)
    options.require_draws(screen, dislikes, [estimator])
    require_looks_at_features(estimator, of_users=bool(user_features), of_items=bool(item_features))
    kept = options.kept_rows(keep, test, split, protocol)
    check_settings(estimator, protocol)
    files, test, valid = map(bounded, (files, test, valid))
    reading, as_before = counted_as_before(reading, earlier, given)
    if as_before is not None:
        screen.say("reading", as_before)
    job = Job(
        files=absolute(files), test=absolute(test), valid=absolute(valid),
        reading=asdict(reading), system=estimator.system_name, settings=estimator.plain_params(),
        seed=seed, engine=engine, device=device, protocol=protocol, split=split, ks=list(lists),
        overwrite=overwrite, checkpoint_every=checkpoint_every,
        user_features=str(user_features.absolute()) if user_features else None,
        item_features=str(item_features.absolute()) if item_features else None,
        feature_kinds=options.kinds_of(feature_kinds, item_features), metric=metric, keep=kept,
        earlier=str(earlier.absolute()) if earlier else None,
        vanished=vanished, replace_if=replace_if,
        shards=options.of_shards(folder, memory, together, test_users, gpu_memory),
    )  # fmt: skip
    train_job(
        screen, job, estimator, out, verbose, explain, workers, ahead,
        inputs=(files, test, valid),
    )  # fmt: skip
