"""``sdgar train``: from files of events to a saved, measured model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.signals import HeldBack
from sdgar.errors import UsageError, unknown_name
from sdgar.show.printed import command

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sdgar.data.features import Features
    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import ReadOptions
    from sdgar.data.splits import Split
    from sdgar.experiments.run import RunResult

_WITH_RESUME = ("resume", "overwrite", "checkpoint_every", "explain", "verbose", "as_json")
_CHECKPOINT_SECONDS = 30.0
_COMPOSE = "Learner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The command with everything decided, as RUN.partial/run.json keeps it for ``--resume``."""

    files: list[str]
    test: list[str]
    valid: list[str]
    reading: dict[str, Any]
    """Fields of ``ReadOptions``."""
    system: str
    settings: dict[str, Any]
    """All hyper-parameters, so that a later default cannot change them."""
    seed: int
    engine: str
    device: str
    protocol: str
    split: str | None
    ks: list[int]
    overwrite: bool
    checkpoint_every: float
    user_features: str | None = None
    item_features: str | None = None
    metric: str | None = None
    """What epochs are chosen by, if it was named: it is then the main one of the report."""
    keep: str = "measured"
    """The model that is saved: the measured one, or one trained on all rows after that."""


@options.reads_files
def train(
    context: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="TRAIN…", help="Files of events.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the model.")] = None,
    test: options.Test = None,
    valid: options.Valid = None,
    system: Annotated[
        str,
        typer.Option(
            "--system",
            help="What to train: sdsoftmax, bpr, aobpr, warp, cml, dns, irgan, sa, sdgar, "
            "sdgar-printed, popular, item-knn, ials, ease, composed.",
        ),
    ] = options.DEFAULT_SYSTEM,
    discriminator: Annotated[
        str | None,
        typer.Option(
            "--discriminator",
            help="Compose a system: factorization, cosine, metric, lightgcn, two-tower, sequence.",
            rich_help_panel=_COMPOSE,
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            "--sampler",
            help="Who proposes negatives: uniform, popularity, popularity-mix, decomposable, "
            "adaptive, hardest, first-violation, search.",
            rich_help_panel=_COMPOSE,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="What is minimised: bpr, logistic, sdgar, sdsoftmax, warp, cml.",
            rich_help_panel=_COMPOSE,
        ),
    ] = None,
    user_features: Annotated[
        Path | None,
        typer.Option(
            "--user-features",
            metavar="TABLE",
            help="What is known of users: the id first, then columns of features, a|b for several.",
            rich_help_panel=_COMPOSE,
        ),
    ] = None,
    item_features: Annotated[
        Path | None,
        typer.Option(
            "--item-features",
            metavar="TABLE",
            help="The same of items; --discriminator two-tower looks at both.",
            rich_help_panel=_COMPOSE,
        ),
    ] = None,
    seed: options.Seed = 0,
    protocol: options.Protocol = "validated",
    split: options.Split = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="WHICH",
            help="What is saved: all (trained on all rows after the measurement; the default where "
            "test rows are split off), or measured.",
        ),
    ] = None,
    engine: options.Engine = "auto",
    device: options.Device = "auto",
    settings: options.Settings = None,
    dislikes: options.Dislikes = False,
    metric: options.Metric = None,
    ks: options.Ks = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", metavar="RUN", help="Go on with the interrupted run of this --out."
        ),
    ] = None,
    checkpoint_every: Annotated[
        float,
        typer.Option(
            "--checkpoint-every",
            parser=options.number("--checkpoint-every", float),
            metavar="SECONDS",
            help="0 keeps every epoch.",
        ),
    ] = _CHECKPOINT_SECONDS,
    overwrite: options.Overwrite = False,
    explain: options.Explain = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Show with every look how the generator is; log.jsonl always has it."
        ),
    ] = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Train a model on files of (user, item) events and measure it.

    CSV, TSV, JSONL and Parquet, plain or compressed. Without --test, test rows are split off:
    by time if there is a time column, else 20 % of each user's rows. The model is measured on
    them, and then trained on all rows for as many epochs: that one is saved.

    The run is kept in RUN.partial while it trains. SIGTERM and Ctrl-C end it after the current
    epoch, and `sdgar train --resume RUN` goes on to the same model, also after a crash.
    """
    from sdgar.evaluation.metrics import check_metric
    from sdgar.experiments.workspace import require_free
    from sdgar.systems.checks import require_looks_at_features
    from sdgar.systems.make import make

    screen = Screen(as_json=as_json)
    given = options.given(context)
    if resume is not None:
        job = _job_of(resume, given)
        if "checkpoint_every" in given:
            job = replace(job, checkpoint_every=checkpoint_every)
        job = replace(job, overwrite=job.overwrite or overwrite)
        _train(screen, job, resume, resume=True, explain=explain, verbose=verbose)
        return
    if not files or out is None:
        raise UsageError(
            "sdgar train needs files of events and --out RUN; or --resume RUN, to go on with an "
            "interrupted run.",
            code="missing_argument",
        )
    require_free(out, overwrite=overwrite)
    options.require_one_test(test, split)
    options.require_one_split(split, "sdgar train", "measures on")
    parts = {
        name: part
        for name, part in (
            ("discriminator", discriminator), ("sampler", sampler), ("objective", objective),
        )
        if part is not None
    }  # fmt: skip
    if parts and system != "composed":
        if "system" in given:
            raise UsageError(
                f"--system {system} has its own parts. Leave it out to compose a system of "
                f"{', '.join('--' + name for name in parts)}.",
                code="system_and_parts",
            )
        system = "composed"
    common = {"seed": seed, "engine": engine, "device": device, **parts}
    common |= options.drawn_dislikes(dislikes)
    own = options.settings_of(settings, {*common, "metric"})
    lists = options.lists_of(ks)
    if metric is not None:
        common["metric"] = metric
        lists = tuple(dict.fromkeys((*lists, check_metric(metric)[1])))
    estimator = make(system, own, common=common)
    options.require_heeded(given, [estimator], protocol=protocol, settings=own)
    options.require_draws(screen, dislikes, [estimator])
    if user_features or item_features:
        require_looks_at_features(estimator)
    job = Job(
        files=_absolute(files),
        test=_absolute(test),
        valid=_absolute(valid),
        reading=asdict(reading),
        system=system,
        settings=estimator.get_params(),
        seed=seed,
        engine=engine,
        device=device,
        protocol=protocol,
        split=split,
        ks=list(lists),
        overwrite=overwrite,
        checkpoint_every=checkpoint_every,
        user_features=str(user_features.absolute()) if user_features else None,
        item_features=str(item_features.absolute()) if item_features else None,
        metric=metric,
        keep=_kept(keep, test, split, protocol),
    )
    _train(screen, job, out, resume=False, explain=explain, verbose=verbose)


def _train(
    screen: Screen, job: Job, out: Path, *, resume: bool, explain: bool, verbose: bool
) -> None:
    import numpy as np

    from sdgar.experiments.run import loop_of, run
    from sdgar.systems.make import make

    estimator = make(job.system, {}, common=job.settings)
    data, reading = _read(screen, "data", job.files, job.reading)
    if job.user_features or job.item_features:
        data = data.with_features(
            _features(screen, "user", job.user_features, np.unique(data.user_U), job.reading),
            _features(screen, "item", job.item_features, data.items.values, job.reading),
        )
    held_out = _read(screen, "test", job.test, reading)[0] if job.test else None
    everything, histories = data if job.keep == "all" else None, None
    if held_out is None and job.split != "none":
        parts = split_off(screen, data, job.split, job.seed)
        data, held_out, histories = parts.train, parts.held_out, parts.histories
    validation = _read(screen, "valid", job.valid, reading)[0] if job.valid else None
    screen.system(estimator, data)
    loop = loop_of(estimator, job.protocol)
    with HeldBack() as stop, screen.training(loop, verbose=verbose) as on_epoch:
        result = run(
            estimator,
            data,
            test=held_out,
            valid=validation,
            protocol=job.protocol,
            out=out,
            overwrite=job.overwrite,
            ks=job.ks,
            on_epoch=on_epoch,
            resume=resume,
            checkpoint_every=job.checkpoint_every,
            stop=stop,
            command=asdict(job),
            tell=lambda note: screen.say("resume", note),
            everything=everything,
            histories=histories,
        )
    _report(screen, job, out, result, explain=explain)


def _report(screen: Screen, job: Job, out: Path, result: RunResult, *, explain: bool) -> None:
    if result.test is not None and result.popular is not None:
        screen.report(result.test, result.popular, job.system, metric=job.metric, explain=explain)
        if job.protocol == "paper" and result.log:
            screen.warn("the epoch was chosen on test rows (protocol paper): optimistic numbers.")
    seconds = result.summary["seconds"]
    screen.say(
        "time",
        f"{seconds['train']:.1f} s training · {seconds['evaluate']:.1f} s evaluating · "
        f"{result.summary['positives_per_second']:,} positives a second",
    )
    screen.say("engine", f"{result.summary['engine']}: {result.summary['why']}")
    kept = result.summary["kept"]
    how = f"trained on all {kept['interactions']:,} rows"
    if kept["rows"] != "all":
        how = "the model that was measured"
    elif result.test is not None:
        how += " after it was measured; --keep measured saves the measured one"
    screen.say("saved", f"{out} ({how})")
    screen.say("next", command("sdgar", "recommend", out, *_someone(result)))
    screen.result(result.summary | {"out": str(out)})


def _kept(keep: str | None, test: list[Path] | None, split: str | None, protocol: str) -> str:
    """All rows where the test rows come from the same file; else the model that was measured."""
    choices = ("all", "measured")
    if keep not in (None, *choices):
        raise unknown_name("choice of --keep", str(keep), choices)
    split_off_here = not test and split != "none"
    if keep == "all" and not split_off_here:
        why = "--test names the test rows" if test else "--split none holds none out"
        raise UsageError(
            f"--keep all trains on the rows that were split off, and {why}. Leave it out.",
            code="bad_option",
        )
    return keep or ("all" if split_off_here and protocol != "paper" else "measured")


def _someone(result: RunResult) -> list[str]:
    """Options that ask for the first context."""
    fields, some = result.model.fields, result.model.users.values[0]
    if fields is None:
        return ["--user", str(some)]
    pairs = dict(zip(fields.names, json.loads(some), strict=True))
    words = ["--user", str(pairs.pop("user"))]
    return words + [word for k, v in pairs.items() for word in ("--context", f"{k}={v}")]


def _job_of(out: Path, given: dict[str, str]) -> Job:
    """What an interrupted run was told to do; nothing of it can be told anew."""
    from sdgar.data.readers import ReadOptions
    from sdgar.experiments.workspace import partial_of, read_run
    from sdgar.storage.folders import read_record

    extra = [word for name, word in given.items() if name not in _WITH_RESUME]
    if extra:
        raise UsageError(
            f"--resume takes everything from the interrupted run; leave out {', '.join(extra)}. "
            "To train with other data or settings, start a new run.",
            code="resume_with_more",
        )
    told = read_run(out)["command"]
    if told is None:
        raise UsageError(
            f"the run in {partial_of(out)} was not started by `sdgar train`. Go on with it as it "
            "was started, or start over with --overwrite.",
            code="not_a_command",
        )
    path = partial_of(out) / "run.json"
    job = read_record(path, Job, told)
    read_record(path, ReadOptions, job.reading)
    return job


def _absolute(files: list[Path] | None) -> list[str]:
    """Paths that still lead to the files when the run goes on from another folder."""
    return [str(file.absolute()) for file in files or []]


def _read(
    screen: Screen, label: str, files: list[str], reading: dict[str, Any]
) -> tuple[Interactions, dict[str, Any]]:
    """Interactions, and how to read others like them."""
    from sdgar.data.readers import read_options

    # Lists if they come from JSON, which knows no tuples.
    tuples = {k: v and tuple(v) for k, v in reading.items() if k in ("header_columns", "context")}
    options = read_options(**reading | tuples)
    data, options = read_events(screen, label, [Path(file) for file in files], options)
    return data, asdict(options)


def read_events(
    screen: Screen, label: str, files: list[Path], reading: ReadOptions
) -> tuple[Interactions, ReadOptions]:
    """Read files of events and say what was in them; also, how to read others like them.

    A rating that counts as a liking here does so in test rows too.
    """
    from sdgar.data.readers import read_files

    loaded = read_files(files, reading)
    screen.loaded(label, loaded, ", ".join(file.name for file in files))
    if loaded.min_rating is not None:
        reading = replace(reading, min_rating=loaded.min_rating)
    return loaded.interactions, reading


def _features(
    screen: Screen, what: str, file: str | None, ids: NDArray[Any], reading: dict[str, Any]
) -> Features | None:
    from sdgar.data.readers.feature_tables import read_features

    if file is None:
        return None
    features = read_features(file, max_uncompressed=reading.get("max_uncompressed"))
    met = int((features.ids.index_of(ids.tolist()) >= 0).sum())
    if not met:
        raise UsageError(
            f"no {what} of the events has a row in {file}. Ids there are such as "
            f"{features.ids.values[:3].tolist()!r}, in the events {ids[:3].tolist()!r}; "
            "the first column of the table is the id.",
            code="no_common_ids",
        )
    screen.say(
        f"{what} features",
        f"{features.n_features:,} of {Path(file).name}, for {met:,} of {len(ids):,} {what}s",
    )
    return features


def split_off(screen: Screen, data: Interactions, rule: str | None, seed: int) -> Split:
    """Hold test rows out by a rule, the default one if none is named, and say how."""
    from sdgar.data import splits

    parts = splits.split(data, rule, seed=seed)
    tell_split(screen, parts)
    return parts


def tell_split(screen: Screen, parts: Split) -> None:
    """How rows were told apart."""
    screen.say("split", f"{parts.how}: {parts.sizes()}")
    if parts.warning:
        screen.warn(parts.warning)
