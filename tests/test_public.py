"""What the package offers in Python explains itself: examples that run, and words for settings."""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import make_dataclass
from functools import cache

import pytest

import sdgar
from sdgar.engines import choose
from sdgar.settings import Setting, settings_of
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
    before = sdgar.show.progress._setting.on
    own, *methods = _examples(name)
    assert own.examples, f"sdgar.{name} has no example"
    said: list[str] = []
    for test in (own, *(one for one in methods if _runs_it()[one.docstring] == name)):
        doctest.DocTestRunner().run(test, out=said.append)
    sdgar.show.progress._setting.on = before
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
