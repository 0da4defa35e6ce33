"""The base class of all systems: settings by name, recommending, measuring and saving.

Systems follow scikit-learn's manner: hyper-parameters in the constructor, ``fit`` returns self, and
fitted attributes end in an underscore. Nothing is checked before ``fit``, so that ``get_params``,
``set_params`` and scikit-learn's ``clone`` work on any values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from sdgar._version import __version__
from sdgar.arguments import one_of
from sdgar.data.features import Features
from sdgar.data.interactions import Interactions
from sdgar.errors import SdgarWarning, UsageError
from sdgar.evaluation.report import Report
from sdgar.models.fold_in import Rule, VectorRule
from sdgar.models.model import Model
from sdgar.recommend.adding import Events
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.explain import One
from sdgar.recommend.histories import Histories
from sdgar.recommend.measuring import Beside, require_rows
from sdgar.recommend.questions import Raw
from sdgar.recommend.recommender import Recommender
from sdgar.recommend.rules import Reranking, Rules
from sdgar.settings import (
    KS,
    VANISHED,
    Group,
    default_of,
    described,
    flat_settings,
    nearest_setting,
    types_of,
)
from sdgar.show import progress
from sdgar.show.printed import Described
from sdgar.systems.checks import plain_value, require_kind
from sdgar.systems.names import SYSTEMS
from sdgar.systems.spaces import Space
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.fit import FitOptions
from sdgar.training.trained import OnPhase, Phase, Trained

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self, Unpack

_Class = TypeVar("_Class", bound=type)


def estimator(kind: _Class) -> _Class:
    """Make the settings of a class parameters of its constructor, and document them."""
    words = kind.__doc__ or kind.__name__
    made: Any = dataclass(kw_only=True, eq=False, repr=False, init=False)(kind)
    made.__doc__ = described(made, words)
    made.__signature__ = Signature(
        [
            Parameter(f.name, Parameter.KEYWORD_ONLY, default=default_of(f), annotation=f.type)
            for f in fields(made)
        ]
    )
    return made  # type: ignore[no-any-return]


def register_system(name: str) -> Callable[[_Class], _Class]:
    """Register a system of your own under a name, for ``--system``, ``compare`` and ``tune``.

    >>> from sdgar.extend import Factorized, objectives, samplers
    >>> @sdgar.register_system("popular-bpr")
    ... class PopularBPR(Factorized):
    ...     '''BPR whose negatives are drawn by popularity.'''
    ...
    ...     def make_objective(self, given):
    ...         return objectives.bpr(given)
    ...
    ...     def make_sampler(self, given):
    ...         return samplers.popularity(given)
    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = PopularBPR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    def register(kind: _Class) -> _Class:
        own: Any = kind
        own.system_name = name
        made: Any = estimator(own)
        SYSTEMS.add(name, made)
        return made  # type: ignore[no-any-return]

    return register


