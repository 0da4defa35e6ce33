"""The named systems, one file each: its loss, its settings and how it is put together."""
