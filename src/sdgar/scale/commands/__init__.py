"""The commands for shards and for several processes."""

COMMANDS = {
    "train:shards": ("Train on a folder of shards.", "sdgar.scale.commands.training:SHARDS"),
    "recommend:parts": ("Rank by several processes.", "sdgar.scale.commands.processes:PARTS"),
    "data split:shards": ("Split a folder of shards.", "sdgar.scale.commands.shards:SPLIT"),
    "data shard": (
        "Write events of any size as shards of users, in bounded RAM.",
        "sdgar.scale.commands.shards:shard",
    ),
    "data info": (
        "Describe a folder of shards, after a check that its files are there.",
        "sdgar.scale.commands.shards:info",
    ),
}
"""The table of the entry point ``scale`` of the group ``sdgar.commands``."""
