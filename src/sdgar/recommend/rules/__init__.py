"""Business rules: named, composable rules that re-rank a list of candidates.

Rules act in this order, whatever their order in a file is:

1. Filters (``filters.py``): block, allow and age decide which items may be listed at all.
2. Changes of scores (``changes.py``): popularity, then boost, bury and freshness, then exploration.
3. Selection (``selection.py``): one item after the other, with caps, diversity and calibration.
4. Pins (``selection.py``): items that have a fixed place.

Each rule is a dataclass, from whose fields its settings in a file are read (``settings.py``).
"""

from sdgar.recommend.rules.facts import Facts
from sdgar.recommend.rules.reranking import Reranking, RerankOptions
from sdgar.recommend.rules.rules import Rules, reranking_of

__all__ = ["Facts", "RerankOptions", "Reranking", "Rules", "reranking_of"]
