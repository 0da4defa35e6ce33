"""The commands for shards and for several processes."""

COMMANDS = {
    "data shard": (
        "Write events of any size as shards of users, in bounded memory.",
        "sdgar.scale.commands.data_shards:shard",
    ),
    "data info": (
        "Say what a folder of shards holds, after a check that its files are there.",
        "sdgar.scale.commands.data_shards:info",
    ),
}
"""The table of the entry point ``scale`` of the group ``sdgar.commands``."""
