"""Make text safe to show on a terminal, and commands safe to paste into a shell.

Ids, names of columns and files, and texts of other libraries come from anywhere. On a screen they
must neither move the cursor nor turn the direction of a line, and in a command that is pasted they
must stay words. Both rules are here, and nowhere else.
"""

from __future__ import annotations

import functools
import html
import os
import shlex
import unicodedata
from pathlib import Path

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""The Unicode categories of control characters, direction marks, surrogates and line ends."""
_JOINERS = "\u200c\u200d"
"""Two characters that join letters and emoji, and move nothing."""


@functools.cache
def _shown(character: str) -> str:
    """Return the text that is shown for a character."""
    hidden = unicodedata.category(character) in _HIDDEN and character not in _JOINERS
    return repr(character)[1:-1] if hidden else character


def visible(text: str) -> str:
    """Return the text with an escape for every character that is not visible by itself."""
    return text if text.isprintable() else "".join(map(_shown, text))


def command(*words: object) -> str:
    """Return a line for a shell that passes on exactly these words, whatever they hold."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: object) -> str:
    text = str(word)
    if isinstance(word, Path) and text.startswith("-"):
        text = f"./{text}"  # or it would be an option
    if visible(text) == text:
        return shlex.quote(text)
    plain = (
        chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\{b:03o}" for b in os.fsencode(text)
    )
    return f"$'{''.join(plain)}'"


class Described:
    """A value that describes itself in a few lines at a prompt, and as HTML in a notebook."""

    __slots__ = ()

    def _lines(self) -> list[str]:
        """Return a title and at most four lines about the value; no array is among them."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join(map(visible, self._lines()))

    def _repr_html_(self) -> str:
        title, *more = (html.escape(visible(line)) for line in self._lines())
        return "<br>".join((f"<strong>{title}</strong>", *more))
