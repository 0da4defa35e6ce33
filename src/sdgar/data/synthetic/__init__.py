"""Made-up interactions of a chosen shape."""

from sdgar.data.synthetic.drawing import generate, synthetic
from sdgar.data.synthetic.shape import PRESETS, Shape

__all__ = ["PRESETS", "Shape", "generate", "synthetic"]
