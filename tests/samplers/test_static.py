from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.errors import UsageError
from sdgar.samplers.static import PairLookup, Popularity, PopularityMix

CPU = torch.device("cpu")


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), min_size=1, max_size=65))
def test_the_nth_unknown_item_is_the_nth_of_the_complement(rows):
    # Item ids are kept as they are by giving every item to a sixth user.
    everything = [(5, i) for i in range(13)]
    data = Interactions.from_arrays(*map(list, zip(*rows, *everything, strict=True)))
    known = PairLookup(data.history, data.n_items, CPU)
    for user in range(data.n_users):
        mine = set(data.history.of(user).tolist())
        complement = [i for i in range(13) if i not in mine]
        users = torch.full((len(complement),), user)
        assert known.n_unknown(torch.tensor([user])).item() == len(complement)
        assert known.nth_unknown(users, torch.arange(len(complement))).tolist() == complement
        assert known.contains(torch.full((13,), user), torch.arange(13)).tolist() == [
            i in mine for i in range(13)
        ]


def test_a_mix_is_popularity_by_its_share_and_else_uniform():
    count_I = torch.tensor([0, 1, 2, 5])
    q_I = PopularityMix(count_I, 0.25).log_q_I.exp()
    expected_I = 0.25 * count_I / 8 + 0.75 / 4
    torch.testing.assert_close(q_I.double(), expected_I.double(), rtol=1e-6, atol=0)
    popular_I = Popularity(count_I).log_q_I
    torch.testing.assert_close(PopularityMix(count_I, 1.0).log_q_I, popular_I)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_no_probability_is_refused(share):
    with pytest.raises(UsageError, match="share must lie between 0 and 1") as error:
        PopularityMix(torch.ones(3), share)
    assert error.value.code == "bad_share"
