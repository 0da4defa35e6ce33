"""Training on data larger than RAM: shards on disk, blocks of users, and several processes.

shards = sdgar.Shards.open("events.shards")
model = sdgar.fit_shards(sdgar.BPR(), shards)
"""
