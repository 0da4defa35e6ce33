"""Train IRGAN's generator: on positives first, then by REINFORCE (Wang et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sdgar.arguments import at_least, below_one, not_negative, one_of
from sdgar.contracts import Health, Score
from sdgar.errors import NumericalError, UsageError
from sdgar.maths.optimizers import lean
from sdgar.maths.rng import Draws, Stream, sort_keys
from sdgar.samplers.health import collapsed
from sdgar.samplers.softmax_generator import SoftmaxGenerator, inverse_cdf
from sdgar.settings import Group


@dataclass(frozen=True, kw_only=True)
class PolicySettings(Group):
    """The settings of a generator that learns by policy gradients."""

    pretrain: int = 120
    """How often the generator passes over the contexts to learn from positives, before epoch 1."""
    pretrain_rate: float = 0.01
    """The learning rate of Adam while the generator learns from positives, before epoch 1."""
    learning_rate: float = 0.0001
    """The learning rate of Adam in the updates of the generator; the authors take plain steps, one
    a context."""
    l2: float | None = None
    """The weight λ of the squared norms of the contexts and items that a step of the generator
    draws. Without a value it is 0.8 over the square root of the training rows there are for each
    user and item."""
    batch_size: int = 1024
    """How many contexts one step of the generator learns from."""
    samples: int = 64
    """How many items are drawn for each context to estimate the gradient of the generator; the
    authors take twice the number of its positives."""
    positive_share: float = 0.2
    """The share of samples that is drawn from the positives, with importance weights."""
    reward: str = "sigmoid"
    """The reward of the generator for an item with the discriminator's score g: sigmoid (2σ(g) - 1,
    as in the authors' code) or softplus."""


