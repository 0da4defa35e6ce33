"""Rows of tables that workers share out: what is fetched, asked, collected and turned is right."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.scale import rows as rows_room
from sdgar.scale.rows import Rows
from sdgar.scale.workers import ALONE


@dataclass
class Talk:
    """What threads that stand for workers tell each other."""

    count: int

    def __post_init__(self):
        self.barrier, self.said = threading.Barrier(self.count), {}


class Threaded:
    """One of several threads that stand for workers."""

    def __init__(self, talk, number):
        self._talk, self.number, self.count = talk, number, talk.count
        self.leads = number == 0

    def swap(self, rows, count_R, heard_R=None):
        self._talk.said[self.number] = rows.split(list(count_R))
        assert len(rows) == sum(count_R)
        self._talk.barrier.wait(30)
        heard = [self._talk.said[r][self.number] for r in range(self.count)]
        self._talk.barrier.wait(30)
        assert heard_R is None or list(heard_R) == [len(part) for part in heard]
        return torch.cat(heard), [len(part) for part in heard]


def by_all(count, work):
    """Return what each of so many workers makes of its place among them."""
    talk = Talk(count)

    def one(number):
        try:
            return work(Threaded(talk, number))
        except BaseException:
            talk.barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


counts, lengths = st.integers(1, 4), st.integers(1, 23)


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch):
    monkeypatch.setattr(rows_room, "_AT_ONCE", 12)


@given(counts, lengths, st.sampled_from([(), (2,), (3, 2)]), st.sampled_from([1, 4]))
def test_rows_that_were_dealt_come_back_in_their_order(count, length, width, multiple):
    table = torch.rand(length, *width)

    def work(worker):
        rows = Rows(worker, length)
        own = rows.deal(table if worker.leads else table[:0])
        pieces = [len(piece) for piece in rows.collected(own, multiple)]
        return own, pieces, rows.collect(own)

    found = by_all(count, work)
    for number, (own, pieces, whole) in enumerate(found):
        assert own.equal(table[number::count])
        assert whole.equal(table if number == 0 else table[:0])
        assert all(size % multiple == 0 for size in pieces[:-1])


@given(counts, lengths, st.data())
def test_each_row_is_fetched_once_and_found_at_its_place(count, length, data):
    table = torch.rand(length, 3)
    numbers = st.lists(st.integers(0, length - 1), max_size=20)
    asked = [np.array(data.draw(numbers), np.int64) for _ in range(count)]

    def work(worker):
        own = table[worker.number :: count]
        return Rows(worker, length).fetch(asked[worker.number], lambda at: own[at])

    for number, (fetched, index) in enumerate(by_all(count, work)):
        assert fetched.rows_UW[index].equal(table[asked[number]])
        assert len(fetched.rows_UW) == len(set(asked[number].tolist()))
        numbers_U = fetched.place_U * count + fetched.owner_U
        assert fetched.rows_UW.equal(table[numbers_U])


@given(counts, lengths, st.data())
def test_owners_answer_what_they_are_asked(count, length, data):
    table = torch.arange(length) * 100
    numbers = st.lists(st.integers(0, length - 1), max_size=20)
    asked = [np.array(data.draw(numbers), np.int64) for _ in range(count)]

    def work(worker):
        own, mine = table[worker.number :: count], asked[worker.number]
        words = torch.stack([torch.zeros(len(mine)), torch.arange(len(mine))], dim=1).long()
        return Rows(worker, length).ask(mine, words, lambda heard: own[heard[:, 0]] + heard[:, 1])

    for number, answers in enumerate(by_all(count, work)):
        assert answers.tolist() == [100 * n + a for a, n in enumerate(asked[number].tolist())]


@given(counts, lengths, st.integers(1, 7))
def test_a_table_that_is_turned_has_own_columns_of_all_rows(count, length, width):
    table = torch.rand(length, width)

    def work(worker):
        rows, columns = Rows(worker, length), Rows(worker, width)
        turned = rows.across(table[worker.number :: count], columns)
        return turned, columns.across(turned.T, rows).T

    for number, (turned, back) in enumerate(by_all(count, work)):
        assert turned.equal(table[:, number::count])
        assert back.equal(table[number::count])


def test_one_worker_has_all_rows():
    rows, table = Rows(ALONE, 5), torch.rand(5, 2)
    assert rows.deal(table).equal(table)
    assert rows.collect(table).equal(table)
    assert list(rows.own) == [0, 1, 2, 3, 4]
