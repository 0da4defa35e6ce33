"""A generator whose items are shared out among processes, while it follows the discriminator.

Process i mod R has y_i and the vector of item i, and process k mod R has the table of state k.
What is drawn for a context is asked of the owners of tables, and the rows of drawn items are
fetched. The sums over contexts of an item are computed by its owner, and a state's items are moved
by the owner of its table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Health
from sdgar.maths.rng import Draws, tail
from sdgar.models.factors import Factors
from sdgar.samplers import mixtures
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.health import Target, described, perplexity, sampled_contexts
from sdgar.scale.rows import Rows


class OwnedGenerator:
    """Q(i | c) = Σ_k x_ck y_ik, where a process has some of the items and draws of some states.

    Items are called by their places in the rows that were fetched last, or among own rows.
    """

    apart: ClassVar[bool] = True

    def __init__(
        self, generator: Decomposable, factors: Factors, items: Rows, states: Rows
    ) -> None:
        """Follow the scores of ``factors``; these and the generator have own items only."""
        self._of, self._factors = generator, factors
        self._items, self._states = items, states
        self.items_follow, self.workers = generator.items_follow, generator.workers
        self._hold(self._rows_at(np.arange(len(items.own))))

    @property
    def x_UK(self) -> Tensor:
        """P(k | c): the states of each context."""
        return self._of.x_UK

    @property
    def state_of(self) -> AliasTables:
        """The tables that states are drawn from, one for each context."""
        return self._of.state_of

    @property
    def item_of(self) -> AliasTables:
        """The tables that items are drawn from, one for each own state."""
        return self._of.item_of

    def _rows_at(self, places: NDArray[np.integer]) -> Tensor:
        """Return the vector, the bias and the y of own items, one after the other."""
        at = torch.from_numpy(places).long()
        tables = self._factors.item_ID[at], self._factors.bias_I[at, None], self._of.y_IK[at]
        return torch.cat(tables, dim=1)

    def _hold(self, rows_UW: Tensor) -> None:
        dim = self._factors.item_ID.shape[1]
        sizes = [dim, 1, rows_UW.shape[1] - dim - 1]
        parts = (part.contiguous() for part in rows_UW.split(sizes, dim=1))  # type: ignore[no-untyped-call]
        self._item_UD, self._bias_U1, self.y_IK = parts

    def own_items(self) -> Tensor:
        """Go back to own rows, and return the numbers of their items."""
        self._hold(self._rows_at(np.arange(len(self._items.own))))
        return torch.tensor(self._items.own)

    def draw(self, users: Tensor, draws: Draws, slots: Tensor) -> Tensor:
        """Draw items from Q(. | c), fetch their rows, and return their places there."""
        from sdgar.kernels.numba.mixtures import draw_states
        from sdgar.kernels.numba.owned_epoch import open_bins

        bins, n_items = self.item_of.bin_RN.reshape(-1).numpy(), self._items.count
        words_A3 = draw_states(
            self.state_of.bin_RN, users, addresses=draws.rows, slots=slots, seed=draws.seed,
            tail=tail(draws.stream, draws.epoch),
        )  # fmt: skip

        def answer(asked_A3: Tensor) -> Tensor:
            item_A = torch.empty(len(asked_A3), dtype=torch.int32)
            open_bins(asked_A3.numpy(), n_items, bins, item_A.numpy())
            return item_A

        item_A = self._states.ask(words_A3[:, 0].numpy().copy(), words_A3, answer)
        fetched, index_A = self._items.fetch(item_A.numpy().astype(np.int64), self._rows_at)
        self._hold(fetched.rows_UW)
        shape = np.broadcast_shapes(users.shape, draws.rows.shape, slots.shape)
        return torch.from_numpy(index_A).reshape(shape)

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of items whose rows are here."""
        from sdgar.kernels.numba import mixtures as kernels

        tables = self._factors.user_UD, self._item_UD, self._bias_U1[:, 0].contiguous()
        return kernels.score(*tables, users_B, items_BN)

    def log_q(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """log Q(i | c) = log Σ_k x_ck y_ik of items whose rows are here."""
        return mixtures.log_mix(self.x_UK, users_B, self.y_IK, items_BN)

    def set_x(self, weight_UK: Tensor) -> None:
        """Set the states of the contexts, in proportion to these weights."""
        self._of.set_x(weight_UK)

    def deal_x(self, other_U: Tensor) -> None:
        """Give context u the states of context ``other_U[u]``."""
        self._of.deal_x(other_U)

    def set_y(self, weight_IK: Tensor) -> None:
        """Set own columns of Y, in proportion to these weights, and exchange rows with others."""
        tables = AliasTables.of(weight_IK.T)
        y_KI = self._states.across(tables.probability(), self._items)
        self._of.share_items(tables, y_KI.T.contiguous())

    def move_y(self, rule: Callable[[Tensor, Tensor], Tensor], log_d_IK: Tensor) -> None:
        """Set own columns of Y to what the rule makes of them and of those of d."""
        across, states = self._items.across, self._states
        self.set_y(rule(across(self._of.y_IK, states), across(log_d_IK, states)))

    def refit(self, *, seed: int, epoch: int) -> Health:
        """Update X and Y once; where Y moved, return the health of the generator."""
        self._of.update(self, self.score, seed=seed, epoch=epoch)
        if not self.items_follow:
            return Health()
        target = self._of.update.log_target
        kl = None if target is None else self._kl(target, seed, epoch)
        y_KI, tell = self.item_of.probability(), self.workers.told
        own_1 = torch.tensor([perplexity(y_KI, dim=1) * len(y_KI) if len(y_KI) else 0.0])
        y = float(tell(own_1.double()).sum()) / self._states.count
        return described(self.x_UK, y, self._items.count, kl)

    def _kl(self, target: Target, seed: int, epoch: int) -> float:
        """Return the mean over a sample of contexts of Σ_i P log(P/Q), each with own items.

        With t = log P up to a constant, Σ P (t - log Q) - log Σ exp t is added up over processes.
        """
        self.own_items()
        items_I = torch.arange(len(self.y_IK))
        divergences = []
        for users_B in sampled_contexts(len(self.x_UK), self._items.count, seed, epoch):
            t_BI = target(self.score(users_B, items_I.expand(len(users_B), -1))).double()
            log_q_BI = (self.x_UK[users_B] @ self.y_IK.T).log().double()
            log_z_B = t_BI.logsumexp(dim=1)
            mean_B = ((t_BI - log_z_B[:, None]).exp() * (t_BI - log_q_BI)).sum(dim=1)
            log_z_RB, mean_RB = self.workers.told(torch.stack([log_z_B, mean_B])).unbind(dim=1)
            log_z_B = log_z_RB.logsumexp(dim=0)
            divergences.append(((log_z_RB - log_z_B).exp() * mean_RB).sum(dim=0) - log_z_B)
        return float(torch.cat(divergences).mean())
