"""The memory of transitions has the weights of the least squares that its equations state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.maths import transitions
from sdgar.maths.sequences import Sequences
from sdgar.maths.transitions import Decay, Neighbours, Solution, weights
from sdgar.systems.transitions import Trial

N_ITEMS = 7
histories = st.lists(st.lists(st.integers(0, N_ITEMS - 1), max_size=9), min_size=1, max_size=12)


def sequences_of(rows):
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    return Sequences(start, np.array([i for row in rows for i in row], np.int32))


def moments(rows, decay):
    """X'X, S'S and S'T by the definition, in float64."""
    same, past, follows = (np.zeros((N_ITEMS, N_ITEMS)) for _ in range(3))
    for row in rows:
        x = np.bincount(row, minlength=N_ITEMS) if row else np.zeros(N_ITEMS)
        same += np.outer(x, x)
        for t in range(1, len(row)):
            s = np.zeros(N_ITEMS)
            for p in range(t):
                s[row[p]] += decay.floor + (1 - decay.floor) * np.exp(-(t - 1 - p) / decay.tau)
            past += np.outer(s, s)
            follows[:, row[t]] += s
    return same, past, follows


def whole(rows):
    made = np.zeros((rows.n_rows, rows.n_rows))
    for j in range(rows.n_rows):
        for e in range(rows.start_R1[j], rows.start_R1[j + 1]):
            made[j, rows.column_E[e]] += rows.weight_E[e]
    return made


def solved(rows, decay, solution, *, repeats):
    """Each column by the items that it was ever met with."""
    same, past, follows = moments(rows, decay)
    a = solution.alpha * same + (1 - solution.alpha) * past
    b = solution.alpha * same + (1 - solution.alpha) * follows
    made = np.zeros((N_ITEMS, N_ITEMS))
    for i in range(N_ITEMS):
        near = [j for j in range(N_ITEMS) if same[j, i] > 0 and (repeats or j != i)]
        if near:
            left = a[np.ix_(near, near)] + solution.l2 * np.eye(len(near))
            made[near, i] = np.linalg.solve(left, b[near, i])
    return made


@given(
    histories,
    st.floats(0.5, 20),
    st.floats(0, 0.5),
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.2, 1.0]), st.floats(0.5, 50)), min_size=1, max_size=3
    ),
    st.booleans(),
)
def test_weights_of_neighbours_are_those_of_their_systems(rows, tau, floor, given_, repeats):
    if not any(rows):
        return
    decay, solutions = Decay(tau, floor), [Solution(*one) for one in given_]
    # One neighbour less than all, so that systems are solved one by one.
    near = Neighbours(k=N_ITEMS if repeats else N_ITEMS - 1, repeats=repeats)
    pairs = transitions._Pairs(sequences_of(rows), N_ITEMS, decay, near)
    for found, solution in zip(pairs.solved(solutions), solutions, strict=True):
        wanted = solved(rows, decay, solution, repeats=repeats)
        np.testing.assert_allclose(whole(found), wanted, rtol=2e-3, atol=2e-5)


@given(histories, st.floats(0.5, 20), st.floats(0, 0.5), st.booleans())
def test_all_items_as_neighbours_are_one_system(rows, tau, floor, repeats):
    if not any(rows):
        return
    decay, solution = Decay(tau, floor), Solution(0.3, 2.0)
    near = Neighbours(k=N_ITEMS - 1, repeats=repeats)
    (found,) = weights(sequences_of(rows), N_ITEMS, decay, near, [solution])
    same, past, follows = moments(rows, decay)
    a = 0.3 * same + 0.7 * past + 2.0 * np.eye(N_ITEMS)
    b = 0.3 * same + 0.7 * follows
    wanted = np.zeros_like(a)
    for i in range(N_ITEMS):
        near_i = [j for j in range(N_ITEMS) if repeats or j != i]
        wanted[near_i, i] = np.linalg.solve(a[np.ix_(near_i, near_i)], b[near_i, i])
    np.testing.assert_allclose(whole(found), wanted, rtol=2e-3, atol=2e-5)


def test_a_block_and_a_thread_change_no_bit(monkeypatch, set_threads):
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 60, rng.integers(1, 30)).tolist() for _ in range(200)]
    events, near = sequences_of(rows), Neighbours(k=9)
    found = []
    for threads, most in ((1, 1 << 20), (2, 1 << 20), (2, 400)):
        set_threads(threads)
        monkeypatch.setattr(transitions, "_MOST_IN_SYSTEMS", most)
        (one,) = weights(events, 60, Decay(2.0, 0.1), near, [Solution(0.2, 5.0)])
        found.append((one.column_E.tobytes(), one.weight_E.tobytes()))
    assert found[0] == found[1] == found[2]


def test_long_histories_are_cut_and_lose_no_event(monkeypatch):
    events = sequences_of([[0, 1, 2, 3, 4], [5], [], [0, 1, 2]])
    pieces = events.in_pieces(2)
    assert pieces.item_E.tolist() == events.item_E.tolist()
    assert np.diff(pieces.start_U1).tolist() == [2, 2, 1, 1, 2, 1]


@pytest.mark.parametrize("tau", [0.5, 3.0, 1e6])
def test_the_last_event_counts_once_and_the_first_least(tau):
    events = sequences_of([[0, 1, 2, 3], [4]])
    strength = Decay(tau, 0.25).strengths(events)
    assert strength[3] == strength[4] == 1
    assert np.all(np.diff(strength[:4]) > 0) if tau < 100 else np.allclose(strength, 1, atol=1e-3)
    assert strength.min() >= 0.25


@pytest.mark.parametrize(("k", "repeats"), [(4, False), (4, True), (59, False), (60, True)])
def test_torch_finds_the_weights_of_the_kernels(k, repeats):
    rng = np.random.default_rng(5)
    rows = [rng.integers(0, 60, rng.integers(0, 12)).tolist() for _ in range(150)]
    near = Neighbours(k=k, repeats=repeats)
    solutions = [Solution(0.2, 5.0), Solution(0.7, 1.0)]
    own = sequences_of(rows), 60, Decay(2.0, 0.1), near, solutions
    kernels, by_torch = weights(*own), weights(*own, torch.device("cpu"))
    for one, other in zip(kernels, by_torch, strict=True):
        np.testing.assert_allclose(whole(other), whole(one), rtol=2e-3, atol=2e-5)


def test_torch_counts_the_ranks_of_the_kernels():
    rng = np.random.default_rng(6)
    rows = [rng.integers(0, 60, rng.integers(1, 12)).tolist() for _ in range(80)]
    events, decay, near = sequences_of(rows), Decay(2.0, 0.1), Neighbours(k=9)
    (found,) = weights(events, 60, decay, near, [Solution(0.2, 5.0)])
    target_T = rng.integers(0, 60, 80)
    scale_GI = (1 + rng.random((2, 60))).astype(np.float32)
    ranks = [
        Trial(events, events, target_T, 60, near, device)._ranks(decay, found, scale_GI)
        for device in (None, torch.device("cpu"))
    ]
    np.testing.assert_array_equal(*ranks)
