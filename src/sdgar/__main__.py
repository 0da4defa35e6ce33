"""The process of ``sdgar`` and of ``python -m sdgar``.

Ctrl-C is handled before anything else is imported.
"""

from __future__ import annotations

import os
from types import FrameType

try:
    import signal
except KeyboardInterrupt:  # this import alone takes milliseconds
    os._exit(130)


def command() -> None:
    """Run the command line as this process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave_at_once)
    from sdgar.cli.main import run_process

    run_process(leave_at_once)


def leave_at_once(number: int, frame: FrameType | None) -> None:
    """End the process as an interrupted one; nothing is written that would be left unfinished."""
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    command()
