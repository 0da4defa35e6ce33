"""The names of the built-in parts, in the order in which people are shown them.

This module imports no torch, so that ``sdgar train --help`` is quick. A test compares it with the
registers, to which ``--import`` may add parts of others.
"""

from __future__ import annotations

DISCRIMINATORS = ("factorization", "cosine", "metric", "lightgcn", "two-tower", "sequence")
SAMPLERS = (
    "uniform",
    "popularity",
    "popularity-mix",
    "decomposable",
    "adaptive",
    "hardest",
    "first-violation",
    "search",
)
OBJECTIVES = ("bpr", "logistic", "sdgar", "sdsoftmax", "warp", "cml")
