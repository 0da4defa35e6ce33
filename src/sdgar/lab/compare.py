"""Compare several systems on the same rows, with the same search and seeds, in one table.

    OUT/results.jsonl      a sealed line for each finished run, with what must be the same
    OUT/studies/*.jsonl    the searches
    OUT/compare.json, .csv, .md, .png

An interrupted comparison resumes with the same call: finished runs are read from the lines, not
trained again. A line that was made with other data or settings is refused, never mixed in.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path

from sdgar.data.held_out import measured_users
from sdgar.errors import (
    ArtifactError,
    SdgarError,
    StoppedError,
    UsageError,
    exhausted,
    unknown_name,
)
from sdgar.lab.comparison import COLD, ComparedSystems, Failure, Measured, stand
from sdgar.lab.conditions import Candidate, Conditions
from sdgar.lab.study import require_optuna
from sdgar.lab.tune import Tuned, tune, with_settings
from sdgar.runs.run import fit_by, loop_of, require_folding
from sdgar.runs.watching import Stop, Watch, Work, never
from sdgar.storage.ledger import Ledger, Line
from sdgar.storage.sealed import DamagedError, read_record
from sdgar.systems.base import Estimator
from sdgar.systems.recipe import recipe_of
from sdgar.training.checkpoint_file import Identity, as_json, require_same

FORMAT = "sdgar-result 1"
Which = tuple[str, int | None, int]
"""The system, the seed and the fold of a run, by which it is known."""
_RESULTS, _STUDIES = "results.jsonl", "studies"


def compare(
    candidates: Sequence[Candidate],
    conditions: Conditions,
    *,
    against: str | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
    stop: Stop = never,
) -> ComparedSystems:
    """Train every system by the protocol with every seed, and read the test rows once a run.

    With ``trials``, each system's settings are first searched on validation rows, all with the
    same number of trials; of several folds, on the training rows of the first. A system that fails
    is reported with its reason; the others are still compared. With ``out`` everything is kept
    there.
    """
    _require_distinct(candidates, against)
    if conditions.trials is not None:
        require_optuna()
    if any(fold.histories is not None for fold in conditions.folds):
        require_folding([candidate.estimator for candidate in candidates], conditions.protocol)
    if out is not None:
        require_ours(out)
    kept = "Nothing was kept; --out DIR keeps what is finished."
    if out is not None:
        kept = f"What is finished is kept in {out}; the same command resumes."
    work = Work(watch or Watch(), stop, kept)
    runs: dict[str, list[Measured]] = {}
    tuned: dict[str, Tuned] = {}
    failures = []
    with results_in(out, overwrite=overwrite) as results:
        for candidate in candidates:
            # Before any training. What a search may change is checked after the search.
            free = candidate.searched if conditions.trials is not None else ()
            for which, ready in _runs_of(candidate, candidate.estimator, conditions):
                identity = conditions.identity_of(ready, conditions.folds[which[2]])
                finished_run(results, which, identity, free=free)
        for candidate in candidates:
            try:
                estimator = candidate.estimator
                if conditions.trials is not None and candidate.searched:
                    found = _search(candidate, conditions, out, work, overwrite=overwrite)
                    tuned[candidate.system] = found
                    estimator = with_settings(estimator, found.best.settings)
                runs[candidate.system] = [
                    _measured(which, ready, conditions, results, work)
                    for which, ready in _runs_of(candidate, estimator, conditions)
                ]
            except (StoppedError, ArtifactError):
                raise  # about the comparison, not about the system
            except (SdgarError, MemoryError, RuntimeError) as error:
                known = error if isinstance(error, SdgarError) else exhausted(error)
                if known is None:
                    raise
                failures.append(
                    Failure(
                        system=candidate.system,
                        code=known.code,
                        message=str(known),
                        exit_code=known.exit_code,
                    )
                )
                work.end("failed", f"{candidate.system}: {known}")
    return stand(candidates, runs, tuned, failures, conditions, against)


def pieces(candidates: Sequence[Candidate], conditions: Conditions) -> int:
    """Count the trials and runs of a comparison."""
    trials = conditions.trials or 0
    return sum(
        len(candidate.seeds(conditions.seeds)) * len(conditions.folds)
        + (trials if candidate.searched else 0)
        for candidate in candidates
    )


def results_in(out: Path | None, *, overwrite: bool = False) -> Ledger[Which]:
    """Return the finished runs of a comparison, in OUT/results.jsonl or, without OUT, in RAM."""

    def which_of(line: Line) -> Which:
        if not isinstance(line.get("identity"), dict):
            raise DamagedError(path, "a line has no description of its run")
        run = read_record(path, Measured, line.get("run"))
        return run.system, run.seed, run.fold

    path = (out or Path()) / _RESULTS
    return Ledger(
        None if out is None else path,
        format=FORMAT,
        what="a list of results",
        key_of=which_of,
        empty=overwrite,
    )


def require_ours(out: Path) -> None:
    """Raise if a folder holds other things, before any work is spent on it."""
    if out.is_dir() and any(out.iterdir()) and not (out / _RESULTS).exists():
        raise UsageError(
            f"{out} holds files that are not a comparison (no {_RESULTS}), so it is left as it "
            "is. Choose another --out.",
            code="out_foreign",
        )


def _runs_of(
    candidate: Candidate, estimator: Estimator, conditions: Conditions
) -> list[tuple[Which, Estimator]]:
    """Return each fold and seed of a system, with a new estimator."""
    return [
        ((candidate.system, seed, number), conditions.ready(estimator, seed))
        for number in range(len(conditions.folds))
        for seed in candidate.seeds(conditions.seeds)
    ]


def finished_run(
    results: Ledger[Which], which: Which, identity: Identity, *, free: Collection[str] = ()
) -> Measured | None:
    """Return the run if it was finished before; raise if other than ``free`` settings differ."""
    line = results.find(which)
    if line is None:
        return None
    path = results.path or Path()
    changed = dict.fromkeys(free)
    require_same(line["identity"] | changed, as_json(identity) | changed, path)
    return read_record(path, Measured, line["run"])


def _search(
    candidate: Candidate, conditions: Conditions, out: Path | None, work: Work, *, overwrite: bool
) -> Tuned:
    """Search a system's settings on the training rows of the first fold, with the first seed."""
    seed = conditions.seeds[0]
    return tune(
        conditions.ready(candidate.estimator, seed),
        conditions.folds[0].train,
        conditions.valid,
        trials=conditions.trials or 0,
        fixed=candidate.fixed,
        metric=conditions.metric,
        seed=seed,
        study=None if out is None else out / _STUDIES / f"{candidate.system}.jsonl",
        overwrite=overwrite,
        watch=work.watch,
        stop=work.stop,
    )


