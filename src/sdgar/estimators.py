"""Models in scikit-learn's manner: hyper-parameters in the constructor, ``fit`` returns self.

Fitted attributes end in an underscore. Nothing is checked before ``fit``, so that
``get_params``, ``set_params`` and scikit-learn's ``clone`` work on any values.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_type_hints

import sdgar
from sdgar import composed, cores, systems
from sdgar.artifact import Artifact
from sdgar.contracts import Model, System
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import plain
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.errors import DataError, UsageError, unknown_name
from sdgar.evaluation.popularity import popularity
from sdgar.evaluation.report import Report
from sdgar.recommender import Histories, Raw, Recommender
from sdgar.rng import check_seed
from sdgar.training import protocols
from sdgar.training.checkpoint import Checkpoints
from sdgar.training.fit import FitOptions
from sdgar.training.protocols import OnPhase, Trained
from sdgar.yardsticks import ease, ials, item_knn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    import torch


@dataclass(kw_only=True, eq=False)
class Estimator:
    """What every model shares: parameters, recommending, saving."""

    system_name: ClassVar[str] = ""
    computed_by: ClassVar[str] = "counting"
    """What stands for the engine where there is none."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Hyper-parameters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def plain_params(self) -> dict[str, Any]:
        """The same as JSON has them: a NumPy number becomes the number it is."""
        return {name: _plain(value) for name, value in self.get_params().items()}

    def set_params(self, **params: Any) -> Self:
        """Change hyper-parameters by name."""
        known = [f.name for f in fields(self)]
        for name, value in params.items():
            if name not in known:
                raise unknown_name(f"parameter of {type(self).__name__}", name, known)
            setattr(self, name, value)
        return self

    def decided(self, data: Interactions) -> dict[str, float]:
        """The settings that were left to a rule, and what the rule makes of the data."""
        return {}

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        on_epoch: OnPhase | None = None,
    ) -> Self:
        """Learn from interactions."""
        raise NotImplementedError

    @property
    def recommender_(self) -> Recommender:
        """The fitted model."""
        fitted = self.__dict__.get("_recommender")
        if fitted is None:
            raise UsageError(
                f"this {type(self).__name__} is not fitted. Call fit(train) first, or load a saved "
                "model with sdgar.load(path).",
                code="not_fitted",
            )
        return fitted  # type: ignore[no-any-return]

    def recommend(
        self,
        users: Raw | None = None,
        k: int = 10,
        *,
        history: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        exclude_seen: bool = True,
    ) -> Any:
        """The k best items of each user; see :meth:`Recommender.recommend`."""
        return self.recommender_.recommend(
            users, k, history=history, items=items, exclude=exclude, exclude_seen=exclude_seen
        )

    def fold_in(self, histories: Histories, *, skip_unknown: bool = False) -> Recommender:
        """A model for new users, from what they have; see :meth:`Recommender.fold_in`."""
        return self.recommender_.fold_in(histories, skip_unknown=skip_unknown)

    def similar_items(self, items: Raw, k: int = 10) -> Any:
        """The k most similar items; see :meth:`Recommender.similar_items`."""
        return self.recommender_.similar_items(items, k)

    def evaluate(self, test: Interactions, *, ks: tuple[int, ...] = (10, 20, 50)) -> Report:
        """Rank all items for every test user; see :meth:`Recommender.evaluate`."""
        return self.recommender_.evaluate(test, ks=ks)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted model as a folder."""
        return self.recommender_.save(path, overwrite=overwrite)

    def _keep(self, model: Model, train: Interactions, about: dict[str, Any]) -> None:
        self.__dict__["_recommender"] = Recommender(
            Artifact(
                model=model,
                users=train.users,
                items=train.items,
                history=train.history,
                about={
                    "created_by": f"sdgar {sdgar.__version__}",
                    "system": self.system_name,
                    "hyper_parameters": self.plain_params(),
                    "decided": self.decided(train),
                    "data": {"fingerprint": train.fingerprint(), "rows": train.rows.as_dict()},
                    "context": list(train.context),
                    **about,
                },
            )
        )


@dataclass(kw_only=True, eq=False)
class MostPopular(Estimator):
    """Everyone gets the items that most users have: the yardstick of every report."""

    system_name: ClassVar[str] = "popular"

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        on_epoch: OnPhase | None = None,
    ) -> Self:
        """Count the users of each item."""
        self._keep(popularity(train.history, train.n_items, train.fields), train, {})
        return self


@dataclass(kw_only=True, eq=False)
class Yardstick(Estimator):
    """A known model to compare with, computed from all rows at once.

    There are no epochs to choose, so validation rows play no part in ``fit``. The same seed gives
    the same bytes with the same number of threads: iALS and EASE are matrix products, whose order
    of adding up is up to the library.
    """

    device: str = "auto"
    """``auto``, ``cpu`` or ``cuda``."""

    def solve(self, data: Interactions, *, device: torch.device) -> Model:
        """Compute the model."""
        raise NotImplementedError

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        on_epoch: OnPhase | None = None,
    ) -> Self:
        """Compute the model from the interactions."""
        _require_learnable(train)
        composed.require_looks(self, train)
        with cores.torch_threads():
            model = self.solve(train, device=choose_device(self.device))
        self._keep(model, train, {"computed_by": self.computed_by})
        return self


@dataclass(kw_only=True, eq=False)
class ItemKNN(item_knn.ItemKNN, Yardstick):
    """Item-based nearest neighbours, by the cosine of items: a yardstick."""


@dataclass(kw_only=True, eq=False)
class IALS(ials.IALS, Yardstick):
    """Alternating least squares on all pairs: the yardstick for models with vectors."""


@dataclass(kw_only=True, eq=False)
class EASE(ease.EASE, Yardstick):
    """Every item predicted from the others by least squares: a yardstick for small catalogues."""


@dataclass(kw_only=True, eq=False)
class Learner(Estimator):
    """A model trained by the one loop, with early stopping on validation rows."""

    epochs: int = 200
    """Most passes over the training positives."""
    evaluate_every: int = 5
    """Epochs between looks at the validation rows."""
    patience: int = 3
    """Looks without a gain before training stops."""
    early_stopping: bool = True
    """Choose the number of epochs on validation rows; otherwise run ``epochs``."""
    seed: int = 0
    """Fixes everything that is drawn."""
    engine: str = "auto"
    """``auto`` or the name of an engine."""
    device: str = "auto"
    """``auto``, ``cpu`` or ``cuda``."""

    def compose(
        self, data: Interactions, *, seed: int, device: torch.device = systems.CPU
    ) -> System:
        """Make the parts of the system."""
        raise NotImplementedError

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        refit: bool = False,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Self:
        """Learn from interactions.

        With ``valid`` the epoch is chosen on it and the best weights are kept; ``refit=True``
        then trains once more, as long, on both parts. Without ``valid``, 10 % of the rows are
        set aside to choose the number of epochs, and the model is then trained as long on all.
        ``checkpoints`` keep the run while it trains; it goes on from what they have taken up.
        """
        if not self.early_stopping and valid is not None:
            if not refit:
                raise UsageError(
                    "early_stopping is off, so nothing looks at validation rows. Leave them out, "
                    "or train on them too with refit=True.",
                    code="unused_rows",
                )
            train = train.merge(valid)
        run = self._run(train, on_epoch, checkpoints)
        if not self.early_stopping:
            return self._keep_trained(protocols.fixed(run, train), train)
        if valid is None:
            part = splits.validation(train, seed=self.seed)
            return self._keep_trained(
                protocols.validated(run, part.train, part.held_out, refit_on=train), train
            )
        everything = train.merge(valid) if refit else None
        trained = protocols.validated(run, train, valid, refit_on=everything)
        return self._keep_trained(trained, everything or train)

    def fit_as_the_paper(
        self,
        train: Interactions,
        test: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Self:
        """Choose the epoch on the TEST rows, as the paper's published logs do.

        Only for comparing with its table: the number is optimistic.
        """
        run = self._run(train, on_epoch, checkpoints)
        return self._keep_trained(protocols.paper(run, train, HeldOut.of(test, train)), train)

    def _run(
        self, train: Interactions, on_epoch: OnPhase | None, checkpoints: Checkpoints | None
    ) -> protocols.Run:
        _require_learnable(train)
        _require_plain(self.plain_params())
        composed.require_looks(self, train)
        return protocols.Run(
            recipe=self,
            options=self.fit_options(),
            seed=check_seed(self.seed),
            engine=self.engine,
            device=choose_device(self.device),
            on_epoch=on_epoch,
            checkpoints=checkpoints,
        )

    def fit_options(self) -> FitOptions:
        """The fields that steer the loop, checked."""
        return FitOptions(
            epochs=self.epochs,
            evaluate_every=self.evaluate_every,
            patience=self.patience,
            early_stopping=self.early_stopping,
        )

    def _keep_trained(self, trained: Trained, train: Interactions) -> Self:
        self.trained_ = trained
        self._keep(
            trained.model,
            train,
            {
                "engine": {
                    "name": trained.engine,
                    "why": trained.why,
                    "deterministic": trained.deterministic,
                },
                "generator": trained.generator,
                "seed": self.seed,
                "best_epoch": trained.best_epoch,
                "valid": trained.valid,
            },
        )
        return self


@dataclass(kw_only=True, eq=False)
class BPR(systems.BPR, Learner):
    """Bayesian personalised ranking: one uniform negative a positive, pairwise logistic loss."""

    epochs: int = 300
    """Most passes over the training positives; with one negative a positive, many are needed."""
    patience: int = 10
    """Looks without a gain before training stops; the gains are small and their looks noisy."""


@dataclass(kw_only=True, eq=False)
class AOBPR(systems.AOBPR, Learner):
    """BPR with adaptive oversampling: negatives that rank high in one of the user's factors."""


