"""What the tests of the page do again and again."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

NAMES = ".ranked .entry-name > a"
"""The names of the entries of a list."""


def named(one: dict[str, Any]) -> str:
    """Return the name of an item or a user on the page."""
    return one.get("name") or str(one.get("item", one.get("id")))


def spelled(id: str | int) -> str:
    """Write an id as an address of the page has it."""
    text = json.dumps(id) if isinstance(id, str) and re.fullmatch(r"-?\d+|\".*", id) else str(id)
    return quote(text, safe="")


def until(page: Any, holds: str, arg: Any = None) -> None:
    """Wait until something holds. (Playwright's own way needs eval, which the page forbids.)"""
    for _ in range(400):
        if page.evaluate(holds, arg):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"it never held: {holds}")


def settled(page: Any) -> None:
    """Wait until nothing is on its way."""
    page.wait_for_selector("h1")
    until(
        page,
        "!document.querySelector('[aria-busy=true], .skeleton') && "
        "document.getAnimations().every((one) => one.playState !== 'running')",
    )


def names(page: Any) -> list[str]:
    return page.locator(NAMES).all_text_contents()


def changed(page: Any, before: list[str]) -> list[str]:
    """Wait until the list is another one."""
    until(
        page,
        "([which, old]) => JSON.stringify([...document.querySelectorAll(which)]"
        ".map((one) => one.textContent)) !== JSON.stringify(old) && "
        "!document.querySelector('.panel-body[aria-busy=true]')",
        [NAMES, before],
    )
    settled(page)
    return names(page)


def axe_finds_nothing(page: Any) -> None:
    """Check the page for violations of accessibility with axe-core."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core").Axe()
    found = axe.run(page).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
