"""The pages on the code: links of the glossary, and the layers and files of the architecture."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_word_has_a_link_and_every_link_leads_somewhere():
    words = re.findall(r"^\| \*\*(.+?)\*\* \| (.*) \|$", GLOSSARY.read_text(), re.MULTILINE)
    assert words
    for word, meaning in words:
        links = re.findall(r"\]\(([^)]+)\)", meaning)
        assert links, word
        for link in links:
            path, _, anchor = link.partition("#")
            assert (GLOSSARY.parent / path).exists(), (word, link)
            assert not anchor or anchor in anchors(GLOSSARY.parent / path), (word, link)


def test_the_layers_are_those_of_the_linter():
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    shown = re.search(r"^## The layers.*?```\n(.*?)```", ARCHITECTURE.read_text(), re.DOTALL | re.M)
    assert shown
    assert shown[1].splitlines() == layers


@pytest.mark.parametrize("page", [ARCHITECTURE, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_every_file_that_is_named_exists(page):
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]*(?:\.py)?)`", page.read_text())
    assert len(named) > 10
    for path in named:
        assert any((root / path).exists() for root in (ROOT, ROOT / "src", ROOT / "src/sdgar")), (
            path
        )
