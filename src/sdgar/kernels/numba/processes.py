"""Processes that meet, in memory that they share.

A process that waits looks at the words for a while and then sleeps until it is woken, as threads
do; see ``threads.py``. Another process may be killed while this one waits for it, so sleep is
short, and an alarm ends all waiting.
"""

from __future__ import annotations

from typing import Any

from sdgar.kernels.compiled import inner
from sdgar.kernels.numba.threads import ALL, FUTEX, SPINS, add, futex, load, meet, sleep

WORDS = 5
"""The words of a meeting: how many have arrived, how often all have met, how many sleep, how many
parts of work were taken since then, and whether there is an alarm."""
ALARM = 4
"""The place of the last one."""
_WAIT, _WAKE = 0, 1
"""What Linux is asked for; both are for processes that share memory."""
_NAP = 100_000 if FUTEX else 200
"""The microseconds after which one that sleeps looks for an alarm; where nobody can be woken, it
looks for the others too."""


@inner
def _sleep_in(words_5: Any, generation: Any) -> Any:
    """Give the core away until all have met or there is an alarm."""
    add(words_5, 2, 1)
    while load(words_5, 1) == generation and load(words_5, ALARM) == 0:
        futex(words_5, 1, _WAIT, generation, _NAP)
    add(words_5, 2, -1)
    return None


@inner
def _wake_in(words_5: Any) -> Any:
    if load(words_5, 2) > 0:
        futex(words_5, 1, _WAKE, ALL, 0)
    return None


@inner
def _nap_in(words_5: Any, generation: Any) -> Any:
    while load(words_5, 1) == generation and load(words_5, ALARM) == 0:
        sleep(_NAP)
    return None


@inner
def _let_nap(words_5: Any) -> Any:
    return None


_wait, _wake = (_sleep_in, _wake_in) if FUTEX else (_nap_in, _let_nap)


@inner
def _meet_once(words_5: Any, processes: Any) -> Any:
    """Wait until all processes are here; return whether an alarm came first.

    Parts of work are then taken from the first one on.
    """
    generation = load(words_5, 1)
    if add(words_5, 0, 1) == processes - 1:
        add(words_5, 0, -processes)
        add(words_5, 3, -load(words_5, 3))
        add(words_5, 1, 1)
        _wake(words_5)
    else:
        spins = 0
        while spins < SPINS and load(words_5, 1) == generation:
            spins += 1
        if spins == SPINS:
            _wait(words_5, generation)
        return load(words_5, 1) == generation
    return False


@inner
def meet_all(
    t: Any, threads: Any, barrier_4: Any, words_5: Any, processes: Any, lost_1: Any
) -> Any:
    """Wait until all threads of all processes are here; return whether an alarm came first.

    ``lost_1`` is where thread 0 leaves this for the other threads of its process.
    """
    meet(barrier_4, threads)
    if t == 0:
        lost_1[0] = _meet_once(words_5, processes)
    meet(barrier_4, threads)
    return lost_1[0] != 0
