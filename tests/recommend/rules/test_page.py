"""The page about rules is true: its file can be read, and it names every rule and setting."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sdgar.recommend.rules import Rules
from sdgar.recommend.rules.file import ONCE, REPEATED

PAGE = Path(__file__).parents[3] / "docs" / "rules.md"


def test_the_file_of_the_page_can_be_read():
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(Rules.of(tomllib.loads(text)).rules) == 6


def test_the_table_of_the_page_has_every_rule():
    named = re.findall(r"^\| `\[+(\w+)\]+` \|", PAGE.read_text(), re.MULTILINE)
    assert named == [*REPEATED, *ONCE]