@dataclass(kw_only=True, eq=False)
class WARP(systems.WARP, Learner):
    """Weighted approximate-rank pairwise loss: draws until one is too close to the positive."""


@dataclass(kw_only=True, eq=False)
class CML(systems.CML, Learner):
    """Collaborative metric learning: points in a unit ball, nearer is better."""


@dataclass(kw_only=True, eq=False)
class DNS(systems.DNS, Learner):
    """Dynamic negative sampling: the hardest of a few uniform negatives."""


@dataclass(kw_only=True, eq=False)
class IRGAN(systems.IRGAN, Learner):
    """A generator with a softmax over all items against a discriminator; either can recommend."""

    evaluate_every: int = 1
    """Epochs between looks at the validation rows; the generator is best early in its game."""


@dataclass(kw_only=True, eq=False)
class SA(systems.SA, Learner):
    """Self-adversarial negative sampling: uniform negatives weighted by their own losses."""


@dataclass(kw_only=True, eq=False)
class SDGAR(systems.SDGAR, Learner):
    """Sampling-decomposable generative adversarial recommender, the paper's system."""


@dataclass(kw_only=True, eq=False)
class SDGARPrinted(systems.SDGARPrinted, Learner):
    """SD-GAR with the generator's equations as printed, whose generator stays uniform."""


