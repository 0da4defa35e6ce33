"""``python -m sdgar`` is ``sdgar``."""

from sdgar.cli.main import command

command()
