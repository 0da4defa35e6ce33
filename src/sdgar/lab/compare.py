"""Compare several systems on the same rows, with the same search and seeds, in one table.

    OUT/results.jsonl      one line a finished run, with what must be the same for it to count
    OUT/studies/*.jsonl    the searches
    OUT/compare.json, .csv, .md, .png

An interrupted comparison goes on with the same call: finished runs are read from the lines, not
trained again. A line that was made with other data or settings is refused, never mixed in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sdgar.data.held_out import measured_users
from sdgar.data.tables import to_table, write_table
from sdgar.errors import (
    ArtifactError,
    ResourceError,
    SdgarError,
    StoppedError,
    UsageError,
    exhausted,
    unknown_name,
)
from sdgar.lab.candidates import Candidate
from sdgar.lab.comparison import COLD, Comparison, Failure, Measured
from sdgar.lab.conditions import Conditions
from sdgar.lab.latex import latex
from sdgar.lab.results import Results
from sdgar.lab.standings import Entrant, Entrants, stand
from sdgar.lab.study import require_optuna
from sdgar.lab.tune import tune, with_settings
from sdgar.runs.figures import draw_comparison
from sdgar.runs.run import fit_by, loop_of, require_folding
from sdgar.runs.watch import (
    Stop,
    Unwatched,
    Watch,
    at_once,
    never,
    require_going,
    stoppable,
)
from sdgar.storage.whole_files import replacing
from sdgar.systems.base import Estimator

_NAME = "compare"


def compare(
    candidates: Sequence[Candidate],
    conditions: Conditions,
    *,
    against: str | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
    stop: Stop = never,
) -> Comparison:
    """Train every system by the protocol with every seed, and read the test rows once a run.

    With ``trials``, each system's settings are first searched on validation rows, all with the
    same number of trials; of several folds, on the training rows of the first. A system that fails
    is reported with its reason; the others go on. With ``out`` everything is kept there.
    """
    _require_distinct(candidates, against)
    if conditions.trials is not None:
        require_optuna()
    if any(fold.histories is not None for fold in conditions.folds):
        require_folding([candidate.estimator for candidate in candidates], conditions.protocol)
    watch = watch or Unwatched()
    entrants = Entrants()
    with Results(out, overwrite=overwrite) as results:
        for candidate in candidates:
            # Early, and all of them: what a search may change is looked at when it is over.
            free = candidate.searched if conditions.trials is not None else ()
            for number, fold in enumerate(conditions.folds):
                for seed in candidate.seeds(conditions.seeds):
                    ready = conditions.ready(candidate.estimator, seed)
                    identity = conditions.identity_of(ready, fold)
                    results.require_same((candidate.system, seed, number), identity, free=free)
        for candidate in candidates:
            try:
                entrants.finished[candidate.system] = _enter(
                    candidate, conditions, results, watch, stop
                )
            except (StoppedError, ArtifactError):
                raise  # about the comparison, not about the system
            except (SdgarError, MemoryError, RuntimeError) as error:
                known = error if isinstance(error, SdgarError) else exhausted(error)
                if known is None:
                    raise
                failure = Failure.of(candidate.system, known)
                entrants.failed.append(failure)
                watch.end("failed", f"{candidate.system}: {failure.message}")
    return stand(
        entrants,
        metric=conditions.sorted_by,
        protocol=conditions.protocol,
        seeds=conditions.seeds,
        trials=conditions.trials,
        against=against,
        folds=[fold.how for fold in conditions.folds],
        shown=conditions.shown,
    )


def pieces(candidates: Sequence[Candidate], conditions: Conditions) -> int:
    """Count the trials and runs of a comparison."""
    trials = conditions.trials or 0
    return sum(
        len(candidate.seeds(conditions.seeds)) * len(conditions.folds)
        + (trials if candidate.searched else 0)
        for candidate in candidates
    )


def save(comparison: Comparison, out: Path) -> str | None:
    """Write the table as JSON, CSV and Markdown and draw it; return why it could not be drawn."""
    texts = {
        "json": json.dumps(comparison.as_dict(), indent=2, allow_nan=False) + "\n",
        "md": comparison.markdown(),
    }
    for suffix, text in texts.items():
        with replacing(out / f"{_NAME}.{suffix}") as temporary:
            temporary.write_text(text)
    save_csv(comparison, out / f"{_NAME}.csv")
    if not comparison.standings:
        return "there is nothing to draw: no system finished"
    try:
        with replacing(out / f"{_NAME}.png") as temporary:
            draw_comparison(comparison, temporary)
    except ResourceError as error:
        if error.code != "no_matplotlib":
            raise
        return str(error)
    return None


def save_csv(comparison: Comparison, file: Path) -> None:
    """Write the table with a column for every metric."""
    write_table(to_table(comparison.columns()), file)


def save_latex(comparison: Comparison, file: Path) -> None:
    """Write the table as LaTeX."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write_text(latex(comparison), encoding="utf-8")


