"""The glossary: every word leads to a place where it is met."""

from __future__ import annotations

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"


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
