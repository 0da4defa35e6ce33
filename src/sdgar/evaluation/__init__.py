"""How good a ranking is: top-k over the whole catalogue, metrics a user, reports."""

from sdgar.evaluation.counts import Counts
from sdgar.evaluation.metrics import DEFINITIONS, per_user
from sdgar.evaluation.paired import Paired, compare
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
