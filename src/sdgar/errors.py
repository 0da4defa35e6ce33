"""The errors that a user can cause: each says what happened, the value, and what to do.

The exit code of the command line is the class attribute; ``code`` is a stable
word for machines, so that a script need not parse sentences.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SdgarError(Exception):
    """The base class of all errors that are raised on purpose; anything else is a bug.

    >>> try:
    ...     sdgar.BPR().recommend(["ann"])
    ... except sdgar.SdgarError as error:
    ...     print(error.code)
    not_fitted
    """

    exit_code = 1

    def __init__(self, message: str, *, code: str = "error") -> None:
        super().__init__(message)
        self.code = code


class UsageError(SdgarError):
    """The error for an option, a name or a call that cannot work."""

    exit_code = 2


class DataError(SdgarError):
    """The error for input rows that cannot be read, or that no model can be made from."""

    exit_code = 3


class ArtifactError(SdgarError):
    """The error for a saved model that is missing, damaged, foreign or of another version."""

    exit_code = 4


class ResourceError(SdgarError):
    """The error for a disk, RAM, device or network that is missing or full."""

    exit_code = 5


class NumericalError(SdgarError):
    """The error for a score, a loss or a parameter that is not finite."""

    exit_code = 6


class NotReplacedError(SdgarError):
    """The error for a new model that does not replace the earlier one."""

    exit_code = 7


class SdgarWarning(UserWarning):
    """The warning about something that works, but may not be what was meant."""


class StoppedError(SdgarError):
    """The error of an interrupted run that can be resumed; the exit code is 128 + signal."""

    def __init__(self, message: str, *, signal: int) -> None:
        super().__init__(message, code="stopped")
        self.exit_code = 128 + signal


def did_you_mean(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return a question that names the known name most like ``name``, with a blank before it.

    It is empty if no known name has at least the similarity ``cutoff``, from 0 to 1.
    """
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def unknown_name(
    what: str, name: object, known: Iterable[str], *, near: str | None = None
) -> UsageError:
    """Return the error for an unknown name, with the known name that is nearest, or ``near``."""
    choices = sorted(known)
    question = did_you_mean(name, choices) if near is None else f" Did you mean {near!r}?"
    return UsageError(
        f"unknown {what} {name!r}.{question} Known: {', '.join(choices)}.",
        code=f"unknown_{what.replace(' ', '_')}",
    )


_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")
"""The texts of torch's errors for lack of memory on a GPU and on the CPU."""


def exhausted(error: BaseException) -> ResourceError | None:
    """Return the error for lack of memory; None if the given error is about something else."""
    text = " ".join(str(error).split()) or "no details"
    if not isinstance(error, MemoryError) and not (
        isinstance(error, RuntimeError) and any(said in text for said in _NO_MEMORY)
    ):
        return None
    return ResourceError(
        f"there is not enough memory ({text}). Use fewer items, a smaller dim, batch_size, "
        "n_negatives or states, or another machine.",
        code="out_of_memory",
    )