@dataclass(frozen=True, slots=True)
class Pushes:
    """Pairs of a context and an item, and the amount by which log Q of each should rise."""

    place_R: Tensor
    """The context of each pair, as a row of the scores at hand."""
    item_R: Tensor
    """The item of each pair."""
    push_R: Tensor
    """The amount by which log Q of each pair should rise."""
    share: float
    """The weight of a pair in the penalty."""

    def gradient(self, q_BI: Tensor) -> Tensor:
        """Σ_r push_r ∂ log Q(i_r|c_r)/∂ g(c, j), with ∂ log Q(i|c)/∂ g(c, j) = [i = j] - Q(j|c)."""
        push_B = torch.zeros_like(q_BI[:, 0]).index_add_(0, self.place_R, self.push_R)
        at = (self.place_R, self.item_R)
        return (-push_B[:, None] * q_BI).index_put_(at, self.push_R, accumulate=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient:
    """The update that climbs the expected reward of the proposals, by Adam on batches of contexts.

        Σ_c E_{i ~ Q(.|c)} r(c, i),   r = 2σ(s) - 1 as in the authors' code, or softplus(s)

    The gradient is E (r - b) ∇ log Q for any baseline b. Draws come from a mixture, so that
    positives are among them however unlikely Q finds them (α = 0.2 in the authors' code):

        i_1 … i_S ~ (1 - α) Q(.|c) + α uniform over the positives of c
        ∇ ≈ 1/S Σ_s w_s (r_s - b_s) ∇ log Q(i_s|c),   w = Q / mixture,   b_s = mean_{t≠s} w_t r_t

    The baseline is the mean reward of the context as the other draws see it, which leaves the
    estimate without bias. Q is over all items here, known positives too, and at τ = 1.

    Before the first update ``pretrain`` climbs the likelihood Σ_c Σ_{i ∈ I_c} log Q(i|c) of the
    positives; the authors start from a factorization trained with dynamic negative sampling.
    """

    settings: PolicySettings
    """How fast and from how many draws the generator learns; λ has a value."""

    def __post_init__(self) -> None:
        """Raise if a value cannot learn or be estimated."""
        how = self.settings
        for name in ("learning_rate", "pretrain_rate"):
            rate = getattr(how, name)
            if not 0 < rate < 1e36:
                raise UsageError(
                    f"sampler__{name} must be a positive number below 1e36, got {rate}."
                )
        not_negative("sampler__l2", how.l2)
        at_least("sampler__batch_size", how.batch_size, 1)
        at_least("sampler__samples", how.samples, 2)  # a draw's baseline is the mean of the others
        at_least("sampler__pretrain", how.pretrain, 0)
        below_one("sampler__positive_share", how.positive_share)
        one_of("sampler__reward", how.reward, ("sigmoid", "softplus"))

    def pretrain(self, generator: SoftmaxGenerator, *, seed: int) -> None:
        """Climb the likelihood of the positives."""

        def likelihood(users_B: Tensor, q_BI: Tensor, _: Tensor) -> Pushes:
            place_R, item_R = generator.positives(users_B)
            return Pushes(place_R, item_R, torch.ones_like(place_R, dtype=q_BI.dtype), 1.0)

        rate = self.settings.pretrain_rate
        optimizer = lean(torch.optim.Adam)(generator.model.parameters(), lr=rate)
        for number in range(self.settings.pretrain):
            for users_B in self._batches(generator, seed, 0, number):
                self._step(generator, optimizer, users_B, likelihood)
        self._require_finite(generator, "pretraining", "pretrain_rate")

    def __call__(
        self, generator: SoftmaxGenerator, score: Score, *, seed: int, epoch: int
    ) -> Health:
        """Make one pass over the contexts, before the first epoch over their positives too.

        The health has the mean reward and the spread of the proposals. A perplexity of 1 is a
        generator that proposes one item; of the number of items, one that proposes all alike.
        """
        if epoch == 1:
            self.pretrain(generator, seed=seed)
        rewards, perplexities = [], []

        def policy(users_B: Tensor, q_BI: Tensor, g_BI: Tensor) -> Pushes:
            draws = Draws(seed, Stream.GENERATOR_ITEMS, epoch, users_B[:, None])
            pushes, reward_B = self.estimate(generator, score, users_B, q_BI, draws)
            rewards.append(reward_B)
            perplexities.append(_entropy(q_BI, g_BI).exp())
            return pushes

        for users_B in self._batches(generator, seed, epoch, 0):
            self._step(generator, generator.optimizer, users_B, policy)
        self._require_finite(generator, f"the update before epoch {epoch}", "learning_rate")
        reward, items = float(torch.cat(rewards).mean()), generator.n_items
        perplexity = float(torch.cat(perplexities).mean())
        return Health(
            {"reward": reward, "perplexity": perplexity, "items": float(items)},
            f"Q {perplexity:,.0f}/{items:,} · reward {reward:.2f}",
            collapsed("Q(. | c)", perplexity, items, "Lower sampler__learning_rate"),
        )

    def estimate(
        self, generator: SoftmaxGenerator, score: Score, users_B: Tensor, q_BI: Tensor, draws: Draws
    ) -> tuple[Pushes, Tensor]:
        """Return pushes of i_s by w_s (r_s - b_s) / S, and the mean reward of each context."""
        share, samples = self.settings.positive_share, self.settings.samples
        place_R, item_R = generator.positives(users_B)
        count_B = torch.bincount(place_R, minlength=len(users_B))
        mixed_BI = (1 - share) * q_BI
        mixed_BI[place_R, item_R] += share / count_B[place_R]
        high_BS, low_BS, _, _ = draws.words(torch.arange(samples, device=users_B.device))
        place_BS = torch.arange(len(users_B), device=users_B.device)[:, None].expand_as(high_BS)
        items_BS = inverse_cdf(mixed_BI, place_BS, high_BS, low_BS)
        weight_BS = q_BI.gather(1, items_BS) / mixed_BI.gather(1, items_BS)
        s_BS = score(users_B, items_BS)
        reward_BS = 2 * s_BS.sigmoid() - 1 if self.settings.reward == "sigmoid" else softplus(s_BS)
        seen_BS = weight_BS * reward_BS
        baseline_BS = (seen_BS.sum(dim=1, keepdim=True) - seen_BS) / (samples - 1)
        push_BS = weight_BS * (reward_BS - baseline_BS) / samples
        place_R, item_R, push_R = (x_BS.reshape(-1) for x_BS in (place_BS, items_BS, push_BS))
        return Pushes(place_R, item_R, push_R, 1 / samples), seen_BS.mean(dim=1)

    def _step(
        self,
        generator: SoftmaxGenerator,
        optimizer: torch.optim.Optimizer,
        users_B: Tensor,
        pushes_of: Callable[[Tensor, Tensor, Tensor], Pushes],
    ) -> None:
        """Step up mean_c Σ_r [push_r log Q(i_r|c) - share λ/2 (‖u_c‖² + ‖v_i‖² + b_i²)]."""
        model, weight, l2 = generator.model, 1 / len(users_B), self.settings.l2
        assert l2 is not None
        optimizer.zero_grad(set_to_none=True)
        for users_P in generator.pieces(users_B):
            with torch.enable_grad():
                g_PI = generator.logits(users_P)
            q_PI = g_PI.detach().softmax(dim=1)
            pushes = pushes_of(users_P, q_PI, g_PI.detach())
            with torch.enable_grad():
                rows = (
                    model.user_UD[users_P[pushes.place_R]],
                    model.item_ID[pushes.item_R],
                    model.bias_I[pushes.item_R],
                )
                norms = torch.stack([row.square().sum() for row in rows]).sum()
                penalty = 0.5 * l2 * pushes.share * weight * norms
            # First, since PyTorch warns if a GPU's backward pass begins with a matrix product.
            penalty.backward()  # type: ignore[no-untyped-call]
            g_PI.backward(-weight * pushes.gradient(q_PI))  # type: ignore[no-untyped-call]
        optimizer.step()

    def _batches(
        self, generator: SoftmaxGenerator, seed: int, epoch: int, number: int
    ) -> Iterator[Tensor]:
        """Yield contexts with positives in a fresh order each pass; pretraining has epoch 0."""
        users_U = generator.with_positives()
        rows_U = number * len(generator.model.user_UD) + users_U
        order_U = sort_keys(seed, Stream.GENERATOR_CONTEXTS, epoch, rows_U).argsort(stable=True)
        yield from users_U[order_U].split(self.settings.batch_size)  # type: ignore[no-untyped-call]

    def _require_finite(self, generator: SoftmaxGenerator, when: str, rate: str) -> None:
        """Raise if numbers are not finite, as draws from them would be nonsense."""
        for parameter in generator.model.parameters():
            if not bool(torch.isfinite(parameter).all()):
                how = self.settings
                raise NumericalError(
                    f"after {when} the generator holds a number that is not finite: it diverged. "
                    f"Lower sampler__{rate} (now {getattr(how, rate):g}) or raise sampler__l2 (now "
                    f"{how.l2:g}).",
                    code="diverged",
                )


def _entropy(q_BI: Tensor, g_BI: Tensor) -> Tensor:
    """-Σ_i Q_i log Q_i = log Z - Σ_i Q_i g_i, as log Q = g - log Z: one logarithm a context."""
    top_B1, at_B1 = g_BI.max(dim=1, keepdim=True)
    log_z_B = (top_B1 - q_BI.gather(1, at_B1).log())[:, 0]
    entropy_B: Tensor = log_z_B - torch.linalg.vecdot(q_BI, g_BI)
    return entropy_B
