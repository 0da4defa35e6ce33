"""Folders that are whole or absent: saved models and checkpoints are such folders."""

from sdgar.storage.folders.atomic import remove, sync, whole, write
from sdgar.storage.folders.places import in_the_way, place_of, require_free
from sdgar.storage.folders.tensor_file import map_sealed, map_tensors, size_of, write_tensors
from sdgar.storage.folders.verified import (
    MANIFEST,
    SEAL,
    DamagedError,
    NotAFileError,
    Tensors,
    open_file,
    read_record,
    read_sealed,
    read_table,
    read_tensors,
    require_seal,
    require_sealed,
    sealed,
    seals,
)

__all__ = [
    "MANIFEST",
    "SEAL",
    "DamagedError",
    "NotAFileError",
    "Tensors",
    "in_the_way",
    "map_sealed",
    "map_tensors",
    "open_file",
    "place_of",
    "read_record",
    "read_sealed",
    "read_table",
    "read_tensors",
    "remove",
    "require_free",
    "require_seal",
    "require_sealed",
    "sealed",
    "seals",
    "size_of",
    "sync",
    "whole",
    "write",
    "write_tensors",
]
