"""Models in scikit-learn's manner: hyper-parameters in the constructor, ``fit`` returns self.

Fitted attributes end in an underscore. Nothing is checked before ``fit``, so that
``get_params``, ``set_params`` and scikit-learn's ``clone`` work on any values.
"""

from __future__ import annotations

import functools
import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
)

import sdgar
from sdgar import composed, systems
from sdgar.contracts import Model, System
from sdgar.data import splits
from sdgar.data.held_out import HeldOut
from sdgar.data.ids import plain
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.errors import DataError, SdgarWarning, UsageError, unknown_name
from sdgar.evaluation.popularity import popularity
from sdgar.evaluation.report import Report, warn_of_known
from sdgar.fold_in import has_rule
from sdgar.machine import cores
from sdgar.machine.memory import require_memory
from sdgar.maths.rng import check_seed
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.recommender import Histories, Raw, Recommender, require_rows
from sdgar.settings import described, of_today, renamed
from sdgar.show import progress
from sdgar.show.printed import Described
from sdgar.training import protocols
from sdgar.training.checkpoint import Checkpoints
from sdgar.training.fit import FitOptions
from sdgar.training.protocols import OnPhase, Trained
from sdgar.yardsticks import ease, ials, item_knn

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    import torch

_Class = TypeVar("_Class", bound=type)


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(kind: _Class) -> _Class:
    """Make a class of settings, which takes names of earlier days and documents its fields."""
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(kind)
    begin = made.__init__

    @functools.wraps(begin)
    def take(self: Any, **settings: Any) -> None:
        begin(self, **renamed(made.system_name, settings))

    made.__init__ = take
    made.__repr__ = Described.__repr__  # a recipe has one of its own, with all settings
    recipe = made.__mro__[1]
    made.__doc__ = described(made, None if issubclass(recipe, Described) else recipe)
    return made  # type: ignore[no-any-return]


@estimator
class Estimator(Described):
    """What every model shares: parameters, recommending, saving."""

    system_name: ClassVar[str] = ""
    computed_by: ClassVar[str] = "counting"
    """What stands for the engine where there is none."""
    uses_weights: ClassVar[bool] = True
    """Whether the weights of rows count."""
    rules: ClassVar[Mapping[str, str]] = {}
    """What each setting follows from that can be left to a rule."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Hyper-parameters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def plain_params(self) -> dict[str, Any]:
        """The same as JSON has them: a NumPy number becomes the number it is."""
        return {name: _plain(value) for name, value in self.get_params().items()}

    def set_params(self, **params: Any) -> Self:
        """Change hyper-parameters by name."""
        known = [f.name for f in fields(self)]
        for name, value in renamed(self.system_name, params).items():
            if name not in known:
                raise unknown_name(f"parameter of {type(self).__name__}", name, known)
            setattr(self, name, value)
        return self

    def decided(self, data: Interactions) -> dict[str, Any]:
        """The settings that were left to a rule, and what the rule makes of the data."""
        return {}

    @property
    def folds_in(self) -> bool:
        """Whether new users can be folded into its models, from what they have."""
        # What is left to a rule of the data will be some number.
        params = {k: 1.0 if v is None else v for k, v in self.plain_params().items()}
        return has_rule({"system": self.system_name, "hyper_parameters": params})

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        on_epoch: OnPhase | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Learn from interactions, and tell of it unless ``verbose`` is False."""
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
        histories: Histories | None = None,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        exclude_seen: bool = True,
        fallback: str = "popular",
    ) -> Any:
        """The k best items of each user; see :meth:`Recommender.recommend`."""
        return self.recommender_.recommend(
            users, k, history=history, histories=histories, items=items, exclude=exclude,
            exclude_seen=exclude_seen, fallback=fallback,
        )  # fmt: skip

    def fold_in(self, histories: Histories, *, skip_unknown: bool = False) -> Recommender:
        """A model for new users, from what they have; see :meth:`Recommender.fold_in`."""
        return self.recommender_.fold_in(histories, skip_unknown=skip_unknown)

    def similar_items(self, items: Raw, k: int = 10, *, fallback: str = "mark") -> Any:
        """The k most similar items; see :meth:`Recommender.similar_items`."""
        return self.recommender_.similar_items(items, k, fallback=fallback)

    def similar_users(self, users: Raw, k: int = 10, *, fallback: str = "mark") -> Any:
        """The k most similar users; see :meth:`Recommender.similar_users`."""
        return self.recommender_.similar_users(users, k, fallback=fallback)

    def score_pairs(self, users: Raw, items: Raw, *, fallback: str = "mark") -> Any:
        """The score of each user for the item beside it; see :meth:`Recommender.score_pairs`."""
        return self.recommender_.score_pairs(users, items, fallback=fallback)

    def evaluate(
        self,
        test: Interactions,
        *,
        ks: tuple[int, ...] = (10, 20, 50),
        histories: Interactions | None = None,
    ) -> Report:
        """Rank all items for every test user; see :meth:`Recommender.evaluate`."""
        return self.recommender_.evaluate(test, ks=ks, histories=histories)

    def score(self, test: Interactions, y: None = None) -> float:
        """The mean NDCG@50 over test users: what early stopping and a search of settings compare.

        ``y`` is there for scikit-learn, and plays no part.
        """
        look = FitOptions()
        return self.evaluate(test, ks=(look.k,)).means()[look.metric]

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted model as a folder."""
        return self.recommender_.save(path, overwrite=overwrite)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of a model before it searches its settings."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether ``fit`` was called."""
        return "_recommender" in self.__dict__

    def _lines(self) -> list[str]:
        """The settings that are not the defaults; once it is fitted, what came of it."""
        usual = type(self)().get_params()
        own = [f"{n}={v!r}" for n, v in self.get_params().items() if v != usual[n]]
        title = f"{type(self).__name__}({', '.join(own)})"
        if not self.__sklearn_is_fitted__():
            return [f"{title}, not fitted yet: call fit(train)"]
        return [f"{title}, fitted", *self.recommender_.summary()]

    def _tell_done(self, seconds: float, verbose: bool | None) -> None:
        """Tell that the model is there."""
        progress.tell(f"{self.system_name} is ready after {seconds:.1f} s", verbose=verbose)

    def _require_sound(self, train: Interactions, valid: Interactions | None) -> None:
        """Refuse parameters and rows of other types, and warn of weights that play no part."""
        types = get_type_hints(type(self))
        for name, value in self.plain_params().items():
            _require_kind(name, value, types[name])
        require_rows("train", train)
        if valid is not None:
            require_rows("valid", valid)
        if train.weight_E is not None and not self.uses_weights:
            warnings.warn(
                f"{self.system_name} does not use the weights of rows: every row counts alike.",
                SdgarWarning,
                stacklevel=3,
            )

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
                    "seen_by": train.seen_by,
                    **about,
                },
                seen=train.seen,
            )
        )


