"""How much of the input is held in memory at once."""

from __future__ import annotations

from dataclasses import dataclass

from sdgar.errors import ResourceError, UsageError

MEMORY = 4 << 30
"""The bytes of memory that are used at most, unless something else is asked for."""
_LEAST_MEMORY = 256 << 20
_RUN_ROW_BYTES, _SHARD_ROW_BYTES = 256, 160
"""The bytes of memory for each row while a run is written, and while a shard is merged."""
_BASE_BYTES = 128 << 20


@dataclass(frozen=True)
class Limits:
    """How much is held in memory at once; the shards do not depend on it."""

    memory: int = MEMORY
    """The bytes of memory that are used at most."""
    block_bytes: int | None = None
    """The bytes of a file that are read at once; None takes a share of the memory."""
    run_rows: int | None = None
    """The rows of a run; None takes as many as fit in memory."""

    def __post_init__(self) -> None:
        """Raise if there is too little memory for anything."""
        if self.memory < _LEAST_MEMORY:
            raise UsageError(
                f"--ram must be at least 256MiB, got {self.memory:,} bytes.", code="bad_option"
            )

    @property
    def block(self) -> int:
        """The bytes of a file that are read at once."""
        return self.block_bytes or min(64 << 20, self.memory // 64)

    @property
    def rows(self) -> int:
        """The rows of a run."""
        return self.run_rows or (self.memory - _BASE_BYTES) // _RUN_ROW_BYTES

    @property
    def run_bytes(self) -> int:
        """The bytes of the columns of a run."""
        return self.memory // 8

    def require_shard(self, rows: int, n_shards: int) -> None:
        """Raise if a shard of so many rows cannot be merged in this memory."""
        needed = _BASE_BYTES + rows * _SHARD_ROW_BYTES
        if needed > self.memory:
            wanted = -(-n_shards * needed // self.memory) + 1
            raise ResourceError(
                f"a shard of {rows:,} rows needs {needed / 2**30:.1f} GiB of memory, and --ram "
                f"allows {self.memory / 2**30:.1f}. Make more shards, such as --shards {wanted}, "
                "or allow more memory.",
                code="out_of_memory",
            )
