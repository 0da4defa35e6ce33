"""Evaluation: metrics of ranked lists for each user, reports, and paired tests."""

from sdgar.evaluation.measures import DEFINITIONS
from sdgar.evaluation.metrics import per_user
from sdgar.evaluation.paired import Paired, compare
from sdgar.evaluation.ranked import Counts
from sdgar.evaluation.report import Report, evaluate

__all__ = [
    "DEFINITIONS",
    "Counts",
    "Paired",
    "Report",
    "compare",
    "evaluate",
    "per_user",
]