@estimator
class MostPopular(Estimator):
    """Everyone gets the items that most users have: the yardstick of every report.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.MostPopular().fit(data)
    >>> model.recommend([3], k=2)["item"].to_list()
    ['b', 'c']
    """

    system_name: ClassVar[str] = "popular"
    uses_weights: ClassVar[bool] = False

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        on_epoch: OnPhase | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Count the users of each item."""
        self._require_sound(train, valid)
        start = time.perf_counter()
        self._keep(popularity(train.history, train.n_items, train.fields), train, {})
        self._tell_done(time.perf_counter() - start, verbose)
        return self


@estimator
class Yardstick(Estimator):
    """A known model to compare with, computed from all rows at once.

    There are no epochs to choose, so validation rows play no part in ``fit``. The same seed gives
    the same bytes with the same number of threads: iALS and EASE are matrix products, whose order
    of adding up is up to the library.
    """

    device: str = "auto"
    """Where it is computed: auto, cpu or cuda."""

    def solve(self, data: Interactions, *, device: torch.device) -> Model:
        """Compute the model."""
        raise NotImplementedError

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        on_epoch: OnPhase | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Compute the model from the interactions."""
        self._require_sound(train, valid)
        _require_learnable(train)
        composed.require_looks(self, train)
        start, how = time.perf_counter(), f"computing {self.system_name} by {self.computed_by}"
        progress.tell(f"{how} from {train.sizes()}", verbose=verbose)
        with cores.torch_threads():
            model = self.solve(train, device=choose_device(self.device))
        self._keep(model, train, {"computed_by": self.computed_by})
        self._tell_done(time.perf_counter() - start, verbose)
        return self


@estimator
class ItemKNN(item_knn.ItemKNN, Yardstick):
    """Item-based nearest neighbours, by the cosine of items: a yardstick.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.ItemKNN(neighbours=2).fit(data)
    >>> model.similar_items("a", k=1)["item"].to_list()
    ['b']
    """


