from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from sdgar.errors import NumericalError
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers import alias
from sdgar.samplers.alias import AliasTables, build_torch, quantize

FULL = 1 << 32
BITS = st.sampled_from([16, 32])

weights = st.one_of(
    st.lists(st.floats(0, 1), min_size=1, max_size=40),
    st.lists(st.sampled_from([0.0, 1.0, 1.0 + 2**-40, 2.0]), min_size=1, max_size=40),
    st.lists(st.floats(1e-12, 1), min_size=1, max_size=40),
    st.lists(st.integers(0, 3).map(float), min_size=1, max_size=200),
).filter(lambda w: max(w) > 0)


def implied(threshold: np.ndarray, alias: np.ndarray, mass: np.ndarray, full: int) -> list[int]:
    """What a table draws, summed bin by bin in Python's unbounded integers."""
    out = [0] * len(mass)
    for entry, (own, other) in enumerate(zip(threshold.tolist(), alias.tolist(), strict=True)):
        out[entry] += own
        out[other] += full - own
    return out


def check(weight: list[float], bits: int) -> None:
    tables = AliasTables.of(torch.tensor([weight], dtype=torch.float64), bits)
    mass, full = tables.mass_RN[0].tolist(), 1 << bits
    assert tables.bits == bits
    assert sum(mass) == len(weight) * full
    assert [m == 0 for m in mass] == [w == 0 for w in weight]
    share = np.array(weight) / np.sum(weight)
    off = np.abs(np.array(mass, float) - share * len(weight) * full)
    # The stated bound, and the float64 rounding of this comparison.
    assert (off <= 2 + len(weight) * share + 1e-15 * len(weight) * full).all()
    for threshold_RN, alias_RN in (
        (tables.threshold_RN, tables.alias_RN),
        build_torch(tables.mass_RN, bits),
    ):
        assert implied(threshold_RN[0], alias_RN[0], mass, full) == mass


@given(weights, BITS)
@settings(max_examples=8 * settings.default.max_examples)
@example([1.0], 32)
@example([0.0, 1.0], 32)
@example([1.0] * 64, 32)
@example([1e-12, 1.0], 32)
@example([0.0] * 99 + [1.0], 32)
@example([1.0, 0.0] * 50, 32)
@example([1e-12] * 65_535 + [1.0], 16)
def test_the_table_implies_exactly_the_masses_it_was_built_from(weight, bits):
    check(weight, bits)


@given(weights, st.integers(1, 7), BITS)
def test_every_builder_makes_the_same_table(weight, rows, bits):
    weight_RN = torch.tensor([np.roll(weight, r).tolist() for r in range(rows)])
    tables = AliasTables.of(weight_RN, bits)
    threshold_RN, alias_RN = build_torch(tables.mass_RN, bits)
    assert torch.equal(threshold_RN, tables.threshold_RN)
    assert torch.equal(alias_RN, tables.alias_RN)
    assert torch.equal(AliasTables.restored(tables.mass_RN).bin_RN, tables.bin_RN)


def test_more_entries_than_bits_can_number_are_refused():
    with pytest.raises(ValueError, match="65,537 entries cannot be numbered by 16 bits"):
        AliasTables.of(torch.ones(1, 65_537), 16)


@pytest.mark.parametrize("family", ["zipf", "one hot", "zeros", "near ties", "random"])
def test_a_million_entries_are_exact(family):
    n = 1_000_000
    rng = np.random.default_rng(0)
    weight = {
        "zipf": 1 / np.arange(1, n + 1) ** 1.05,
        "one hot": np.eye(1, n, 777)[0],
        "zeros": rng.random(n) * (rng.random(n) < 0.7),
        "near ties": 1 + 1e-15 * np.arange(n),
        "random": rng.exponential(size=n),
    }[family]
    tables = AliasTables.of(torch.from_numpy(weight)[None])
    mass = tables.mass_RN[0].numpy()
    assert (mass > 0).tolist() == (weight > 0).tolist()
    for threshold_RN, alias_RN in (
        (tables.threshold_RN, tables.alias_RN),
        build_torch(tables.mass_RN),
    ):
        threshold, alias = threshold_RN[0].numpy(), alias_RN[0].numpy()
        total = threshold.copy()
        np.add.at(total, alias, FULL - threshold)
        assert np.array_equal(total, mass)


@pytest.mark.parametrize("bits", [16, 32])
def test_draws_follow_the_masses(bits):
    # Chi-square at a false-alarm rate of 1e-6, fixed seed. A fifth of the entries have weight 0:
    # none of the 2 million draws may hit them.
    rng = np.random.default_rng(1)
    weight = rng.exponential(size=500) * (np.arange(500) % 5 > 0)
    tables = AliasTables.of(torch.from_numpy(weight)[None], bits)
    rows = torch.arange(2_000_000)
    w0, w1, _, _ = Draws(3, Stream.NEGATIVES, 1, rows).words(torch.zeros(1).long())
    counts = np.bincount(tables.draw(0 * rows, w0, w1), minlength=500)
    assert (counts[::5] == 0).all()
    expected = tables.mass_RN[0].double() / (500 << bits) * len(rows)
    positive = weight > 0
    assert stats.chisquare(counts[positive], expected.numpy()[positive]).pvalue > 1e-6


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("word", [0, 0xFFFFFFFF])
def test_extreme_words_draw_legal_entries(word, bits):
    tables = AliasTables.of(torch.tensor([[0.0, 1, 0, 3, 0]]), bits)
    rows = torch.zeros(1).long()
    drawn = tables.draw(rows, torch.tensor([word]), torch.tensor([word]))
    assert drawn.item() in (1, 3)


def test_masses_do_not_depend_on_the_scale_of_the_weights():
    weight_RN = torch.rand(3, 50, dtype=torch.float64)
    assert torch.equal(quantize(weight_RN), quantize(weight_RN * 2.0**-300))


@pytest.mark.parametrize(
    "weight", [[0.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1.0, float("inf")]]
)
def test_what_is_no_distribution_is_refused(weight):
    with pytest.raises(NumericalError, match="distribution"):
        AliasTables.of(torch.tensor([weight]))


def test_tables_of_many_rows_are_those_of_each_row(monkeypatch):
    weight_RN = torch.from_numpy(np.random.default_rng(1).random((7, 5)))
    whole = alias.AliasTables.of(weight_RN)
    monkeypatch.setattr(alias, "_AT_ONCE", 10)
    parts = alias.AliasTables.of(weight_RN.T.contiguous().T)
    assert torch.equal(parts.bin_RN, whole.bin_RN)
    assert torch.equal(parts.mass_RN, whole.mass_RN)
    assert torch.equal(parts.probability(), (whole.mass_RN.double() / (5 * 2**32)).float())
    assert torch.equal(alias.AliasTables.restored(whole.mass_RN).bin_RN, whole.bin_RN)
