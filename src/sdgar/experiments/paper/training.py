"""A piece that trains a system on a data set and reads the test rows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from sdgar.estimators import ESTIMATORS, Estimator, Learner
from sdgar.experiments.paper.pieces import Piece, Setting
from sdgar.experiments.paper.sources import PAPER_SIZES, is_real, source
from sdgar.experiments.run import fit_by
from sdgar.training.protocols import PAPER_EPOCHS, OnPhase

METRIC = "ndcg@50"
_POSITIVES_A_SECOND = {"sdsoftmax": 120_000, "irgan": 5_000, "sdgar": 500_000}
_ANY_SYSTEM = 1_500_000
"""On two cores, D = 32, roughly: for saying beforehand what an experiment costs."""


def training(
    system: str,
    data: str,
    seed: int,
    protocol: str,
    settings: dict[str, Any],
    setting: Setting,
    **more: Any,
) -> Piece:
    """Train by the protocol, read the test rows once. ``more`` goes into the key."""
    common = {"seed": seed, "device": setting.device}
    fields = ESTIMATORS[system]().get_params()
    estimator = ESTIMATORS[system](**settings, **{k: v for k, v in common.items() if k in fields})
    epochs = 1
    if isinstance(estimator, Learner):
        # Early stopping ends most runs sooner, and a validated run is trained twice.
        epochs = PAPER_EPOCHS if protocol == "paper" else 2 * estimator.epochs // 3
    rows = PAPER_SIZES[data][2]
    return Piece(
        key={
            "data": data,
            "real": is_real(data, setting.data),
            "system": system,
            "seed": seed if "seed" in fields else None,
            "protocol": protocol,
            "settings": settings,
            **more,
        },
        measure=lambda hear: _train(estimator, data, protocol, setting.data, hear),
        seconds=0.8 * rows * epochs / _POSITIVES_A_SECOND.get(system, _ANY_SYSTEM),
        epochs=epochs,
    )


def _train(
    estimator: Estimator, data: str, protocol: str, folder: Path | None, hear: OnPhase
) -> dict[str, Any]:
    found = source(data, folder)
    fit_by(protocol, estimator, found.train, found.test, None, on_epoch=hear)
    report = estimator.evaluate(found.test, ks=(50,))
    values: dict[str, Any] = {
        METRIC: report.means()[METRIC],
        "counts": asdict(report.counts),
        "per_user": [round(value, 5) for value in report.per_user[METRIC].tolist()],
        "best_epoch": None,
        "engine": estimator.computed_by,
    }
    if isinstance(estimator, Learner):
        trained = estimator.trained_
        values |= {
            "best_epoch": trained.best_epoch,
            "engine": trained.engine,
            "curve": [
                [record.epoch, record.metric]
                for phase, record in trained.log
                if phase == "choose" and record.metric is not None
            ],
            "train_seconds": trained.seconds.train,
            "refit_seconds": trained.seconds.refit,
        }
    return values