@dataclass(kw_only=True, eq=False)
class SDSoftmax(systems.SDSoftmax, Learner):
    """Sampling-decomposable softmax: cosines, softmax over all items, a generator fitted by EM."""


@dataclass(kw_only=True, eq=False)
class Composed(composed.Composed, Learner):
    """Any discriminator with any sampler and any objective, each by its name."""


ESTIMATORS: dict[str, type[Estimator]] = {
    e.system_name: e
    for e in (
        *(MostPopular, ItemKNN, IALS, EASE),
        *(BPR, AOBPR, WARP, CML, DNS, IRGAN, SA, SDGAR, SDGARPrinted, SDSoftmax, Composed),
    )
}
"""By the name that the command line uses."""


def make(
    system: str, settings: Mapping[str, str], *, common: Mapping[str, Any] | None = None
) -> Estimator:
    """An estimator by name, from settings given as text: ``{"dim": "64", "l2": "0.03"}``.

    ``common`` settings, such as the seed, are for those systems that have them.
    """
    if system not in ESTIMATORS:
        raise unknown_name("system", system, ESTIMATORS)
    kind = ESTIMATORS[system]
    types = get_type_hints(kind)
    known = [f.name for f in fields(kind)]
    values = {name: value for name, value in (common or {}).items() if name in known}
    of_parts = {name: text for name, text in settings.items() if "." in name}
    for name, text in settings.items():
        if kind is Composed and name in of_parts:
            continue
        if name not in known or (kind is Composed and name == "settings"):
            raise unknown_name(f"setting of {system}", name, known)
        values[name] = _parse(name, text, types[name])
    made = kind(**values)
    if isinstance(made, Composed):
        typed = {name: _parse(name, t, made.type_of(name)) for name, t in of_parts.items()}
        made.settings = made.settings | typed
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return plain(value)


def _require_plain(params: dict[str, Any]) -> None:
    """Refuse, before any work, what could not be saved with the model."""
    for name, value in params.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise UsageError(
                f"{name} must be a number, a text, true or false, or a table of these, got "
                f"{value!r}.",
                code="bad_setting",
            ) from None


def _parse(name: str, text: str, kind: Any) -> Any:
    if NoneType in get_args(kind):  # a setting that can be left to a rule
        if text.lower() in ("auto", "none"):
            return None
        (kind,) = set(get_args(kind)) - {NoneType}
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name} must be true or false, got {text!r}.", code="bad_setting")
        return text.lower() == "true"
    try:
        return kind(text)
    except ValueError:
        raise UsageError(
            f"{name} must be of type {kind.__name__}, got {text!r}.", code="bad_setting"
        ) from None


def _require_learnable(train: Interactions) -> None:
    """Refuse data from which nobody can learn what is liked better than what."""
    for n, what, code in ((train.n_users, "user", "one_user"), (train.n_items, "item", "one_item")):
        if n < 2:
            raise DataError(
                f"the training data has {n} {what}; learning needs at least 2. Use --system "
                "popular, or more data.",
                code=code,
            )
    if len(train) == train.n_users * train.n_items:
        raise DataError(
            f"all {train.n_users:,} users have all {train.n_items:,} items, so there is no "
            "negative to learn from. Were the ratings below a threshold kept? See --min-rating.",
            code="no_negatives",
        )
