"""Any parts together: what fits learns, the rest says why not."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

import sdgar
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import temperature_of
from sdgar.discriminators.lightgcn import LightGCN
from sdgar.errors import ArtifactError, DataError, UsageError
from sdgar.models.network import MODULES
from sdgar.parts import DISCRIMINATORS, KINDS, OBJECTIVES, SAMPLERS, settings_of
from sdgar.samplers.static import Static, Uniform
from sdgar.systems.composed import Composed
from sdgar.systems.make import estimator_from_text
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.fitting import Fit

USERS, ITEMS = 24, 30


@pytest.fixture(scope="module")
def coloured() -> Interactions:
    """A user likes the items of one of three colours, and has most of them, in turn."""
    users, items = np.meshgrid(np.arange(USERS), np.arange(ITEMS), indexing="ij")
    liked = (users % 3 == items % 3) & ((users + items // 3) % 5 > 0)
    pairs = np.nonzero(liked)
    return Interactions.from_arrays(*pairs, time=np.arange(len(pairs[0])))


def fits(discriminator: str, sampler: str, objective: str) -> bool:
    if sampler in ("adaptive", "hardest", "first-violation") and objective in (
        "sdgar",
        "sdsoftmax",
    ):
        return False
    if objective == "warp" and sampler != "first-violation":
        return False
    return not (discriminator == "sequence" and sampler in ("hardest", "first-violation"))


def combinations() -> list[Any]:
    """All parts with all: enough of the valid ones that every two compatible parts meet."""
    parts = [sorted(names) for names in (DISCRIMINATORS, SAMPLERS, OBJECTIVES)]
    found, met = [], set()
    # Similar ones are separated, as in a Latin square, so that few are enough.
    for places in sorted(
        itertools.product(*(range(len(names)) for names in parts)),
        key=lambda places: sum(places) % len(OBJECTIVES),
    ):
        one = [names[place] for names, place in zip(parts, places, strict=True)]
        pairs = set(itertools.combinations(one, 2)) if fits(*one) else set()
        more = bool(pairs) and pairs <= met
        found.append(pytest.param(*one, marks=pytest.mark.exhaustive if more else ()))
        met |= pairs
    return found


@pytest.mark.parametrize(("discriminator", "sampler", "objective"), combinations())
def test_every_combination_trains_or_says_what_does(coloured, discriminator, sampler, objective):
    if sampler == "search":
        pytest.importorskip("faiss")
    model = Composed(
        discriminator=discriminator,
        sampler=sampler,
        objective=objective,
        dim=4,
        epochs=2,
        n_negatives=1 if sampler == "first-violation" else 3,
        early_stopping=False,
        batch_size=64,
        device="cpu",
        engine="eager",  # defines what is right; compiling each combination would take minutes
    )
    if fits(discriminator, sampler, objective):
        model.fit(coloured)
        assert np.isfinite(model.recommender_.factors.user_UD).all()
    else:
        with pytest.raises(UsageError, match=r"[Uu]se sampler|Use that sampler") as refused:
            model.fit(coloured)
        assert refused.value.code == "parts_do_not_fit"


@pytest.mark.parametrize(
    ("rows", "tau"), [(100, 0.5), (8_000, 0.239), (250_000, 0.12), (10**7, 0.12)]
)
def test_few_rows_have_a_higher_temperature(rows, tau):
    assert temperature_of(range(rows)) == tau


def test_a_temperature_that_is_given_holds(coloured):
    assert recipe_of(SDSoftmax()).decided(coloured)["tau"] == temperature_of(coloured)
    by_rule = {"batch_size": 2048, "sampler__positives_per_visit": 2, "item_memory__neighbours": 50}
    assert recipe_of(SDSoftmax(tau=0.2, epochs=3)).decided(coloured) == by_rule
    assert recipe_of(SDSoftmax(tau=0.2)).compose(coloured, seed=0).discriminator.tau == 0.2
    assert recipe_of(SDSoftmax()).compose(coloured, seed=0).discriminator.tau == temperature_of(
        coloured
    )


@pytest.mark.parametrize("discriminator", ["lightgcn", "two-tower", "sequence"])
def test_networks_learn_who_likes_what(coloured, discriminator):
    model = Composed(
        discriminator=discriminator, dim=16, epochs=30, early_stopping=False, batch_size=64,
        learning_rate=0.01, device="cpu", discriminator__tau=0.3,
    )  # fmt: skip
    model.fit(coloured)
    frame = model.recommend(k=2)
    own = [user % 3 == item % 3 for user, item in zip(frame["user"], frame["item"], strict=True)]
    assert np.mean(own) > 0.8  # 2 of the 22 items a user does not have are of the own colour


def test_a_sequence_model_learns_an_order_that_users_cannot_know():
    # Everybody walks the same circle of 40 items from another place, and has the last five steps.
    start = np.arange(120) % 40
    steps = np.arange(6)
    users = np.repeat(np.arange(120), 6)
    items = ((start[:, None] + steps) % 40).reshape(-1)
    last = np.tile(steps == 5, 120)
    train = Interactions.from_arrays(users[~last], items[~last], time=np.tile(steps[:5], 120))
    test = Interactions.from_arrays(users[last], items[last])
    settings = {"dim": 16, "epochs": 20, "early_stopping": False, "batch_size": 64, "device": "cpu"}
    sequence = Composed(
        discriminator="sequence", learning_rate=0.01,
        discriminator__length=5, discriminator__dropout=0.0, **settings,
    )  # fmt: skip
    found = sequence.fit(train).evaluate(test, ks=(1,)).means()["recall@1"]
    assert found > 0.9


@pytest.mark.parametrize("discriminator", ["lightgcn", "sequence", "two-tower"])
def test_the_same_seed_gives_the_same_model_and_another_another(coloured, discriminator):
    def vectors(seed: int) -> np.ndarray:
        torch.rand(seed + 1)  # whatever the caller's own generator has seen
        model = Composed(
            discriminator=discriminator, dim=4, epochs=2, early_stopping=False, seed=seed,
            device="cpu",
        )  # fmt: skip
        return model.fit(coloured).recommender_.factors.user_UD

    assert np.array_equal(vectors(1), vectors(1))
    assert not np.array_equal(vectors(1), vectors(2))


def test_settings_of_parts_are_typed_and_named():
    model = estimator_from_text(
        "composed",
        {"sampler": "search", "discriminator": "lightgcn", "discriminator__layers": "2",
         "sampler__index": "exact", "sampler__explore": "0.5", "dim": "8"},
    )  # fmt: skip
    assert isinstance(model, Composed)
    assert model.discriminator.settings == {"layers": 2}
    assert model.sampler.settings == {"index": "exact", "explore": 0.5}
    assert settings_of("discriminator", "lightgcn") == {"dim": int, "layers": int, "tau": float}
    for settings, message in (
        ({"discriminator__layers": "two", "discriminator": "lightgcn"}, "int"),
        ({"discriminator__hops": "2"}, "hops"),
        ({"layers.discriminator": "2"}, "layers.discriminator"),
        ({"discriminator": "gnn", "discriminator__layers": "2"}, "gnn"),
        ({"settings": "{}"}, "settings"),
    ):
        with pytest.raises(UsageError, match=message):
            estimator_from_text("composed", settings)


@pytest.fixture
def own_parts(monkeypatch):
    """Registers are left as they were."""
    for register in KINDS.values():
        monkeypatch.setattr(register, "_own", {})
    known = dict(MODULES)
    yield
    MODULES.clear()
    MODULES.update(known)


@pytest.mark.usefixtures("own_parts")
def test_own_parts_are_used_by_name(coloured):
    @sdgar.register_discriminator("additive")
    class Additive(torch.nn.Module):
        def __init__(self, n_users, n_items, *, scale: float = 1.0):
            super().__init__()
            self.scale = scale
            self.user = torch.nn.Embedding(n_users, 3)
            self.item = torch.nn.Embedding(n_items, 3)

        def score(self, users_B, items_BN):
            return self.scale * (self.user(users_B)[:, None] * self.item(items_BN)).sum(2)

        def vectors(self):
            return self.scale * self.user.weight, self.item.weight

    seen = []

    @sdgar.register_sampler("first")
    def first(making, *, shout: bool = False):
        class First(Static):
            def sample(self, positives, n):
                seen.append(shout)
                return Uniform().sample(positives, n)

        return First()

    model = Composed(
        discriminator="additive", sampler="first", objective="bpr", epochs=40, learning_rate=0.03,
        early_stopping=False, batch_size=64, device="cpu",
        sampler__shout=True, discriminator__scale=2.0,
    )  # fmt: skip
    model.fit(coloured)
    assert seen
    assert all(seen)
    frame = model.recommend(k=1)
    own = [user % 3 == item % 3 for user, item in zip(frame["user"], frame["item"], strict=True)]
    assert np.mean(own) > 0.9
    with pytest.raises(UsageError, match="already"):
        sdgar.register_sampler("uniform")(first)
    with pytest.raises(UsageError, match="already"):
        sdgar.register_discriminator("lightgcn")(Additive)
    assert DISCRIMINATORS["lightgcn"] is LightGCN
    assert sdgar.register_sampler("first")(first) is first  # a cell that is run again

    @sdgar.register_discriminator("heir")
    class Heir(Additive):
        """Without a constructor."""

    assert settings_of("discriminator", "heir") == {"scale": float}


class Crossed(torch.nn.Module):
    """Scores by a network of both vectors together, which come down to no inner product."""

    def __init__(self, n_users: int, n_items: int, *, dim: int = 4, hidden: int = 16) -> None:
        super().__init__()
        self.user = torch.nn.Embedding(n_users, dim)
        self.item = torch.nn.Embedding(n_items, dim)
        self.inner, self.outer = torch.nn.Linear(2 * dim, hidden), torch.nn.Linear(hidden, 1)

    def score(self, users_B, items_BN):
        u_BND = self.user(users_B)[:, None].expand(-1, items_BN.shape[1], -1)
        pair = torch.cat((u_BND, self.item(items_BN)), dim=2)
        return self.outer(torch.relu(self.inner(pair)))[..., 0]

    def score_all(self, users_B):
        items_I = torch.arange(self.item.num_embeddings, device=users_B.device)
        return self.score(users_B, items_I.expand(len(users_B), -1))


@pytest.mark.usefixtures("own_parts")
def test_a_network_without_vectors_trains_ranks_and_comes_back_by_its_name(coloured, tmp_path):
    sdgar.register_discriminator("crossed")(Crossed)
    model = Composed(
        discriminator="crossed", sampler="uniform", objective="bpr", dim=8, epochs=40,
        n_negatives=2, learning_rate=0.02, batch_size=64, device="cpu", early_stopping=False,
        discriminator__hidden=24,
    ).fit(coloured)  # fmt: skip
    frame = model.recommend(k=1)
    own = [user % 3 == item % 3 for user, item in zip(frame["user"], frame["item"], strict=True)]
    assert np.mean(own) > 0.9
    with pytest.raises(UsageError, match="no item vectors"):
        model.similar_items([3])
    with pytest.raises(UsageError, match="cannot be folded"):
        model.fold_in({"new": [0, 3]})
    folder = model.save(tmp_path / "model")
    loaded = sdgar.load(folder)
    assert loaded.recommend(k=3).equals(model.recommend(k=3))
    assert loaded.about["module"] == {
        "name": "crossed", "settings": {"dim": 8, "hidden": 24}, "users": USERS,
    }  # fmt: skip
    del MODULES["crossed"]
    with pytest.raises(ArtifactError, match=r"register_discriminator\('crossed'\)"):
        sdgar.load(folder)
    MODULES["crossed"] = LightGCN
    with pytest.raises(ArtifactError, match="does not fit"):
        sdgar.load(folder)


@pytest.mark.usefixtures("own_parts")
def test_a_network_without_vectors_keeps_its_best_epoch_and_says_what_it_cannot_do(coloured):
    sdgar.register_discriminator("crossed")(Crossed)
    settings = {
        "discriminator": "crossed", "objective": "bpr", "n_negatives": 2, "device": "cpu",
        "batch_size": 64, "epochs": 6, "early_stopping__every": 1, "learning_rate": 0.02,
    }  # fmt: skip
    rows = np.arange(len(coloured)) % 5 > 0
    train, valid = coloured.subset(rows, "most"), coloured.subset(~rows, "some")
    model = Composed(**settings).fit(train, valid)
    best = max(r.metric for _, r in recipe_of(model).trained.log)
    assert recipe_of(model).trained.valid["ndcg@50"] == pytest.approx(best)
    for sampler in ("search", "adaptive"):
        with pytest.raises(UsageError, match="no vectors"):
            Composed(**settings, sampler=sampler).fit(train, valid)


class Stopped(Exception):  # noqa: N818
    pass


@pytest.mark.usefixtures("own_parts")
@pytest.mark.parametrize("discriminator", ["crossed", "sequence"])
@pytest.mark.parametrize("epochs", [3, 8])
def test_a_network_goes_on_after_an_interruption_as_if_there_had_been_none(
    coloured, tmp_path, discriminator, epochs
):
    """Interrupted while it chooses an epoch, and while it trains again on everything."""
    sdgar.register_discriminator("crossed")(Crossed)
    rows = np.arange(len(coloured)) % 5 > 0
    parts = coloured.subset(rows, "most"), coloured.subset(~rows, "some")
    model = Composed(
        discriminator=discriminator, objective="bpr", n_negatives=2, device="cpu", batch_size=64,
        epochs=6, early_stopping__patience=6, early_stopping__every=1, learning_rate=0.02, dim=8,
    )  # fmt: skip
    seen = []

    def interrupt(*_):
        seen.append(None)
        if len(seen) == epochs:
            raise Stopped

    def kept() -> Checkpoints:
        return Checkpoints(tmp_path, {}, device=torch.device("cpu"), every=0.0)

    def fitted(**how) -> Composed:
        most, some = parts
        return recipe_of(model).fit(Fit(rows=most, valid=some, refit=True, **how))

    with pytest.raises(Stopped):
        fitted(on_epoch=interrupt, checkpoints=kept())
    checkpoints = kept()
    assert "resuming" in checkpoints.resume()[-1]
    again = fitted(checkpoints=checkpoints).recommend(k=5)
    whole = model.fit(*parts, refit=True)
    assert again.equals(whole.recommend(k=5))
    if discriminator == "sequence":
        assert model.fold_in({"new": [0, 3]}).users.values.tolist() == ["new"]


def test_a_sequence_model_knows_new_users_by_what_they_had_in_order(coloured, tmp_path):
    model = Composed(
        discriminator="sequence", sampler="uniform", device="cpu", dim=8, epochs=2, batch_size=64,
        early_stopping=False,
    ).fit(coloured)  # fmt: skip
    own = coloured.history.of(7).tolist()  # ids are numbers, and times ascend with them
    known = model.recommend([7], k=8)
    assert model.recommend(history=own, k=8)["item"].to_list() == known["item"].to_list()
    ahead = model.recommend(history=own[:3], k=8)["score"].to_list()
    back = model.recommend(history=own[:3][::-1], k=8)["score"].to_list()
    assert ahead != pytest.approx(back)
    folded = model.fold_in({"a": own, "b": own[::-1]})
    folder = folded.save(tmp_path / "folded")
    program = (
        "import sdgar; model = sdgar.load(__import__('sys').argv[1]);"
        "print(model.recommend(['a'], k=8)['item'].to_list());"
        f"print(model.recommend(history={own}, k=8)['item'].to_list())"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    assert said[0] == said[1] == str(known["item"].to_list())
    untimed = Interactions.from_arrays(["new", "new"], [0, 3])
    with pytest.raises(DataError, match="order"):
        model.fold_in(untimed)


class Prior(torch.nn.Module):
    """Ranks by what prepare() counts."""

    def __init__(self, n_users: int, n_items: int, kept: str = "buffer", dim: int = 4) -> None:
        super().__init__()
        self.kept, self.dim = kept, dim
        self.bias = torch.nn.Parameter(torch.zeros(n_items))
        if kept == "attribute":
            self.count = torch.zeros(n_items)
        else:
            self.register_buffer("count", torch.zeros(n_items if kept == "buffer" else 0))

    def prepare(self, data: Interactions) -> None:
        self.count = torch.from_numpy(np.bincount(data.items_E, minlength=data.n_items)).float()

    def score(self, users_B: torch.Tensor, items_BN: torch.Tensor) -> torch.Tensor:
        return (self.bias + self.count)[items_BN]

    def score_all(self, users_B: torch.Tensor) -> torch.Tensor:
        return (self.bias + self.count).expand(len(users_B), -1)


@pytest.mark.usefixtures("own_parts")
def test_a_network_that_would_not_come_back_is_refused_before_it_trains(coloured, tmp_path):
    sdgar.register_discriminator("prior")(Prior)

    def fitted(kept: str) -> Composed:
        return Composed(
            discriminator="prior", sampler="uniform", objective="bpr", dim=6, epochs=1,
            early_stopping=False, device="cpu", discriminator__kept=kept,
        ).fit(coloured)  # fmt: skip

    with pytest.raises(UsageError, match="rank differently once it is saved"):
        fitted("attribute")
    with pytest.raises(ArtifactError, match="its shape when the class is made"):
        fitted("resized")
    model = fitted("buffer")
    assert (
        recipe_of(model).trained.model.module.dim == 6
    )  # also where it is no keyword-only parameter
    loaded = sdgar.load(model.save(tmp_path / "model"))
    assert loaded.recommend(k=4).equals(model.recommend(k=4))


@pytest.mark.usefixtures("own_parts")
def test_a_network_without_vectors_answers_for_single_contexts(coloured):
    sdgar.register_discriminator("crossed")(Crossed)
    rows = Interactions.from_contexts(
        {"user": coloured.users_E, "half": coloured.items_E % 2}, coloured.items_E
    )
    model = Composed(
        discriminator="crossed", sampler="uniform", objective="bpr", epochs=1, dim=4,
        early_stopping=False, device="cpu",
    ).fit(rows)  # fmt: skip
    everyone = model.recommend(k=2)
    queried = model.recommend([{"user": 5, "half": 1}, {"user": 2, "half": 0}], k=2)
    for user, half in ((5, 1), (2, 0)):
        chosen = (pl.col("user") == user) & (pl.col("half") == half)
        # A network scores two contexts by other matrix products than all: equal up to rounding.
        assert_frame_equal(queried.filter(chosen), everyone.filter(chosen), check_exact=False)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"discriminator": "sequence", "discriminator__dropout": 2.0}, "dropout must"),
        ({"discriminator": "sequence", "dim": 0}, "dim must be an integer of at least 1"),
        ({"discriminator": "lightgcn", "dim": -1}, "dim must be an integer of at least 1"),
        ({"discriminator": "two-tower", "discriminator__hidden": 0}, "hidden must"),
        ({"discriminator": "sequence", "discriminator__blocks": "2"}, "type int"),
        ({"sampler__states": True}, "type int"),
        ({"sampler__lambda_x": 0.3}, "only a generator that follows objective sdgar"),
        (
            {"objective": "sdgar", "discriminator": "factorization", "optimizer": "adagrad",
             "sampler__pretrain": 3},
            "has a closed form",
        ),
    ],
)  # fmt: skip
def test_bad_settings_of_parts_are_refused(coloured, settings, said):
    with pytest.raises(UsageError, match=said):
        Composed(device="cpu", epochs=1, **settings).fit(coloured)


@pytest.mark.usefixtures("own_parts")
def test_settings_are_typed_by_annotation_or_default_and_numpy_numbers_are_numbers(
    coloured, tmp_path
):
    @sdgar.register_sampler("own")
    def _own(making, *, layers: int | None = None, share=0.5, name="x", open_=None):
        return Uniform()

    found = settings_of("sampler", "own")
    assert found == {"layers": int, "share": float, "name": str, "open_": str}
    made = estimator_from_text("composed", {"sampler__layers": "3"}, common={"sampler": "own"})
    assert made.sampler.settings == {"layers": 3}
    model = Composed(
        discriminator="lightgcn", dim=np.int64(4), epochs=1, early_stopping=False, device="cpu",
        n_negatives=np.int32(2), discriminator__layers=np.int64(1),
    ).fit(coloured)  # fmt: skip
    loaded = sdgar.load(model.save(tmp_path / "model"))
    assert loaded.recommend([3], k=5).equals(model.recommend([3], k=5))
    assert loaded.about["hyper_parameters"]["discriminator"] == "lightgcn"
    with pytest.raises(UsageError, match="learning_rate must be"):
        Composed(learning_rate=torch.tensor(0.1)).fit(coloured)


def test_features_of_users_hold_in_all_of_their_contexts_and_are_refused_where_unused(coloured):
    rows = Interactions.from_contexts(
        {"user": coloured.users_E, "half": coloured.items_E % 2}, coloured.items_E
    )
    colours = sdgar.Features.from_columns(
        list(range(USERS)), {"colour": [user % 3 for user in range(USERS)]}
    )
    settings = {"epochs": 1, "early_stopping": False, "device": "cpu", "dim": 4}
    model = Composed(discriminator="two-tower", **settings)
    system = recipe_of(model).compose(rows.with_features(colours, None), seed=0)
    tower = system.discriminator.module.of_users
    assert tower.feature_E.tolist() == [user % 3 for user in rows.user_id_U]
    model.fit(rows.with_features(colours, None))
    stranger = sdgar.Features.from_columns(["x"], {"colour": ["red"]})
    with pytest.raises(DataError, match="none of them is of an id that occurs"):
        model.fit(rows.with_features(stranger, None))
    others = (Composed(discriminator="lightgcn", **settings), sdgar.BPR(epochs=1), sdgar.EASE())
    for other in others:
        with pytest.raises(UsageError, match="looks at no features"):
            other.fit(coloured.with_features(colours, None))


def test_validation_rows_are_never_dropped_in_silence(coloured):
    rows = np.arange(len(coloured)) % 5 > 0
    train, valid = coloured.subset(rows, "most"), coloured.subset(~rows, "some")
    model = sdgar.BPR(epochs=1, early_stopping=False, device="cpu")
    with pytest.raises(UsageError, match="validation rows would not be used"):
        model.fit(train, valid)
    model.fit(train, valid, refit=True)
    assert len(model.recommender_.history.items_E) == len(coloured)


def test_a_named_system_and_its_parts_by_name_give_the_same_model(coloured):
    common = {"epochs": 2, "early_stopping": False, "engine": "eager", "dim": 8, "seed": 3}
    common |= {"batch_size": 64}
    parts = {"discriminator": "cosine", "sampler": "decomposable", "objective": "sdsoftmax"}
    few = {"sampler__states": 4, "sampler__pretrain": 2}
    named = SDSoftmax(sampler__states=4, sampler__pretrain=2, **common).fit(coloured)
    made = Composed(**parts, **few, **common).fit(coloured)
    one, other = (fitted.recommender_.model.to_saved() for fitted in (named, made))
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert np.array_equal(array, other[name]), name
