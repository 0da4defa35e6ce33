"""The selection against enumeration: all lists there are, and the best of them by definition."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from sdgar.recommend.rules import Rules

from .reranked import facts_of, reranked

N = 6
SEEDS = range(12)


def candidates(seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.permutation(20)[:N], rng.normal(size=N), rng


def relevance(scores: np.ndarray) -> np.ndarray:
    return (scores - scores.min()) / (scores.max() - scores.min())


def cosines(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def jaccard(sets: list[set[str]]) -> np.ndarray:
    n = len(sets)
    c = np.eye(n)
    for i in range(n):
        for j in range(n):
            if i != j and sets[i] | sets[j]:
                c[i, j] = len(sets[i] & sets[j]) / len(sets[i] | sets[j])
    return c


def mmr(c: np.ndarray, before: tuple[int, ...], at: int) -> float:
    return -max((c[at, j] for j in before), default=0.0)


def dpp(c: np.ndarray, before: tuple[int, ...], at: int) -> float:
    kernel = 0.99 * c + 0.01 * np.eye(len(c))
    both = [np.linalg.slogdet(kernel[np.ix_(s, s)])[1] if s else 0.0
            for s in (list(before), [*before, at])]  # fmt: skip
    return both[1] - both[0]


def divergence(p: np.ndarray, shares: np.ndarray, chosen: tuple[int, ...]) -> float:
    has = [shares[at] for at in chosen if shares[at].any()]
    q = np.mean(has, axis=0) if has else np.zeros_like(p)
    eased = 0.99 * q + 0.01 * p
    return sum(p[g] * np.log(p[g] / eased[g]) for g in range(len(p)) if p[g] > 0)


def best_of_all(value, k: int, allowed=lambda chosen: True) -> tuple[int, ...]:
    """The list whose first step is best, then its second, and so on, among all lists there are."""
    found = [
        chosen
        for chosen in permutations(range(N), k)
        if all(allowed(chosen[:n]) for n in range(1, k + 1))
    ]
    return max(found, key=lambda chosen: [value(chosen[:n], chosen[n]) for n in range(k)])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("method", "term"), [("mmr", mmr), ("dpp", dpp)])
@pytest.mark.parametrize("strength", [0.1, 0.5, 0.9])
def test_diversity_by_vectors_is_the_best_of_all_lists_step_by_step(seed, method, term, strength):
    items, scores, rng = candidates(seed)
    vectors = rng.normal(size=(20, 3)).astype(np.float32)
    r, c = relevance(scores), cosines(vectors[items].astype(float))
    wanted = best_of_all(
        lambda before, at: (1 - strength) * r[at] + strength * term(c, before, at), 4
    )
    rules = Rules.of({"diversity": {"strength": strength, "method": method}})
    found = reranked(rules, items, scores, 4, facts_of(item_ID=vectors))
    assert found.items_K.tolist() == items[list(wanted)].tolist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("method", "term"), [("mmr", mmr), ("dpp", dpp)])
def test_diversity_by_categories_is_as_good_as_the_best_at_every_step(seed, method, term):
    items, scores, rng = candidates(seed)
    sets = [{"abcd"[g] for g in np.flatnonzero(rng.random(4) < 0.4)} for _ in items]
    facts = facts_of({int(i): {"categories": sorted(s)} for i, s in zip(items, sets, strict=True)})
    if not facts.coded("category").names:
        pytest.skip("no item of this draw has a category")
    r, c = relevance(scores), jaccard(sets)
    rules = Rules.of({"diversity": {"strength": 0.6, "method": method, "on": "categories"}})
    place = {int(item): at for at, item in enumerate(items)}
    found = [place[item] for item in reranked(rules, items, scores, 5, facts).items_K.tolist()]
    for n, at in enumerate(found):
        value = [0.4 * r[i] + 0.6 * term(c, tuple(found[:n]), i) for i in range(N)]
        left = [value[i] for i in range(N) if i not in found[:n]]
        assert value[at] == pytest.approx(max(left), abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("at_most", [1, 2])
def test_caps_leave_the_best_list_of_all_that_keep_to_them(seed, at_most):
    items, scores, rng = candidates(seed)
    makers = rng.integers(0, 3, N)
    facts = facts_of({int(i): {"maker": f"m{m}"} for i, m in zip(items, makers, strict=True)})

    def fits(chosen):
        return max(np.bincount(makers[list(chosen)])) <= at_most

    most = sum(min(at_most, int(n)) for n in np.bincount(makers))
    wanted = best_of_all(lambda _, at: scores[at], min(4, most), fits)
    rules = Rules.of({"cap": [{"by": "maker", "at_most": at_most}]})
    assert reranked(rules, items, scores, 4, facts).items_K.tolist() == items[list(wanted)].tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_caps_and_diversity_together_are_the_best_of_all_lists(seed):
    items, scores, rng = candidates(seed)
    vectors, makers = rng.normal(size=(20, 3)), rng.integers(0, 3, N)
    entries = {int(i): {"maker": int(m)} for i, m in zip(items, makers, strict=True)}
    r, c = relevance(scores), cosines(vectors[items])
    wanted = best_of_all(
        lambda before, at: 0.6 * r[at] + 0.4 * mmr(c, before, at),
        3,
        lambda chosen: max(np.bincount(makers[list(chosen)])) <= 2,
    )
    rules = Rules.of({"cap": [{"by": "maker", "at_most": 2}], "diversity": {"strength": 0.4}})
    found = reranked(rules, items, scores, 3, facts_of(entries, item_ID=vectors))
    assert found.items_K.tolist() == items[list(wanted)].tolist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("diversity", [0.0, 0.3])
def test_calibration_is_the_best_of_all_lists_step_by_step(seed, diversity):
    items, scores, rng = candidates(seed)
    vectors = rng.normal(size=(30, 4))
    names = "abc"
    sets = {i: sorted(names[g] for g in np.flatnonzero(rng.random(3) < 0.6)) for i in range(30)}
    facts = facts_of({i: {"categories": s} for i, s in sets.items()}, item_ID=vectors)
    history = np.arange(20, 27)

    def share(item):
        return np.array([(g in sets[item]) / max(1, len(sets[item])) for g in names])

    p = np.sum([share(item) for item in history], axis=0)
    p = p / p.sum()
    shares = np.array([share(int(item)) for item in items])
    r, c = relevance(scores), cosines(vectors[items])
    wanted = best_of_all(
        lambda before, at: round(
            (1 - diversity) * 0.5 * r[at]
            + diversity * mmr(c, before, at)
            - 0.5 * divergence(p, shares, (*before, at)), 9
        ),
        4,
    )  # fmt: skip
    rules = Rules.of({"calibration": {"strength": 0.5}})
    how = {"options": {"diversity": diversity}, "history_H": history}
    found = reranked(rules, items, scores, 4, facts, **how)
    assert found.items_K.tolist() == items[list(wanted)].tolist()


def test_a_calibrated_list_has_the_shares_of_the_history():
    entries = {i: {"categories": ["drama" if i < 70 else "crime"]} for i in range(110)}
    facts = facts_of(entries)
    scores = np.linspace(5, 1, 100)  # the first 70 are drama
    history = np.array([60, 61, 62, 63, 64, 65, 66, 100, 101, 102])
    rules = Rules.of({"calibration": {"strength": 0.99}})
    found = reranked(rules, np.arange(100), scores, 10, facts, history_H=history)
    assert int((found.items_K < 70).sum()) == 7
    assert "moved up for calibration" in {note for notes in found.notes for note in notes}


@pytest.mark.parametrize("history", [None, np.array([], int), np.array([5])])
def test_a_history_without_categories_calibrates_nothing(history):
    facts = facts_of({0: {"categories": ["a"]}, 1: {"categories": ["b"]}})
    rules = Rules.of({"calibration": {"strength": 0.9}})
    found = reranked(rules, np.arange(3), np.array([1.0, 2, 3]), 3, facts, history_H=history)
    assert found.items_K.tolist() == [2, 1, 0]


def test_more_items_than_dimensions_can_be_compared():
    vectors = np.random.default_rng(0).normal(size=(40, 2))
    rules = Rules.of({"diversity": {"strength": 0.5, "method": "dpp"}})
    found = reranked(rules, np.arange(40), np.linspace(1, 0, 40), 20, facts_of(item_ID=vectors))
    assert len(set(found.items_K.tolist())) == 20