def _enter(
    candidate: Candidate, conditions: Conditions, results: Results, watch: Watch, stop: Stop
) -> Entrant:
    """Search a system's settings if that is wanted, then train it with every seed."""
    entrant = Entrant([], type(candidate.estimator)().plain_params())
    estimator = candidate.estimator
    if conditions.trials is not None and candidate.searched:
        entrant.tuned = tune(
            conditions.ready(estimator, conditions.seeds[0]),
            conditions.folds[0].train,
            conditions.valid,
            trials=conditions.trials,
            fixed=candidate.fixed,
            metric=conditions.metric,
            seed=conditions.seeds[0],
            study=results.study_of(candidate.system),
            watch=watch,
            stop=stop,
        )
        estimator = with_settings(estimator, entrant.tuned.best.settings)
    for number, fold in enumerate(conditions.folds):
        for seed in candidate.seeds(conditions.seeds):
            require_going(stop, results.kept)
            ready = conditions.ready(estimator, seed)
            identity = conditions.identity_of(ready, fold)
            run = results.find((candidate.system, seed, number), identity)
            before = run is not None
            if run is None:
                run = _measure(ready, seed, number, conditions, watch, stop, results.kept)
                results.add(run, identity)
            entrant.runs.append(run)
            said = _name(run.system, seed, number, conditions)
            value = run.metrics[conditions.sorted_by]
            said += f": {conditions.sorted_by} {value:.4f} in {run.seconds:.1f} s"
            watch.end("before" if before else "run", said)
    return entrant


def _measure(
    estimator: Estimator,
    seed: int | None,
    number: int,
    conditions: Conditions,
    watch: Watch,
    stop: Stop,
    kept: str,
) -> Measured:
    """Train by the protocol and read the test rows once."""
    fold = conditions.folds[number]
    name = _name(estimator.system_name, seed, number, conditions)
    loop = loop_of(estimator.settled(fold.train), conditions.protocol) or at_once()
    hear = stoppable(watch.begin(name, loop), stop, kept)
    start = time.perf_counter()
    fit_by(
        conditions.protocol,
        estimator,
        fold.train,
        fold.held_out,
        conditions.valid,
        hear,
    )
    seconds = time.perf_counter() - start
    report, cold = conditions.evaluate(estimator, fold), conditions.among_cold(estimator, fold)
    of_cold = {} if cold is None else {f"{n}{COLD}": mean for n, mean in cold.means().items()}
    users = None
    if len(conditions.folds) > 1:
        users = measured_users(fold.held_out, estimator.recommender_).tolist()
    trained = estimator.trained_
    return Measured(
        system=estimator.system_name,
        seed=seed,
        settings=estimator.plain_params(),
        metrics=report.means() | of_cold,
        per_user=report.per_user[conditions.sorted_by].tolist(),
        counts=asdict(report.counts),
        definition=report.definition,
        engine=trained.engine,
        best_epoch=trained.chosen_epoch,
        seconds=round(seconds, 3),
        fold=number,
        users=users,
    )


def _require_distinct(candidates: Sequence[Candidate], against: str | None) -> None:
    names = [candidate.system for candidate in candidates]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UsageError(f"{twice[0]} is named twice; name each system once.", code="named_twice")
    if not names:
        raise UsageError("a comparison needs systems, got none. Name some: --systems bpr,sdgar.")
    if against is not None and against not in names:
        raise unknown_name("system to hold the others against", against, names)


def _name(system: str, seed: int | None, number: int, conditions: Conditions) -> str:
    """Return what a run is called on the screen."""
    fold = f" fold {number + 1}" if len(conditions.folds) > 1 else ""
    return system + ("" if seed is None else f" seed {seed}") + fold
