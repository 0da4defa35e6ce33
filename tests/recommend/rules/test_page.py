"""The page about rules is true: its file can be read, and it names every rule and setting."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sdgar.recommend.rules import Rules
from sdgar.recommend.rules.rules import KINDS
from sdgar.recommend.rules.settings import settings_of

PAGE = Path(__file__).parents[3] / "docs" / "rules.md"


def test_the_file_of_the_page_can_be_read():
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(Rules.of(tomllib.loads(text)).rules) == 6


def test_the_table_of_the_page_has_every_rule_and_setting():
    rows = re.findall(r"^\| `(\[+)(\w+)\]+` \| .* \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert [name for _, name, _ in rows] == list(KINDS)
    for brackets, name, settings in rows:
        assert (brackets == "[[") == KINDS[name].repeated
        for setting in set(settings_of(KINDS[name])) - {"name", "categories", "where"}:
            selects = setting == "items" and "which items" in settings
            assert selects or f"`{setting}" in settings, (name, setting)
