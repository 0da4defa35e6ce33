"""Defaults of the paper's systems: the rule, and what is said of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sdgar.data.interactions import Interactions
from sdgar.systems.bpr import BPR
from sdgar.systems.defaults import by_rows
from sdgar.systems.irgan import IRGAN
from sdgar.systems.make import estimator_from_text
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdgar import SDGAR


@pytest.fixture(scope="module")
def data() -> Interactions:
    """Thirty users of ten items each, of twenty items."""
    users = np.repeat(np.arange(30), 10)
    items = (users * 7 + np.tile(np.arange(10), 30)) % 20
    return Interactions.from_arrays(users, items)


def test_the_rule_divides_by_the_root_of_the_rows_for_each_user_and_item(data):
    assert by_rows(0.07, data) == float(f"{0.07 / math.sqrt(300 / (30 + 20)):.3g}")
    assert recipe_of(SDGAR()).decided(data) == {"l2": by_rows(0.07, data)}
    assert set(recipe_of(IRGAN()).decided(data)) == {"l2", "sampler__l2"}


@pytest.mark.parametrize("name", ["bpr", "aobpr", "warp", "dns", "sa", "sdgar", "irgan"])
def test_the_value_of_the_rule_is_what_the_system_is_composed_with(data, name):
    quick = {"sampler__pretrain": 0} if name == "irgan" else {}
    left, given = SYSTEMS[name](**quick), SYSTEMS[name](l2=0.5, **quick)
    assert recipe_of(left).compose(data, seed=0).l2 == recipe_of(left).decided(data)["l2"]
    assert recipe_of(given).compose(data, seed=0).l2 == 0.5
    assert "l2" not in recipe_of(given).decided(data)


def test_a_setting_can_be_left_to_its_rule_in_words():
    assert estimator_from_text("bpr", {"l2": "auto"}).get_params()["l2"] is None
    assert estimator_from_text("bpr", {"l2": "0.25"}).get_params()["l2"] == 0.25


def test_what_was_decided_is_kept_with_the_model(data):
    model = BPR(epochs=1, early_stopping=False, engine="eager").fit(data)
    about = model.recommender_.about
    assert about["hyper_parameters"]["l2"] is None
    assert about["decided"] == {"l2": by_rows(0.04, data)}
