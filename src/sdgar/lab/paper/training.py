"""A measurement that trains a system on a data set and reads the test rows."""

from __future__ import annotations

import base64
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sdgar.lab.paper.measurements import Measurement, Setting
from sdgar.lab.paper.sources import PAPER_SIZES, is_real, source
from sdgar.runs.run import fit_by
from sdgar.settings import METRIC
from sdgar.systems.base import Estimator
from sdgar.systems.irgan import IRGAN
from sdgar.systems.names import SYSTEMS
from sdgar.training.protocols import PAPER_EPOCHS
from sdgar.training.trained import OnPhase

_WHOLE = 2**16 - 1
_POSITIVES_A_SECOND = {"sdsoftmax": 120_000, "sdgar": 500_000, "cml": 250_000}
_ANY_SYSTEM = 1_500_000
_PAIRS_A_SECOND = 1e8
"""The pairs trained in a second on two cores at D = 32, roughly, to guess what a run costs."""


def training(
    system: str,
    data: str,
    seed: int,
    protocol: str,
    settings: dict[str, Any],
    setting: Setting,
    *,
    users: bool = False,
    **more: Any,
) -> Measurement:
    """Return a measurement that trains by the protocol and reads the test rows once.

    Models are compared as the paper has them, without a memory beside their vectors. With ``users``
    the metric of each user is kept too; ``more`` goes into the key.
    """
    common = {"seed": seed, "device": setting.device, "item_memory": 0.0}
    fields = SYSTEMS[system]().plain_params()
    estimator = SYSTEMS[system](**settings, **{k: v for k, v in common.items() if k in fields})
    loop, epochs = estimator.fit_options(), 1
    if loop is not None:
        # Early stopping ends most runs sooner, and a validated run is trained twice.
        epochs = PAPER_EPOCHS if protocol == "paper" else 2 * loop.epochs // 3
    return Measurement(
        key={
            "data": data,
            "real": is_real(data, setting.data),
            "system": system,
            "seed": seed if "seed" in fields else None,
            "protocol": protocol,
            "settings": settings,
            **more,
        },
        measure=lambda hear: _train(estimator, data, protocol, setting.data, hear, users=users),
        seconds=_seconds(estimator, data, epochs, passes=1 if protocol == "paper" else 2),
        epochs=epochs,
    )


def _seconds(estimator: Estimator, data: str, epochs: int, *, passes: int) -> float:
    users, items, rows = PAPER_SIZES[data]
    if isinstance(estimator, IRGAN):
        # Every context meets every item: once a pass of pretraining, twice an epoch of the game.
        return users * items * (passes * estimator.sampler.pretrain + 2 * epochs) / _PAIRS_A_SECOND
    return 0.8 * rows * epochs / _POSITIVES_A_SECOND.get(estimator.system_name, _ANY_SYSTEM)


def _train(
    estimator: Estimator,
    data: str,
    protocol: str,
    folder: Path | None,
    hear: OnPhase,
    *,
    users: bool,
) -> dict[str, Any]:
    found = source(data, folder)
    fit_by(protocol, estimator, found.train, found.test, None, on_epoch=hear)
    report = estimator.evaluate(found.test, ks=(50,))
    trained = estimator.trained_
    values: dict[str, Any] = {
        METRIC: report.means()[METRIC],
        "counts": asdict(report.counts),
        "best_epoch": trained.chosen_epoch,
        "engine": trained.engine,
    }
    if users:
        values["per_user"] = packed(report.per_user[METRIC])
    if trained.epochs:
        values |= {
            "curve": [
                [record.epoch, record.metric]
                for phase, record in trained.log
                if phase == "choose" and record.metric is not None
            ],
            "train_seconds": trained.seconds.train,
            "refit_seconds": trained.seconds.refit,
        }
    return values


def packed(values_T: np.ndarray) -> str:
    """Return numbers in [0, 1] as text of 16 bits each, so that a line stays small."""
    whole_T = np.round(values_T * _WHOLE).astype("<u2")
    return base64.b64encode(zlib.compress(whole_T.tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Return the numbers that ``packed`` was given, to 16 bits."""
    whole_T = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2")
    return whole_T / _WHOLE
