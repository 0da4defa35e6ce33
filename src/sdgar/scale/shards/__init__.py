"""Interactions on disk, in shards of users: for data that is larger than RAM.

    shards = Shards.open("events.shards")
    for shard in shards:
        shard.indptr_U1, shard.items_E    # memory-mapped, as in ``Interactions``

The users of a shard are those whose ids have a certain hash; all rows of a user lie in one shard.
Items have the numbers that they have in a load in RAM. Users are numbered shard by shard, and
``rank_U`` of a shard has the number that each of its users has in a load in RAM.
"""

from sdgar.scale.shards.format import is_shards
from sdgar.scale.shards.shards import Shard, Shards

__all__ = ["Shard", "Shards", "is_shards"]
