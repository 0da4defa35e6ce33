"""Options of a training on shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli.options.columns import bytes_of
from sdgar.errors import UsageError

_OF_SHARDS = ("memory", "together", "test_users", "workers", "items", "gpu_memory")
"""The parameters that mean something for shards only."""
_NOT_OF_SHARDS = (
    "test", "valid", "split", "keep", "earlier", "vanished", "replace_if", "user_features",
    "item_features", "feature_kinds", "dislikes",
)  # fmt: skip
"""The parameters that training on shards has no use for."""

Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="BYTES",
        help="Train on shards within so much memory, as 4GiB or 800MiB.",
    ),
]
Together = Annotated[
    int,
    typer.Option(
        "--together",
        metavar="N",
        help="Have the users of so many shards in memory at once, which is part of what the "
        "model depends on.",
    ),
]
TestUsers = Annotated[
    int,
    typer.Option(
        "--test-users",
        metavar="N",
        help="Measure a model that is trained on shards on the rows of so many users.",
    ),
]

WorkerCount = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        help="Train on shards by so many processes of this machine, which give the model of one; "
        "for several machines, start the command with torchrun instead.",
    ),
]

GpuMemory = Annotated[
    str | None,
    typer.Option(
        "--gpu-memory",
        metavar="BYTES",
        help="Train on shards within so much memory of the GPU, as 16GiB; the default is all that "
        "is free.",
    ),
]


def shards_among(files: Sequence[Any]) -> Path | None:
    """Return the folder of shards that is trained on; None if files are."""
    from sdgar.scale.shards import is_shards

    found = [file for file in files if isinstance(file, Path) and is_shards(file)]
    if found and len(files) > 1:
        raise UsageError(
            f"{found[0]} is a folder of shards, which stands alone. Shard all events together: "
            "sdgar data shard EVENTS… --out FOLDER.",
            code="several_inputs",
        )
    return found[0] if found else None


def require_for_shards(given: Mapping[str, str], *, sharded: bool) -> None:
    """Refuse options that mean nothing for shards, or nothing without them."""
    why = "files of events are read as a whole" if not sharded else "shards are trained on"
    for name in _NOT_OF_SHARDS if sharded else _OF_SHARDS:
        if name in given:
            raise UsageError(
                f"{given[name]} has no meaning where {why}. Leave it out.", code="unused_option"
            )


def of_shards(
    folder: Path | None, memory: str, together: int, test_users: int, gpu_memory: str | None
) -> dict[str, int] | None:
    """Return how training on shards goes; None if files of events are trained on."""
    if folder is None:
        return None
    told = {"together": together, "test_users": test_users}
    told["memory"] = bytes_of("--memory", memory)
    if gpu_memory is not None:
        told["gpu_memory"] = bytes_of("--gpu-memory", gpu_memory)
    return told
