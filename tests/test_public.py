"""What the package offers in Python explains itself: examples that run, and words for settings."""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import fields, make_dataclass
from functools import cache

import pytest
from sklearn.base import clone

import sdgar
from sdgar.engines import choose
from sdgar.errors import SdgarWarning
from sdgar.settings import Setting, settings_of
from sdgar.systems.defaults import EarlyStopping
from sdgar.systems.names import SYSTEMS

KINDS = pytest.mark.parametrize("kind", SYSTEMS.values(), ids=SYSTEMS)


def _examples(name: str) -> list[doctest.DocTest]:
    """The examples of a public name, and of the methods of a class."""
    public = getattr(sdgar, name)
    homes = {name: public}
    if inspect.isclass(public):
        homes |= {f"{name}.{n}": m for n, m in inspect.getmembers(public, inspect.isfunction)}
    parser, globs = doctest.DocTestParser(), {"sdgar": sdgar}
    return [
        parser.get_doctest(inspect.getdoc(home) or "", dict(globs), place, None, 0)
        for place, home in homes.items()
        if not place.rpartition(".")[2].startswith("_")
    ]


@cache
def _runs_it() -> dict[str, str]:
    """The one of the public names that runs a text: learners share methods, and their examples."""
    return {test.docstring: name for name in sdgar.__all__ for test in _examples(name)}


@pytest.mark.parametrize("name", sdgar.__all__)
def test_every_public_name_has_an_example_that_is_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SYSTEMS, "_own", {})  # an example makes a system
    # The compiled engines take seconds to compile, and are tested elsewhere.
    monkeypatch.setattr(choose, "FUSED", dict.fromkeys(choose.FUSED, "eager"))
    monkeypatch.setattr(sdgar.show.progress, "_on", None)
    own, *methods = _examples(name)
    assert own.examples, f"sdgar.{name} has no example"
    said: list[str] = []
    for test in (own, *(one for one in methods if _runs_it()[one.docstring] == name)):
        doctest.DocTestRunner().run(test, out=said.append)
    assert not said, "".join(said)


@KINDS
def test_help_explains_every_setting_in_a_sentence(kind):
    shown = inspect.getdoc(kind) or ""
    for setting in settings_of(kind):
        assert re.match(r"[A-Z].*\.$", setting.meaning), f"{kind.__name__}.{setting.name}"
        assert len(setting.meaning.split()) >= 5, f"{kind.__name__}.{setting.name}"
        assert f"{setting.name} : {setting.kind}, default {setting.default!r}" in shown
        assert setting.meaning in shown


def test_help_has_the_equation_of_the_recipe_and_the_settings_of_all_bases():
    shown = inspect.getdoc(sdgar.IALS) or ""
    assert "Σ_{(c,i) ∈ S} w_ci (1 - u_c · v_i)²" in shown
    printed = {s.name: s for s in settings_of(sdgar.SDGARPrinted)}
    assert printed["sampler__target"].default == "linear"
    assert "Eq. 7" in printed["sampler__target"].meaning  # said where the field is first declared


def test_the_settings_of_a_class_without_source_have_no_words():
    own = make_dataclass("Own", [("dim", int, 3)])
    assert settings_of(own) == [Setting("dim", "int", 3, "")]


FACE = {
    "add_items", "evaluate", "explain", "fast", "fit", "fold_in", "get_params", "partial_fit",
    "recommend", "recommender_", "save", "score", "score_pairs", "set_params", "similar_items",
    "similar_users", "thorough", "update",
}  # fmt: skip
"""What an estimator shows besides its settings."""


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_estimator_shows_its_settings_and_few_other_names(system):
    kind = SYSTEMS[system]
    settings = {f.name for f in fields(kind)}
    assert len(settings) <= 16
    shown = {name for name in dir(kind()) if not name.startswith("_")}
    assert shown - settings == FACE
    assert set(inspect.signature(kind).parameters) == settings


def test_presets_are_systems_with_settings():
    assert isinstance(sdgar.SDSoftmax.fast(), sdgar.Quick)
    assert sdgar.SDSoftmax.thorough().dim > sdgar.SDSoftmax().dim
    with pytest.raises(sdgar.SdgarError, match="sdsoftmax"):
        sdgar.BPR.thorough()


def test_quick_says_that_it_ignores_weights():
    rows = sdgar.Interactions.from_arrays(
        ["a", "a", "b", "c"], ["i", "j", "j", "k"], weight=[1.0, 2.0, 1.0, 1.0]
    )
    with pytest.warns(SdgarWarning, match="quick does not use the weights of rows"):
        sdgar.SDSoftmax.fast().fit(rows, verbose=False)


def test_a_group_is_given_as_text_as_a_dict_as_an_object_or_by_nested_names():
    by_name = sdgar.BPR(early_stopping=False, early_stopping__patience=4)
    by_dict = sdgar.BPR(early_stopping={"enabled": False, "patience": 4})
    as_object = sdgar.BPR(early_stopping=EarlyStopping(enabled=False, patience=4))
    for model in (by_name, by_dict, as_object):
        assert model.early_stopping == EarlyStopping(enabled=False, patience=4)
        again = clone(model)
        assert again.get_params() == model.get_params()
    assert by_name.set_params(early_stopping=True).early_stopping.patience == 4
    assert sdgar.BPR().early_stopping.patience == 10  # groups are not shared


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ({"states": 3}, "sampler__states"),
        ({"sampler__state": 3}, "sampler__states"),
        ({"learning_rat": 0.1}, "learning_rate"),
        ({"sampler": {"state": 3}}, "states"),
    ],
)
def test_a_wrong_setting_gets_the_nearest_right_one(wrong, right):
    with pytest.raises(sdgar.SdgarError, match=f"Did you mean '{right}'"):
        sdgar.SDSoftmax(**wrong)
