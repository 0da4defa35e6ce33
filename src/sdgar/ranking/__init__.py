"""Find the k best items of each user, in one of four ways.

- ``blocks`` ranks by all scores, computed on the CPU for a block of users at a time.
- ``on_device`` does the same with torch, for a model whose tensors are on a GPU.
- ``sweep`` gives the same lists for large catalogues: 8-bit products rule out most items.
- ``index`` is approximate: an inverted file proposes candidates, which are then scored exactly.

``topk.top_k`` chooses between the first two; a recommender builds the others as a ``Finder``.
"""