def _measured(
    which: Which, estimator: Estimator, conditions: Conditions, results: Ledger[Which], work: Work
) -> Measured:
    """Return a run that was finished before, or train and measure, and keep that."""
    work.require_going()
    system, seed, number = which
    name = system + ("" if seed is None else f" seed {seed}")
    name += f" fold {number + 1}" if len(conditions.folds) > 1 else ""
    identity = conditions.identity_of(estimator, conditions.folds[number])
    run, label = finished_run(results, which, identity), "before"
    if run is None:
        run, label = _train(which, name, estimator, conditions, work), "run"
        results.add({"identity": as_json(identity), "run": asdict(run)})
    metric = conditions.sorted_by
    work.end(label, f"{name}: {metric} {run.metrics[metric]:.4f} in {run.seconds:.1f} s")
    return run


def _train(
    which: Which, name: str, estimator: Estimator, conditions: Conditions, work: Work
) -> Measured:
    """Train by the protocol and read the test rows once."""
    system, seed, number = which
    fold, protocol = conditions.folds[number], conditions.protocol
    on_epoch = work.begin(name, loop_of(recipe_of(estimator).settled(fold.train), protocol))
    start = time.perf_counter()
    fit_by(protocol, estimator, fold.train, fold.held_out, conditions.valid, on_epoch)
    seconds = time.perf_counter() - start
    report, cold = conditions.evaluate(estimator, fold), conditions.among_cold(estimator, fold)
    of_cold = {} if cold is None else {f"{n}{COLD}": mean for n, mean in cold.means().items()}
    users = None
    if len(conditions.folds) > 1:
        users = measured_users(fold.held_out, estimator.recommender_).tolist()
    trained = recipe_of(estimator).trained
    return Measured(
        system=system,
        seed=seed,
        settings=recipe_of(estimator).settings,
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
        raise unknown_name("system to compare the others with", against, names)
