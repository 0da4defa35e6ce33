"""New users can be measured: folded in from histories, if the system can."""

from __future__ import annotations

import numpy as np
import pytest

from sdgar.data.interactions import Interactions
from sdgar.errors import DataError, UsageError
from sdgar.systems.composed import Composed
from sdgar.systems.learner import Learner
from sdgar.systems.names import SYSTEMS
from sdgar.systems.neighbours import ItemKNN
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdsoftmax import SDSoftmax

QUICK = {"epochs": 1, "dim": 2, "early_stopping": False, "engine": "eager"}


@pytest.fixture(scope="module")
def data() -> Interactions:
    rng = np.random.default_rng(0)
    return Interactions.from_arrays(
        rng.integers(0, 12, 80), rng.integers(0, 9, 80), time=np.arange(80)
    )


def made(kind):
    return kind(**QUICK) if issubclass(kind, Learner) else kind()


NETWORK = {"objective": "bpr", "sampler": "uniform"}


@pytest.mark.parametrize(
    "model",
    [
        *(made(kind) for kind in SYSTEMS.values()),
        SDSoftmax(**QUICK, similarity="dot"),
        Composed(**QUICK | {"discriminator": "sequence"} | NETWORK),
        Composed(**QUICK | {"discriminator": "lightgcn"} | NETWORK),
    ],
    ids=lambda model: f"{recipe_of(model).name}-{getattr(model, 'discriminator', '')}",
)
def test_a_system_knows_before_training_whether_it_will_fold_in(model, data):
    fitted = model.fit(data).recommender_
    assert recipe_of(model).folds_in == fitted.abilities["fold_in"]


def test_new_users_are_measured_from_their_histories(data):
    model = ItemKNN().fit(data)
    histories = Interactions.from_arrays(["a", "a", "b"], [1, 2, 3])
    test = Interactions.from_arrays(["a", "b", "c"], [4, 5, 6])
    report = model.evaluate(test, ks=(3,), histories=histories)
    assert report.means() == model.fold_in(histories).evaluate(test, ks=(3,)).means()
    assert (report.counts.folded_in, report.counts.unknown_users) == (2, 1)
    with pytest.raises(UsageError, match="Pass one of them"):
        model.recommender_.evaluate(test, seen=test, histories=histories)


def test_unknown_items_of_a_history_are_reported_and_their_users_counted(data):
    model = ItemKNN().fit(data)
    histories = Interactions.from_arrays(["a", "a", "b"], [1, 77, 77])
    test = Interactions.from_arrays(["a", "b"], [4, 5])
    with pytest.warns(UserWarning, match="2 of 3 rows of histories have items"):
        report = model.evaluate(test, ks=(3,), histories=histories)
    assert (report.counts.users, report.counts.unknown_users) == (1, 1)
    with pytest.raises(DataError, match="contains no item of the histories"):
        model.evaluate(test, histories=Interactions.from_arrays(["a"], [77]))
