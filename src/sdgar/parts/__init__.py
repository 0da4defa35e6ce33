"""Named parts of systems: discriminators, samplers and objectives, with settings.

Importing this package makes the built-in parts known by their names.
"""

from sdgar.parts import discriminators, objectives, samplers

__all__ = ["discriminators", "objectives", "samplers"]
