"""Training on data larger than RAM: shards on disk, blocks of users, and several processes."""
