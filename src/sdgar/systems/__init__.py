"""The named systems, one file each: what it minimises, its settings and how it is put together."""
