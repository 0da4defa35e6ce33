"""Choose how many threads run the next stretch of an epoch: the number that was fastest of late.

On cores of its own, an engine uses all threads it may. A stretch whose threads had to wait (for a
core, or for one of them that had none) is followed by one with half as many, and the faster number
goes on. With fewer threads than allowed, twice as many are tried again from time to time; a trial
that loses puts off the next one, and none changes what is computed.
"""

from __future__ import annotations

import math

_STRETCH = 0.1
"""The seconds that a number of threads is measured for: far longer than a core is given away."""
_BUSY = 0.85
"""The share of their time that threads on cores of their own spend at work at least."""
_FIRST_WAIT, _LONGEST_WAIT = 8, 128
"""The numbers of stretches between two trials, at first and at most."""


class Pace:
    """Choose a number of threads by how much work they did in how much time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.usual = most
        """The number that was fastest of late."""
        self._trial: int | None = None
        self._fewer_first = True
        self._stretches_to_trial, self._wait = 0, _FIRST_WAIT
        self._rate, self._usual_rate = 0.0, 0.0
        """Work a second of the last stretch, and of the last with the usual number."""
        self._start()

    @property
    def threads(self) -> int:
        """The number of threads for what comes next."""
        return self._trial or self.usual

    def work(self) -> int:
        """Return how much to do before the next ``note``: the rest of this stretch, by its rate."""
        rate = self._done / self._seconds if self._seconds else self._rate
        return max(1, math.ceil((1.1 * _STRETCH - self._seconds) * rate))

    def note(self, work: int, seconds: float, cpu_seconds: float) -> None:
        """Take note of what the last threads did; after a stretch, choose those of the next."""
        self._done += work
        self._seconds += seconds
        self._cpu_seconds += cpu_seconds
        if self._seconds >= _STRETCH:
            self._rate = self._done / self._seconds
            self._choose()
            self._start()

    def _choose(self) -> None:
        if self._trial is None:
            self._usual_rate = self._rate
            self._stretches_to_trial -= 1
            if self._stretches_to_trial <= 0:
                self._trial = self._other()
            return
        if self._rate > self._usual_rate:
            self.usual, self._usual_rate = self._trial, self._rate
            self._stretches_to_trial, self._wait = 0, _FIRST_WAIT
        else:
            self._fewer_first = not self._fewer_first
            self._stretches_to_trial = self._wait = min(2 * self._wait, _LONGEST_WAIT)
        self._trial = None

    def _other(self) -> int | None:
        """Return the number to try: half as many where threads waited, or twice as many.

        A trial that won is followed by one the same way, a trial that lost by one the other way.
        """
        waited = self._cpu_seconds < _BUSY * self._seconds * self.usual
        fewer = self.usual // 2 if waited and self.usual > 1 else None
        more = min(2 * self.usual, self.most) if self.usual < self.most else None
        return (fewer or more) if self._fewer_first else (more or fewer)

    def _start(self) -> None:
        self._done, self._seconds, self._cpu_seconds = 0, 0.0, 0.0
