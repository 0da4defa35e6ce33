"""The commands for shards and for several processes."""
