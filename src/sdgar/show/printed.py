"""Text for people: what a terminal shows of it, and commands that a shell takes as they are meant.

Ids, names of columns and files, and texts of other libraries come from anywhere. On a screen they
must neither move the cursor nor turn the direction of a line, and in a command that is pasted they
must stay words. Both rules are here, and nowhere else.
"""

from __future__ import annotations

import html
import os
import shlex
import unicodedata
from pathlib import Path

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, marks of direction and others without a shape, lone surrogates, line ends."""
_JOINERS = "\u200c\u200d"
"""Shape letters and emoji, and move nothing."""


class _Shown(dict[int, str]):
    """What stands for each character; found once for each."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        hidden = unicodedata.category(character) in _HIDDEN and character not in _JOINERS
        self[code] = repr(character)[1:-1] if hidden else character
        return self[code]


_SHOWN = _Shown()


def visible(text: str) -> str:
    """The text with an escape in the place of every character that has no shape of its own."""
    return text if text.isprintable() else text.translate(_SHOWN)


def visible_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return "\n".join(map(visible, text.split("\n")))


def command(*words: object) -> str:
    """A line for a shell that passes on exactly these words, whatever they hold."""
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
    """What says in a few lines what it is: at a prompt, and in a notebook as HTML."""

    __slots__ = ()

    def _lines(self) -> list[str]:
        """A title, and at most four lines about it; no array is among them."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join(map(visible, self._lines()))

    def _repr_html_(self) -> str:
        title, *more = (html.escape(visible(line)) for line in self._lines())
        return "<br>".join((f"<strong>{title}</strong>", *more))