@estimator
class IALS(ials.IALS, Yardstick):
    """Alternating least squares on all pairs: the yardstick for models with vectors.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.IALS(dim=2).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class EASE(ease.EASE, Yardstick):
    """Every item predicted from the others by least squares: a yardstick for small catalogues.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.EASE(l2=1.0).fit(data)
    >>> model.recommend(history=["a"], k=1)["item"].to_list()  # someone new
    ['b']
    """


@estimator
class Learner(Estimator):
    """A model trained by the one loop, with early stopping on validation rows."""

    epochs: int = 200
    """The most passes over the training positives."""
    evaluate_every: int = 5
    """How many epochs lie between two looks at the validation rows."""
    patience: int = 3
    """How many looks at the validation rows may bring no gain before training stops."""
    early_stopping: bool = True
    """Whether the number of epochs is chosen on validation rows; otherwise all epochs are run."""
    metric: str = "ndcg@50"
    """The metric that the best epoch is best at: precision, recall, ndcg, mrr, map or hit, followed
    by @ and the length of the lists."""
    seed: int = 0
    """The seed fixes everything that is drawn."""
    engine: str = "auto"
    """What runs the epochs: auto, fused-cpu, fused-gpu or eager."""
    device: str = "auto"
    """Where it is computed: auto, cpu or cuda."""

    def compose(
        self, data: Interactions, *, seed: int, device: torch.device = systems.CPU
    ) -> System:
        """Make the parts of the system."""
        raise NotImplementedError

    def least_bytes(self, data: Interactions) -> int:
        """Memory that training takes in any case."""
        raise NotImplementedError

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        refit: bool = False,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Learn from interactions, and show how far it is unless ``verbose`` is False.

        With ``valid`` the epoch is chosen on it and the best weights are kept; ``refit=True``
        then trains once more, as long, on both parts. Without ``valid``, 10 % of the rows are
        set aside to choose the number of epochs, and the model is then trained as long on all.
        ``checkpoints`` keep the run while it trains; it goes on from what they have taken up.

        ``on_epoch`` is called after every epoch, with "choose" while the number of epochs is
        chosen or "final" while the model that is kept is trained, and with the epoch's record:
        its number ``epoch``, its ``loss``, and the NDCG@50 on validation rows, ``metric``, which
        is None unless this epoch had a look at them.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> losses = []
        >>> model = sdgar.BPR(epochs=3, early_stopping=False)
        >>> model = model.fit(data, on_epoch=lambda phase, record: losses.append(record.loss))
        >>> len(losses)
        3
        """
        self._require_sound(train, valid)
        if not self.early_stopping and valid is not None:
            if not refit:
                raise UsageError(
                    "early_stopping is off, so nothing looks at validation rows. Leave them out, "
                    "or train on them too with refit=True.",
                    code="unused_rows",
                )
            train = train.merge(valid)
        run = self._run(train, checkpoints)
        everything = train
        if self.early_stopping and valid is not None:
            held_out = HeldOut.of(valid, train)
            warn_of_known(held_out, held_out.left_out(train))
            everything = train.merge(valid) if refit else train
        with self._told(run, train, on_epoch, verbose):
            if not self.early_stopping:
                trained = protocols.fixed(run, train)
            elif valid is None:
                part = splits.validation(train, seed=self.seed)
                trained = protocols.validated(run, part.train, part.held_out, refit_on=train)
            else:
                again = everything if refit else None
                trained = protocols.validated(run, train, valid, refit_on=again)
        return self._keep_trained(trained, everything, verbose)

    def fit_as_the_paper(
        self,
        train: Interactions,
        test: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Choose the epoch on the TEST rows, as the paper's published logs do.

        Only for comparing with its table: the number is optimistic.
        """
        self._require_sound(train, None)
        require_rows("test", test)
        run = self._run(train, checkpoints)
        with self._told(run, train, on_epoch, verbose):
            trained = protocols.paper(run, train, HeldOut.of(test, train))
        return self._keep_trained(trained, train, verbose)

    def fit_all(
        self,
        everything: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Train anew for the number of epochs that was chosen before, on all rows.

        This is for after a measurement, when the rows that it was made on can be learned from too.
        ``trained_`` then still says how the number of epochs was chosen.
        """
        before = self.trained_
        run = self._run(everything, checkpoints)
        run.options = replace(run.options, epochs=before.best_epoch, early_stopping=False)
        with self._told(run, everything, on_epoch, verbose):
            after = protocols.fixed(run, everything, "all")
        seconds = before.seconds.plus(after.seconds)
        if checkpoints is not None:  # whose clock runs from the beginning of the whole run
            seconds = replace(seconds, total=after.seconds.total)
        again = replace(
            before,
            model=after.model,
            log=before.log + after.log,
            generator=after.generator,
            seconds=seconds,
        )
        return self._keep_trained(again, everything, verbose)

    @contextmanager
    def _told(
        self,
        run: protocols.Run,
        train: Interactions,
        on_epoch: OnPhase | None,
        verbose: bool | None,
    ) -> Iterator[None]:
        """Tell of a run while it trains."""
        with progress.training(
            self.system_name,
            train.sizes(),
            run.options.epochs,
            metric=run.options.metric,
            verbose=verbose,
            on_epoch=on_epoch,
        ) as run.on_epoch:
            yield

    def _run(self, train: Interactions, checkpoints: Checkpoints | None) -> protocols.Run:
        _require_learnable(train)
        _require_plain(self.plain_params())
        composed.require_looks(self, train)
        if getattr(self, "dislikes", 0) and train.seen is None:
            raise DataError(
                "there are no dislikes to draw negatives from. Keep ratings of at least some value "
                "(--min-rating 4, min_rating=4): what is rated lower is disliked. Or leave "
                "dislikes out.",
                code="no_dislikes",
            )
        device = choose_device(self.device)
        require_memory(self.system_name, self.least_bytes(train), device)
        return protocols.Run(
            recipe=self,
            options=self.fit_options(),
            seed=check_seed(self.seed),
            engine=self.engine,
            device=device,
            checkpoints=checkpoints,
        )

    def fit_options(self) -> FitOptions:
        """The fields that steer the loop, checked."""
        return FitOptions(
            epochs=self.epochs,
            evaluate_every=self.evaluate_every,
            patience=self.patience,
            early_stopping=self.early_stopping,
            metric=self.metric,
        )

    def _keep_trained(self, trained: Trained, train: Interactions, verbose: bool | None) -> Self:
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
        self._tell_done(trained.seconds.total, verbose)
        return self


@estimator
class BPR(systems.BPR, Learner):
    """Bayesian personalised ranking: one uniform negative a positive, pairwise logistic loss.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.BPR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    epochs: int = 300
    """The most passes over the training positives; with one negative a positive, many are
    needed."""
    patience: int = 10
    """How many looks at the validation rows may bring no gain before training stops; gains are
    small here, and looks noisy."""


@estimator
class AOBPR(systems.AOBPR, Learner):
    """BPR with adaptive oversampling: negatives that rank high in one of the user's factors.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.AOBPR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class WARP(systems.WARP, Learner):
    """Weighted approximate-rank pairwise loss: draws until one is too close to the positive.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.WARP(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class CML(systems.CML, Learner):
    """Collaborative metric learning: points in a unit ball, nearer is better.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.CML(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class DNS(systems.DNS, Learner):
    """Dynamic negative sampling: the hardest of a few uniform negatives.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.DNS(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class IRGAN(systems.IRGAN, Learner):
    """A generator with a softmax over all items against a discriminator; either can recommend.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.IRGAN(dim=2, pretrain=1, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    evaluate_every: int = 1
    """How many epochs lie between two looks at the validation rows; the generator is best early in
    its game."""


@estimator
class SA(systems.SA, Learner):
    """Self-adversarial negative sampling: uniform negatives weighted by their own losses.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SA(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class SDGAR(systems.SDGAR, Learner):
    """Sampling-decomposable generative adversarial recommender, the paper's system.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SDGAR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class SDGARPrinted(systems.SDGARPrinted, Learner):
    """SD-GAR with the generator's equations as printed, whose generator stays uniform.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SDGARPrinted(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class SDSoftmax(systems.SDSoftmax, Learner):
    """Sampling-decomposable softmax: cosines, softmax over all items, a generator fitted by EM.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = sdgar.SDSoftmax(dim=2, states=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


@estimator
class Composed(composed.Composed, Learner):
    """Any discriminator with any sampler and any objective, each by its name.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> parts = {"discriminator": "metric", "sampler": "uniform", "objective": "cml"}
    >>> model = sdgar.Composed(**parts, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """


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
    common, settings = of_today(system, common or {}), renamed(system, settings)
    values = {name: value for name, value in common.items() if name in known}
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


def _without_none(kind: Any) -> tuple[Any, bool]:
    """The type of a setting, and whether it can be left to a rule."""
    if NoneType not in get_args(kind):
        return kind, False
    (rest,) = set(get_args(kind)) - {NoneType}
    return rest, True


def _require_kind(name: str, value: Any, kind: Any) -> None:
    """Refuse a value of another type; what is an integer is told where its least value is known."""
    kind, optional = _without_none(kind)
    if optional and value is None:
        return
    fits = {
        float: isinstance(value, Real) and not isinstance(value, bool),
        bool: isinstance(value, bool) or value in (0, 1),
        str: isinstance(value, str),
    }.get(kind, kind is int or isinstance(value, dict))
    if not fits:
        what = getattr(kind, "__name__", "dict")
        raise UsageError(f"{name} must be of type {what}, got {value!r}.", code="bad_setting")


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
    kind, optional = _without_none(kind)
    if optional and text.lower() in ("auto", "none"):
        return None
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name} must be true or false, got {text!r}.", code="bad_setting")
        return text.lower() == "true"
    try:
        return kind(text)
    except ValueError:
        such = " A whole number is written as 32." if kind is int else ""
        raise UsageError(
            f"{name} must be of type {kind.__name__}, got {text[:60]!r}.{such}", code="bad_setting"
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
