"""The names that custom parts and systems can import; this list stays stable.

from sdgar.extend import Factorized, Negatives, Static, redraw_known, register_sampler
"""

from sdgar.contracts import (
    Discriminator,
    Health,
    KnownPositives,
    Negatives,
    Objective,
    Positives,
    Sampler,
    Score,
    System,
)
from sdgar.data.interactions import Interactions
from sdgar.maths.rng import Draws
from sdgar.parts import (
    DISCRIMINATORS,
    OBJECTIVES,
    SAMPLERS,
    Ingredients,
    register_discriminator,
    register_objective,
    register_sampler,
)
from sdgar.samplers.static import Static, redraw_known
from sdgar.systems.base import Estimator, register_system
from sdgar.systems.defaults import RATES, STEPS, Choice, Range, Space
from sdgar.systems.learner import Factorized, Learner
from sdgar.systems.solver import Solver

__all__ = [
    "DISCRIMINATORS",
    "OBJECTIVES",
    "RATES",
    "SAMPLERS",
    "STEPS",
    "Choice",
    "Discriminator",
    "Draws",
    "Estimator",
    "Factorized",
    "Health",
    "Ingredients",
    "Interactions",
    "KnownPositives",
    "Learner",
    "Negatives",
    "Objective",
    "Positives",
    "Range",
    "Sampler",
    "Score",
    "Solver",
    "Space",
    "Static",
    "System",
    "redraw_known",
    "register_discriminator",
    "register_objective",
    "register_sampler",
    "register_system",
]
