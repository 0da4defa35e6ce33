"""Memory that the workers of one machine share, and how they meet in it."""

import errno
import os
import threading

import numpy as np
import pytest

from sdgar.errors import ResourceError
from sdgar.kernels.compiled import outer
from sdgar.kernels.numba.threads import ALARM, WORDS, meet
from sdgar.scale import shared_memory as common
from sdgar.scale.workers import Workers


@outer
def _meet(words_5, processes):
    """Wait for the other processes."""
    return meet(words_5, processes)


class Store(dict):
    """A store of one process."""

    def set(self, key, value):
        self[key] = value


def test_an_alarm_ends_waiting_for_one_that_does_not_come():
    words_5, found = np.zeros(WORDS, np.int32), []
    waiting = threading.Thread(target=lambda: found.append(_meet(words_5, 2)))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    words_5[ALARM] = 1
    waiting.join(30)
    assert found == [True]


def test_a_worker_alone_has_arrays_of_its_own_at_the_start_of_cache_lines():
    shapes = {"a": ((3, 2), np.float32), "b": ((0,), np.int64), "c": ((5,), np.bool_)}
    memory = common.SharedArrays(Workers(), shapes)
    for name, array in memory.arrays.items():
        assert (array.shape, array.dtype) == shapes[name]
        assert array.ctypes.data % 64 == 0
        assert not array.any()
        array[...] = 1
    assert not memory.words.any()
    memory.alarm()
    assert memory.words[ALARM] == 1


def test_memory_that_is_not_there_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(common, "_folders", lambda: [tmp_path])
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    store = Store()
    with pytest.raises(ResourceError, match=r"share 1,000 bytes of memory.*TMPDIR"):
        common._reserved(1000, store, "key")
    assert store == {"key": ""}
    assert not list(tmp_path.iterdir())


def test_a_second_folder_is_used_where_the_first_is_full(tmp_path, monkeypatch, caplog):
    folders = [tmp_path / "full", tmp_path / "free"]
    for folder in folders:
        folder.mkdir()
    reserve = os.posix_fallocate

    def full_there(file, *rest):
        if os.fstat(file).st_ino in {path.stat().st_ino for path in folders[0].iterdir()}:
            raise OSError(errno.ENOSPC, "No space left on device")
        reserve(file, *rest)

    monkeypatch.setattr(common, "_folders", lambda: folders)
    monkeypatch.setattr(os, "posix_fallocate", full_there)
    path = common._reserved(1000, Store(), "key")
    assert f"1,000 bytes do not fit in {folders[0]}" in caplog.text
    assert path.parent == folders[1]
    assert path.stat().st_size == 1000
    assert not list(folders[0].iterdir())


def test_processes_of_one_machine_name_the_same_memory():
    assert common.memory_name() == common.memory_name()
    assert len(common.memory_name().split()) >= 2
