"""The kinds of models by the names that saved models have for them."""

from __future__ import annotations

from sdgar.models.encoded_factors import EncodedFactors
from sdgar.models.factors import Factors
from sdgar.models.field_factors import FieldFactors
from sdgar.models.item_vectors import ItemVectors
from sdgar.models.item_weights import ItemWeights, LocalItemWeights, SparseItemWeights
from sdgar.models.model import Model
from sdgar.models.network import ModuleScores
from sdgar.models.sum import Sum

_ALL: tuple[type[Model], ...] = (
    Factors, FieldFactors, EncodedFactors, ItemWeights, SparseItemWeights,
    LocalItemWeights, ItemVectors, ModuleScores, Sum,
)  # fmt: skip
KINDS: dict[str, type[Model]] = {model.kind: model for model in _ALL}
"""The class of each kind of model; ``KINDS[kind].from_saved`` makes a saved model again."""
