"""How good a ranking is: top-k over the whole catalogue, metrics a user, reports."""

from sdgar.evaluation.metrics import DEFINITIONS, per_user
from sdgar.evaluation.report import Counts, Paired, Report, compare, evaluate
from sdgar.evaluation.topk import TopK, top_k

__all__ = [
    "DEFINITIONS",
    "Counts",
    "Paired",
    "Report",
    "TopK",
    "compare",
    "evaluate",
    "per_user",
    "top_k",
]
