"""The base class of all systems: settings by name, training, recommending, measuring and saving.

Systems follow scikit-learn's manner: settings in the constructor (``parameters.py``), ``fit``
returns self, and fitted attributes end in an underscore. Nothing is checked before ``fit``.

What recommends and measures is imported once a model is fitted, as a system alone needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from sdgar._version import __version__
from sdgar.arguments import one_of
from sdgar.errors import UsageError
from sdgar.recommend.methods import RecommenderMethods
from sdgar.settings import METRIC, VANISHED, flat_settings, nearest_setting, types_of
from sdgar.show.printed import Described
from sdgar.systems.checks import require_rows, require_sound
from sdgar.systems.defaults import Space
from sdgar.systems.names import SYSTEMS
from sdgar.systems.parameters import Parameters, estimator
from sdgar.systems.recipe import SystemSpec

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.data.splits import Split
    from sdgar.models.fold_in import FoldInRule
    from sdgar.models.model import Model
    from sdgar.recommend.recommender import Recommender
    from sdgar.training.fitting import Fit
    from sdgar.training.item_memory import ItemMemorySolver
    from sdgar.training.records import FitOptions, OnPhase, Trained

_Class = TypeVar("_Class", bound=type)


def register_system(name: str, *, searched: Space | None = None) -> Callable[[_Class], _Class]:
    """Register a custom system under a name, for ``--system``, ``compare`` and ``tune``.

    ``searched`` are the settings that ``tune`` searches, with the values it tries; by default it
    searches what it searches of the base class.

    >>> from sdgar.extend import OBJECTIVES, SAMPLERS, Factorized
    >>> @sdgar.register_system("popular-bpr")
    ... class PopularBPR(Factorized):
    ...     '''BPR whose negatives are drawn by popularity.'''
    ...
    ...     def _make_objective(self, given):
    ...         return OBJECTIVES["bpr"](given)
    ...
    ...     def _make_sampler(self, given):
    ...         return SAMPLERS["popularity"](given)
    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> model = PopularBPR(dim=2, epochs=3, early_stopping=False).fit(data)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """

    def register(kind: _Class) -> _Class:
        own: Any = kind
        known: SystemSpec = own._spec
        space = known.searched if searched is None else searched
        own._spec = replace(known, name=name, searched=space)
        made: Any = estimator(own)
        SYSTEMS.add(name, made)
        return made  # type: ignore[no-any-return]

    return register


@estimator
class Estimator(Parameters, RecommenderMethods, Described):
    """The base class of all models: settings, training, recommending, measuring and saving."""

    _spec: ClassVar[SystemSpec] = SystemSpec()

    @classmethod
    def fast(cls) -> Estimator:
        """Return a system that trains in seconds, with most of this one's accuracy."""
        return cls._preset("fast")

    @classmethod
    def thorough(cls) -> Estimator:
        """Return this system with settings that take longer for the last percent of accuracy."""
        return cls._preset("thorough")

    @classmethod
    def _preset(cls, name: str) -> Estimator:
        preset = cls._spec.presets.get(name)
        if preset is None:
            having = [one for one in SYSTEMS.homes if name in SYSTEMS[one]._spec.presets]
            raise UsageError(
                f"{cls._spec.name} has no preset {name}. Use a system that has one: "
                f"{', '.join(having)}.",
                code="no_preset",
            )
        system, settings = preset
        return SYSTEMS[system](**settings)

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        refit: bool = False,
        on_epoch: OnPhase | None = None,
        verbose: bool | None = None,
    ) -> Self:
        """Train on interactions, and show progress unless ``verbose`` is False.

        With ``valid`` the epoch is chosen on it and the best weights are kept; ``refit=True``
        then trains once more, as long, on both parts. Without ``valid``, 10 % of the rows (of at
        most 5,000 users) are set aside to choose the number of epochs, and the model is then
        trained as long on all. Where the learning rate falls, the number of epochs is fixed: the
        first half leaves those rows out, and the second continues with all. Systems without epochs
        are computed from the training rows, and with ``refit=True`` from both parts.

        ``on_epoch`` is called after every epoch, with "choose" while the number of epochs is
        chosen or "final" while the model that is kept is trained, and with the epoch's record:
        its number ``epoch``, its ``loss``, and the NDCG@50 on validation rows, ``metric``, which
        is None if this epoch was not evaluated on them.

        >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> losses = []
        >>> model = sdgar.BPR(epochs=3, early_stopping=False)
        >>> model = model.fit(data, on_epoch=lambda phase, record: losses.append(record.loss))
        >>> len(losses)
        3
        """
        from sdgar.training.fitting import Fit

        require_sound(self, train, valid)
        self._fit(Fit(rows=train, valid=valid, refit=refit, on_epoch=on_epoch, verbose=verbose))
        return self

    def partial_fit(
        self,
        data: Interactions,
        y: None = None,
        *,
        vanished: str = "keep",
        verbose: bool | None = None,
    ) -> Self:
        """Train on the first rows, and with every later call continue with more of them.

        The first call is ``fit``. Later ones continue from the fitted model: users and items that
        it contains keep their vectors, new ones are folded in, and a few epochs follow. The rows
        may be new ones alone or all up to today. Rows that the model has and ``data`` lacks stay;
        ``vanished="drop"`` leaves them out, with users and items that have no others. Systems
        without epochs are computed again. ``y`` is ignored; scikit-learn passes it.

        >>> monday = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
        >>> model = sdgar.BPR(dim=2, epochs=3, early_stopping=False).partial_fit(monday)
        >>> tuesday = sdgar.Interactions.from_arrays([3, 4, 4], ["b", "c", "d"])
        >>> model = model.partial_fit(tuesday)
        >>> sorted(model.recommend([3], k=2)["item"])
        ['c', 'd']
        """
        from sdgar.training.fitting import Fit

        one_of("vanished", vanished, VANISHED)
        if not self.__sklearn_is_fitted__():
            return self.fit(data, verbose=verbose)
        require_rows("data", data)
        before = self.recommender_
        rows = before.rows_with(data) if vanished == "keep" else data
        require_sound(self, rows)
        self._fit(Fit(rows=rows, protocol="warm", before=before, verbose=verbose))
        return self

    @property
    def _trained_model(self) -> Recommender:
        return self.recommender_

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

    def score(self, test: Interactions, y: None = None) -> float:
        """Return the mean NDCG@50 over test users, which a search of settings can compare.

        ``y`` is ignored; scikit-learn passes it.
        """
        k = int(METRIC.partition("@")[2])
        return self.evaluate(test, ks=(k,)).means()[METRIC]

    # What follows is for subclasses, and for recipes (``systems/recipe.py``).

    def _fit(self, how: Fit) -> None:
        """Train as the record of fitting says, and keep the model."""
        raise NotImplementedError

    def _decided(self, data: Interactions) -> dict[str, Any]:
        """Return the settings that are left to a rule, with the values it gives for the data."""
        return {}

    def _type_of(self, name: str) -> Any:
        """Return the type of a setting by its nested name."""
        types = types_of(type(self))
        if name not in types:
            raise nearest_setting(f"setting of {self._spec.name}", name, types)
        return types[name]

    def _settled(self, data: Interactions) -> Self:
        """Return the same system with nothing left to a rule."""
        return self._changed(**self._decided(data))

    def _fold_rule(self, data: Interactions) -> FoldInRule | None:
        """Return how new users are folded into a model of these rows; None if they cannot be."""
        return None

    def _loop(self) -> FitOptions | None:
        """Return how long the model trains and when it is evaluated; None without epochs."""
        return None

    def _item_memory(self, data: Interactions) -> ItemMemorySolver | None:
        """Return how the item memory is made that is added to the model; None without one."""
        return None

    def _validation(self, data: Interactions, seed: int) -> Split:
        """Return training rows with some of them set aside: the last in time, else some of them."""
        from sdgar.data.splits import validation
        from sdgar.training.records import VALID_USERS

        return validation(data, seed=seed, most_users=VALID_USERS)

    def _n_states(self) -> int:
        """Return the number K of states of the generator; 0 without one."""
        return 0

    def _step(self) -> tuple[str, float]:
        """Return the name of the rule for steps, and the learning rate."""
        raise UsageError(f"{self._spec.name} is computed at once and takes no steps.")

    @property
    def _looks_at_features(self) -> bool:
        """Whether features of users and items change what is learned."""
        return False

    @property
    def _trained_as(self) -> Trained:
        """The model and how it was trained; raise if ``fit`` was not called."""
        self.recommender_  # noqa: B018  raises if it is not fitted
        return self.__dict__["_trained"]  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        """Return the tags by which scikit-learn treats a model when it searches its settings."""
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

    def _show_ready(self, seconds: float, verbose: bool | None) -> None:
        """Show that the model has been trained."""
        from sdgar.show import progress

        progress.report(f"{self._spec.name} is ready after {seconds:.1f} s", verbose=verbose)

    def _keep(self, model: Model, train: Interactions, about: dict[str, Any]) -> None:
        """Keep the fitted model as a recommender, with what is saved about it."""
        from sdgar.recommend.artifact import Artifact
        from sdgar.recommend.recommender import Recommender

        made = Recommender(
            Artifact(
                model=model.ruled_by(self._fold_rule(train)),
                users=train.users,
                items=train.items,
                history=train.history,
                about={
                    "created_by": f"sdgar {__version__}",
                    "system": self._spec.name,
                    "hyper_parameters": self._plain_params(),
                    "decided": self._decided(train),
                    "data": {"fingerprint": train.fingerprint(), "rows": train.account.as_dict()},
                    "context": list(train.context),
                    "seen_by": train.seen_by,
                    **about,
                },
                seen=train.seen,
                seen_neutral_E=train.seen_neutral_E,
            )
        )
        if train.item_features is not None and not self._looks_at_features:
            made = made.add_items(features=train.item_features)
        self.__dict__["_recommender"] = made
