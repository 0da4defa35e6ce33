"""Tiny models of every kind that can be exported, and the readers of examples/export.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import sdgar
from sdgar.recommend.recommender import Recommender

EXAMPLE = Path(__file__).parents[2] / "examples" / "export.py"
N_USERS, N_ITEMS = 24, 17
ODD = ("a\tb", "a\\b", "a\nb", "o'hara", 'say "hi"', "größe", "\\N", "\\.")
"""Ids that formats of text must take care of."""


@pytest.fixture(scope="session")
def read() -> ModuleType:
    """The functions of examples/export.py, which know nothing of sdgar."""
    if not EXAMPLE.exists():
        pytest.skip("examples/ is not there")
    spec = importlib.util.spec_from_file_location("export_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def data() -> sdgar.Interactions:
    """Users of text with odd ids, items of integers, dislikes, and a user who dislikes all."""
    rng = np.random.default_rng(5)
    users, items = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.3)
    names = np.array([ODD[u] if u < len(ODD) else f"user {u}" for u in range(N_USERS)], object)
    rows = {
        "user": [*names[users], "nobody"], "item": [*(items * 10).tolist(), 30],
        "rating": [*rng.choice([1, 5], len(users), p=[0.2, 0.8]).tolist(), 1],
    }  # fmt: skip
    return sdgar.read(rows, min_rating=4, verbose=False)


@pytest.fixture(scope="session")
def models(data) -> dict[str, Recommender]:
    ials, near = sdgar.IALS(dim=3).fit(data, verbose=False), sdgar.LocalEASE().fit(data)
    softmax = sdgar.Quick(dim=4).fit(data, verbose=False)
    made = {
        "memory": softmax,
        "least squares": ials,
        "popular": sdgar.MostPopular().fit(data),
        "ease": sdgar.EASE().fit(data),
        "item-knn": sdgar.ItemKNN().fit(data),
        "elsa": sdgar.ELSA(dim=3, epochs=2).fit(data, verbose=False),
    }
    found = {name: model.recommender_ for name, model in made.items()}
    found["sum"] = sdgar.blend(ials, near, weight=0.7).model
    found["two vectors"] = sdgar.blend(softmax, ials, weight=2.0).model
    return found
