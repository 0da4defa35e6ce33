"""Ids are found by number or by a table of texts, whichever form a query has."""

from __future__ import annotations

import numpy as np
import pytest

from sdgar.data.ids import Ids

NUMBERS = Ids(np.arange(0, 40, 2))


@pytest.mark.parametrize(
    "queried",
    [[2, 3], [2**63, 2], [-1, 2], [2**63, -1], [2**80, 2], [True, 2], ["2", 2], [2.0, 2]],
)
def test_ids_are_found_alike_with_and_without_a_table(queried):
    by_table = [NUMBERS._index.get(str(one), -1) for one in queried]
    pairs = zip(queried, by_table, strict=True)
    wanted = [-1 if isinstance(one, bool | float) else at for one, at in pairs]
    assert NUMBERS.index_of(queried).tolist() == wanted


def test_integers_need_no_table_of_all_ids():
    ids = Ids(np.arange(10))
    assert ids.index_of([3, 11]).tolist() == [3, -1]
    assert "_index" not in vars(ids)
