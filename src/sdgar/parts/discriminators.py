"""The built-in discriminators by name: tables of vectors, and networks."""

from __future__ import annotations

from sdgar.arguments import at_least
from sdgar.discriminators.cosine import Cosine, start
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.discriminators.lightgcn import LightGCN
from sdgar.discriminators.metric import Metric
from sdgar.discriminators.sequence import Sequence
from sdgar.discriminators.two_tower import TwoTower
from sdgar.parts.register import Ingredients, register_discriminator
from sdgar.parts.rules import temperature_of


@register_discriminator("factorization")
def factorization(given: Ingredients) -> MatrixFactorization:
    """Return inner products of the vectors of users and items, and a bias for each item."""
    data = given.data
    return MatrixFactorization(
        data.n_users, data.n_items, given.dim, seed=given.seed, sparse=given.row_wise,
        fields=data.fields,
    )  # fmt: skip


@register_discriminator("cosine")
def cosine(
    given: Ingredients, *, tau: float | None = None, bias: bool = True, sweeps: int = 6
) -> Cosine:
    """Return cosines over a temperature τ, which start from some sweeps of iALS."""
    data = given.data
    made = Cosine(
        data.n_users, data.n_items, given.dim, seed=given.seed,
        tau=temperature_of(data) if tau is None else tau, sparse=given.row_wise, bias=bias,
        drawn=given.start, users_drawn=at_least("sweeps", sweeps, 0) == 0, fields=data.fields,
    )  # fmt: skip
    made = made.to(given.device)
    if given.start:
        start(made, data, sweeps=sweeps)
    return made


@register_discriminator("metric")
def metric(given: Ingredients) -> Metric:
    """Return points in a unit ball, where nearer is better."""
    data = given.data
    return Metric(data.n_users, data.n_items, given.dim, seed=given.seed, sparse=given.row_wise)


register_discriminator("lightgcn")(LightGCN)
register_discriminator("two-tower")(TwoTower)
register_discriminator("sequence")(Sequence)
