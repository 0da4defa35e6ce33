"""The commands of the service: serve, ab, keys, and those of its store."""
