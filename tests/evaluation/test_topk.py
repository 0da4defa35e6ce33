"""The k best items: a total order, nothing forbidden, nothing meaningless, bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.testing import assert_array_equal
from torch import Tensor

from sdgar.errors import NumericalError, UsageError
from sdgar.machine import cores
from sdgar.models.factors import Factors
from sdgar.ranking import topk
from sdgar.ranking.blocks import Blocks
from sdgar.ranking.topk import TopK, block_rows, top_k

from .problems import Problem, Table, TensorTable, history, problems

PATHS = ["kernels", "numpy", "tensors"]


def ranked(path: str, scorer: Any, *args, ram_bytes: int = topk._RAM, **kwargs) -> TopK:
    """Return ``top_k`` by compiled kernels, by NumPy alone, or by tensors."""
    if path == "tensors":
        return top_k(TensorTable(scorer.scores_UI), *args, **kwargs)
    rank = Blocks._rank_scores if path == "numpy" else Blocks._rank_block
    with patch.object(Blocks, "_rank_block", rank), patch.object(topk, "_RAM", ram_bytes):
        return top_k(scorer, *args, **kwargs)


def solve(path: str, problem: Problem, **kwargs) -> TopK:
    table, users = Table(problem.scores_UI), np.arange(len(problem.seen))
    kwargs |= {"seen": history(problem.seen), "blocked_I": problem.blocked_I}
    return ranked(path, table, users, problem.k, **kwargs)


@pytest.mark.parametrize("path", PATHS)
@given(problem=problems())
def test_the_list_is_what_sorting_the_allowed_items_gives(path: str, problem: Problem) -> None:
    best = solve(path, problem)
    assert best.items_TK.dtype == np.int32
    assert best.scores_TK.dtype == np.float32
    for user in range(len(problem.seen)):
        expected = problem.best(user)
        padding = problem.k - len(expected)
        assert best.items_TK[user].tolist() == expected + [-1] * padding
        scores = problem.scores_UI[user, expected].tolist() + [-np.inf] * padding
        assert best.scores_TK[user].tolist() == scores


@given(problem=problems())
def test_where_all_users_have_the_same_scores_the_lists_are_those_of_a_table(
    problem: Problem,
) -> None:
    bias_I = problem.scores_UI[0]
    same_UI = bias_I.repeat(len(problem.seen), 1)
    users_T = np.arange(len(problem.seen))[::-1].copy()
    popular = Factors(np.zeros((len(users_T), 0)), np.zeros((len(bias_I), 0)), np.asarray(bias_I))
    rules = {"seen": history(problem.seen), "blocked_I": problem.blocked_I}
    expected, found = (
        top_k(scorer, users_T, problem.k, **rules) for scorer in (Table(same_UI), popular)
    )
    assert_array_equal(found.items_TK, expected.items_TK)
    assert_array_equal(found.scores_TK, expected.scores_TK)


@given(problem=problems())
def test_blocks_do_not_change_the_lists(problem: Problem) -> None:
    whole, single = solve("kernels", problem), solve("kernels", problem, ram_bytes=1)
    assert_array_equal(whole.items_TK, single.items_TK)


@pytest.mark.usefixtures("plenty_of_cores")
@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_the_number_of_threads_does_not_change_the_lists(threads: int) -> None:
    table = Table(torch.randint(0, 9, (10, 300), generator=torch.Generator().manual_seed(1)))
    with patch.object(cores, "threads", return_value=threads):
        # Two users are ranked at once.
        best = ranked("kernels", table, np.arange(10), 7, ram_bytes=300 * 8 * 2)
    assert_array_equal(best.items_TK, ranked("tensors", table, np.arange(10), 7).items_TK)


@pytest.mark.usefixtures("plenty_of_cores")
def test_threads_name_the_first_user_with_scores_that_are_no_numbers() -> None:
    scores_UI = torch.zeros(40, 300)
    scores_UI[7, 5] = scores_UI[31, 2] = torch.nan
    with (
        patch.object(cores, "threads", return_value=3),
        pytest.raises(NumericalError, match="user index 7 for item index 5 is nan"),
    ):
        ranked("kernels", Table(scores_UI), np.arange(40), 3, ram_bytes=300 * 8 * 4)


@pytest.mark.usefixtures("plenty_of_cores")
def test_an_error_of_the_model_ends_all_threads_soon() -> None:
    calls = []

    class Failing(Table):
        def score_all(self, users_B: np.ndarray) -> np.ndarray:
            calls.append(int(users_B[0]))
            time.sleep(0.001)
            if int(users_B[0]) == 3:
                raise ZeroDivisionError
            return super().score_all(users_B)

    with patch.object(cores, "threads", return_value=3), pytest.raises(ZeroDivisionError):
        ranked("kernels", Failing(torch.zeros(2000, 300)), np.arange(2000), 3, ram_bytes=1)
    assert 3 in calls
    assert len(calls) < 2000


def test_a_model_that_is_being_trained_can_be_ranked_with() -> None:
    class Trained(TensorTable):
        def score_all(self, users_B: Tensor) -> Tensor:
            return self.scores_UI

    scorer = Trained(torch.nn.Parameter(torch.tensor([[1.0, 2.0]])))
    assert top_k(scorer, np.array([0]), 1).items_TK.tolist() == [[1]]


@pytest.mark.parametrize("levels", [2, 50, 10**6])
def test_all_paths_agree_on_a_catalogue_of_real_size(levels: int) -> None:
    generator = torch.Generator().manual_seed(levels)
    scores_UI = torch.randint(0, levels, (40, 20_000), generator=generator).float() / 64
    seen = history([set(range(user, 20_000, 7 + user)) for user in range(40)])
    first, *others = (ranked(p, Table(scores_UI), np.arange(40), 50, seen=seen) for p in PATHS)
    for other in others:
        assert_array_equal(first.items_TK, other.items_TK)
        assert_array_equal(first.scores_TK, other.scores_TK)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("item", [0, 31, 32, 99])
def test_a_score_that_is_not_finite_is_an_error_naming_the_user(
    path: str, bad: float, item: int
) -> None:
    scores_UI = torch.linspace(1, 0, 100).repeat(9, 1)
    scores_UI[7, item] = bad
    scores_UI[8, 5] = bad
    with pytest.raises(NumericalError, match=f"user index 7 for item index {item} is {bad}.*rate"):
        ranked(path, Table(scores_UI), np.arange(9), 3)


@pytest.mark.parametrize("path", PATHS)
def test_a_nan_is_an_error_even_where_the_item_would_not_be_recommended(path: str) -> None:
    scores_UI = torch.tensor([[0.5, float("nan"), 0.1]])
    with pytest.raises(NumericalError, match="user index 0 for item index 1"):
        ranked(path, Table(scores_UI), np.array([0]), 1, seen=history([{1}]))
    popular = Factors(np.zeros((2, 0)), np.zeros((3, 0)), np.array([1, np.nan, 2], np.float32))
    with pytest.raises(NumericalError, match="item index 1 is nan"):
        top_k(popular, np.arange(2), 2)


@pytest.mark.parametrize("path", PATHS)
def test_the_scores_of_the_scorer_are_left_as_they_were(path: str) -> None:
    class Popularity(Table):
        def score_all(self, users_B: Any) -> Any:
            return np.asarray(self.scores_UI)

    scorer, seen = Popularity(torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 2)), history([{0}, {1}])
    best = ranked(path, scorer, np.arange(2), 2, seen=seen, blocked_I=np.arange(4) == 2)
    assert best.items_TK.tolist() == [[1, 3], [0, 3]]
    assert_array_equal(scorer.scores_UI[0], torch.tensor([0.4, 0.3, 0.2, 0.1]))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_scores_of_other_precision_are_ranked_as_float32(path: str, dtype: torch.dtype) -> None:
    table = Table(torch.tensor([[1.0, 3.0, 2.0]], dtype=dtype))
    assert ranked(path, table, np.array([0]), 2).items_TK.tolist() == [[1, 2]]
    nobody = ranked(path, table, np.empty(0, np.int64), 3)
    assert nobody.items_TK.shape == nobody.scores_TK.shape == (0, 3)


def test_read_only_inputs_are_as_good_as_any() -> None:
    users, seen, blocked_I = np.arange(2), history([{0}, {1}]), np.zeros(3, np.bool_)
    for array in (users, seen.indptr_U1, seen.items_E, blocked_I):
        array.flags.writeable = False
    best = top_k(Table(torch.zeros(2, 3)), users, 2, seen=seen, blocked_I=blocked_I)
    assert best.items_TK.tolist() == [[1, 2], [0, 2]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"users_T": np.array([-1])}, "-1 is negative"),
        ({"users_T": np.array([[0, 1]])}, r"shape \(1, 2\)"),
        ({"users_T": np.array([5])}, "5 is outside the history of 2 users"),
        ({"blocked_I": np.zeros(4, np.bool_)}, "3 booleans"),
        ({"blocked_I": np.zeros(3, np.int64)}, "3 booleans"),
        ({"scorer": Table(torch.zeros(2, 0))}, "no items"),
    ],
)
def test_a_call_that_cannot_work_says_why(change: dict, words: str) -> None:
    call = {"scorer": Table(torch.zeros(2, 3)), "users_T": np.arange(2), "k": 1}
    with pytest.raises(UsageError, match=words):
        top_k(**{**call, "seen": history([set(), set()]), **change})


def test_a_scorer_that_gives_the_wrong_shape_is_named() -> None:
    class Transposed(Table):
        def score_all(self, users_B: np.ndarray) -> np.ndarray:
            return super().score_all(users_B).T

    with pytest.raises(UsageError, match=r"shape \(3, 2\) for 2 users and 3 items"):
        top_k(Transposed(torch.zeros(2, 3)), np.arange(2), 1)


@pytest.mark.parametrize("n_items", [1, 1_682, 40_988, 10_000_000])
@pytest.mark.parametrize("ram_bytes", [1, 1 << 20, 64 << 20])
def test_a_block_fits_the_memory_it_is_given(n_items: int, ram_bytes: int) -> None:
    assert 1 <= block_rows(n_items, ram_bytes) <= max(1, ram_bytes // (8 * n_items))


@pytest.mark.parametrize("path", PATHS[:2])
def test_no_more_users_are_scored_at_once_than_a_block_holds(path: str) -> None:
    largest = 0

    class Watched(Table):
        def score_all(self, users_B: np.ndarray) -> np.ndarray:
            nonlocal largest
            largest = max(largest, len(users_B))
            return super().score_all(users_B)

    ranked(path, Watched(torch.zeros(100, 64)), np.arange(100), 3, ram_bytes=64 * 32 * 10)
    assert largest == block_rows(64, 64 * 32 * 10) < 100


def test_without_a_cache_folder_the_lists_are_the_same() -> None:
    program = """
import os, warnings
# As in a read-only container: no folder that compiled code could be kept in.
os.environ["XDG_CACHE_HOME"] = "/proc/nowhere"
warnings.simplefilter("ignore")
import numpy as np
from sdgar.models.factors import Factors
from sdgar.ranking import blocks, topk
blocks._FEW_SCORES = 0
eye = np.eye(3, dtype=np.float32)
factors = Factors(eye, eye, np.zeros(3, np.float32))
print(topk.top_k(factors, np.arange(3), 2).items_TK.tolist())
"""
    without = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=without
    )
    assert done.stdout.strip() == "[[0, 1], [1, 0], [2, 0]]"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@given(problem=problems())
def test_the_lists_on_a_gpu_are_those_of_the_cpu(problem: Problem) -> None:
    on_gpu = TensorTable(problem.scores_UI.cuda())
    users, seen = np.arange(len(problem.seen)), history(problem.seen)
    there = top_k(on_gpu, users, problem.k, seen=seen, blocked_I=problem.blocked_I)
    assert_array_equal(there.items_TK, solve("kernels", problem).items_TK)
