"""Rules of the house: named, composable rules that re-rank one list of candidates.

Rules act in this order, whatever their order in a file is:

1. Filters (``filters.py``): block, allow and age decide which items may be listed at all.
2. Changes of scores (``changes.py``): popularity, then boost, bury and freshness, then exploration.
3. Selection (``selection.py``): one item after the other, with caps, diversity and calibration.
4. Pins (``pins.py``): items that have a place of their own.
"""

from sdgar.recommend.rules.dials import Dials
from sdgar.recommend.rules.facts import Facts
from sdgar.recommend.rules.reranking import Reranking
from sdgar.recommend.rules.rules import Reranked, Rules

__all__ = ["Dials", "Facts", "Reranked", "Reranking", "Rules"]