@estimator
class Estimator(Described):
    """The base class of all models: parameters, recommending, measuring and saving."""

    system_name: ClassVar[str] = ""
    computed_by: ClassVar[str] = "counting"
    """The words that stand in place of the name of an engine for models that are computed, not
    trained."""
    uses_weights: ClassVar[bool] = True
    """Whether the weights of rows count in what is learned."""
    searched: ClassVar[Space] = {}
    """The settings that ``sdgar tune`` searches, with the values it tries."""
    looks_at_features: ClassVar[bool] = False
    """Whether features of users and items play a part in what is learned."""
    rules: ClassVar[Mapping[str, str]] = {}
    """The words that say what a rule looks at, for each setting that can be left to a rule."""

    def __init__(self, **settings: Any) -> None:
        for f in fields(cast("Any", self)):
            self.__dict__[f.name] = default_of(f)
        self.set_params(**settings)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a setting; a group can be given as a dict, or by the setting that leads it."""
        group = self.__dict__.get(name)
        self.__dict__[name] = group.taken(name, value) if isinstance(group, Group) else value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; with ``deep`` also those in groups, as sampler__states."""
        whole = {f.name: getattr(self, f.name) for f in fields(cast("Any", self))}
        inner = flat_settings(self) if deep else {}
        return whole | {name: value for name, value in inner.items() if name not in whole}

    def plain_params(self) -> dict[str, Any]:
        """Return all settings by nested names as JSON has them; a NumPy number becomes a number."""
        return {name: plain_value(value) for name, value in flat_settings(self).items()}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; those in groups have nested names, as sampler__states."""
        known = {f.name for f in fields(cast("Any", self))}
        for name in sorted(params, key=lambda name: name not in known):  # groups as a whole first
            group, _, inner = name.partition("__")
            if name in known:
                setattr(self, name, params[name])
                continue
            whole = getattr(self, group) if group in known else None
            if not isinstance(whole, Group) or not whole.accepts(inner):
                raise nearest_setting(
                    f"parameter of {type(self).__name__}", name, flat_settings(self)
                )
            setattr(self, group, whole.changed({inner: params[name]}))
        return self

    def changed(self, **settings: Any) -> Self:
        """Return a system that is not fitted, with some settings changed."""
        return type(self)(**self.get_params(deep=False)).set_params(**settings)

    def decided(self, data: Interactions) -> dict[str, Any]:
        """Return the settings that are left to a rule, with the values it gives for the data."""
        return {}

    def left_out(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those values whose settings are left to a rule."""
        own = flat_settings(self)
        return {name: value for name, value in values.items() if own[name] is None}

    def settled(self, data: Interactions) -> Self:
        """Return the same system with nothing left to a rule."""
        return self.changed(**self.decided(data))

    def fold_rule(self, data: Interactions) -> Rule | None:
        """Return how new users are folded into a model that was trained on these rows.

        The answer is None if they cannot be, which is the case here.
        """
        return None

    def check_settings(self) -> None:
        """Raise if a setting is known to be wrong before any data is read."""

    def fit_options(self) -> FitOptions | None:
        """Return how long the model trains and when it looks; None if it is computed at once."""
        return None

    def further_options(self) -> FitOptions | None:
        """Return how long training goes on from an earlier model; None if all is computed anew."""
        return None

    @property
    def folds_in(self) -> bool:
        """Whether new users can be folded into its models, from their histories."""
        return self.fold_rule(_some()) is not None

    @property
    def places_items(self) -> bool:
        """Whether its models can have a place for items without events, by their features."""
        return isinstance(self.fold_rule(_some()), VectorRule)

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
        """Learn from interactions, and print progress unless ``verbose`` is False.

        ``refit=True`` lets the model learn from ``valid`` too, once the epoch is chosen.
        """
        raise NotImplementedError

    def fit_as_the_paper(
        self,
        train: Interactions,
        test: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Learn from ``train``, with the epoch chosen on the TEST rows as the paper does."""
        raise NotImplementedError

    def fit_all(
        self,
        everything: Interactions,
        *,
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Learn from all rows, after a measurement, for as many epochs as were chosen before."""
        raise NotImplementedError

    def require_goes_on(self) -> None:
        """Raise if training cannot go on from an earlier model; computed systems begin anew."""

    def fit_further(
        self,
        rows: Interactions,
        before: Recommender,
        *,
        phase: Phase = "final",
        on_epoch: OnPhase | None = None,
        checkpoints: Checkpoints | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Go on from an earlier model, with all rows that are to be learned from."""
        raise NotImplementedError

    def partial_fit(
        self,
        data: Interactions,
        y: None = None,
        *,
        vanished: str = "keep",
        verbose: bool | None = None,
    ) -> Self:
        """Learn from the first rows, and with every later call go on with more of them.

        The first call is ``fit``. Later ones go on from the model that there is: it keeps what it
        knows of users and items, those that are new are folded in, and a few epochs follow. The
        rows may be new ones alone or all up to today. Rows that the model has and ``data`` lacks
        stay; ``vanished="drop"`` leaves them out, with users and items that have no others. Systems
        without epochs are computed anew. ``y`` is ignored; scikit-learn passes it.

        >>> monday = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.BPR(dim=2, epochs=3, early_stopping=False).partial_fit(monday)
        >>> tuesday = sdgar.Interactions.from_arrays([3, 4, 4], ["b", "c", "d"])
        >>> model = model.partial_fit(tuesday)
        >>> sorted(model.recommend([3], k=2)["item"])
        ['c', 'd']
        """
        one_of("vanished", vanished, VANISHED)
        if not self.__sklearn_is_fitted__():
            return self.fit(data, verbose=verbose)
        require_rows("data", data)
        before = self.recommender_
        rows = before.rows_with(data) if vanished == "keep" else data
        return self.fit_further(rows, before, verbose=verbose)

    @property
    def trained_(self) -> Trained:
        """The model and how it was trained; it is there once ``fit`` was called."""
        self.recommender_  # noqa: B018  says that fit must be called first
        return self.__dict__["_trained"]  # type: ignore[no-any-return]

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
        why: bool = False,
        rules: Rules | Reranking | None = None,
    ) -> Any:
        """Return the k best items of each user; see :meth:`Recommender.recommend`."""
        return self.recommender_.recommend(
            users, k, history=history, histories=histories, items=items, exclude=exclude,
            exclude_seen=exclude_seen, fallback=fallback, why=why, rules=rules,
        )  # fmt: skip

    def explain(
        self,
        user: One | None = None,
        items: Raw | None = None,
        *,
        history: Iterable[Any] | None = None,
        k: int = 10,
        reasons: int = 3,
    ) -> Any:
        """Return what speaks for each item; see :meth:`Recommender.explain`."""
        return self.recommender_.explain(user, items, history=history, k=k, reasons=reasons)

    def fold_in(self, histories: Histories, *, skip_unknown: bool = False) -> Recommender:
        """Return a model for new users, from their items; see :meth:`Recommender.fold_in`."""
        return self.recommender_.fold_in(histories, skip_unknown=skip_unknown)

    def update(self, events: Histories, *, skip_unknown: bool = False) -> Recommender:
        """Return a model that knows of new events; see :meth:`Recommender.update`."""
        return self.recommender_.update(events, skip_unknown=skip_unknown)

    def add_items(
        self,
        events: Events | None = None,
        *,
        features: Features | None = None,
        skip_unknown: bool = False,
    ) -> Recommender:
        """Return a model that knows new items too; see :meth:`Recommender.add_items`."""
        return self.recommender_.add_items(events, features=features, skip_unknown=skip_unknown)

    def similar_items(
        self, items: Raw, k: int = 10, *, by: str = "auto", fallback: str = "mark"
    ) -> Any:
        """Return the k most similar items; see :meth:`Recommender.similar_items`."""
        return self.recommender_.similar_items(items, k, by=by, fallback=fallback)

    def similar_users(self, users: Raw, k: int = 10, *, fallback: str = "mark") -> Any:
        """Return the k most similar users; see :meth:`Recommender.similar_users`."""
        return self.recommender_.similar_users(users, k, fallback=fallback)

    def score_pairs(self, users: Raw, items: Raw, *, fallback: str = "mark") -> Any:
        """Return each user's score for the item beside it; see :meth:`Recommender.score_pairs`."""
        return self.recommender_.score_pairs(users, items, fallback=fallback)

    def evaluate(
        self,
        test: Interactions,
        *,
        ks: tuple[int, ...] = KS,
        seen: Interactions | None = None,
        histories: Interactions | None = None,
        metrics: Sequence[str] | None = None,
        **beside: Unpack[Beside],
    ) -> Report:
        """Rank all items for every test user; see :meth:`Recommender.evaluate`."""
        return self.recommender_.evaluate(
            test, ks=ks, seen=seen, histories=histories, metrics=metrics, **beside
        )

    def score(self, test: Interactions, y: None = None) -> float:
        """Return the mean NDCG@50 over test users, which a search of settings can compare.

        ``y`` is ignored; scikit-learn passes it.
        """
        look = FitOptions()
        return self.evaluate(test, ks=(look.k,)).means()[look.metric]

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted model as a folder."""
        return self.recommender_.save(path, overwrite=overwrite)

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of a model before it searches its settings."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether ``fit`` was called."""
        return "_recommender" in self.__dict__

    def _lines(self) -> list[str]:
        """Return the settings that are not the defaults; once it is fitted, also the result."""
        usual = flat_settings(type(self)())
        own = [f"{n}={v!r}" for n, v in flat_settings(self).items() if v != usual.get(n)]
        title = f"{type(self).__name__}({', '.join(own)})"
        if not self.__sklearn_is_fitted__():
            return [f"{title}, not fitted yet: call fit(train)"]
        return [f"{title}, fitted", *self.recommender_.summary()]

    def _tell_done(self, seconds: float, verbose: bool | None) -> None:
        """Say that the model has been computed."""
        progress.tell(f"{self.system_name} is ready after {seconds:.1f} s", verbose=verbose)

    def _require_sound(self, train: Interactions, valid: Interactions | None) -> None:
        """Raise if settings or rows have a wrong type; warn if weights are not used."""
        types = types_of(type(self))
        for name, value in self.plain_params().items():
            if name in types:  # else it belongs to a part, which checks it
                require_kind(name, value, types[name])
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
        made = Recommender(
            Artifact(
                model=model.ruled_by(self.fold_rule(train)),
                users=train.users,
                items=train.items,
                history=train.history,
                about={
                    "created_by": f"sdgar {__version__}",
                    "system": self.system_name,
                    "hyper_parameters": self.plain_params(),
                    "decided": self.decided(train),
                    "data": {"fingerprint": train.fingerprint(), "rows": train.account.as_dict()},
                    "context": list(train.context),
                    "seen_by": train.seen_by,
                    **about,
                },
                seen=train.seen,
                seen_neutral_E=train.seen_neutral_E,
            )
        )
        if train.item_features is not None and not self.looks_at_features:
            made = made.add_items(features=train.item_features)
        self.__dict__["_recommender"] = made


def _some() -> Interactions:
    """Return a few rows, by which a system says what its models can do."""
    return Interactions.from_arrays(["a", "a", "b", "c"], ["i", "j", "j", "k"])
