"""The settings of rules: each is a field of a dataclass, whose type says how a file spells it.

    strength: Annotated[float, number(0, 1)]

is a required setting, and one with a default may be left out. ``parsed`` makes a rule of a table in
a file; an error names the place in the file, the wrong value, and what to write instead.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints

from sdgar.errors import UsageError, did_you_mean
from sdgar.recommend.rules.facts import CATEGORY, moment

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
"""The seconds of each unit of time; a year has 365 days."""
_DURATION = re.compile(rf"(\d{{1,9}}(?:\.\d+)?)({'|'.join(_UNITS)})")
_MOST_BYTES = 16 << 20
"""The maximum size of a file of rules."""
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class RuleField:
    """The type of a setting."""

    read: Callable[[Any], Any]
    """Returns the value of a spelling; a ValueError may hold words to add to the cure."""
    cure: str
    """What to write, as a sentence."""

    def value(self, name: str, spelling: object) -> Any:
        """Return the value of a spelling; raise with the cure if it is wrong."""
        try:
            return self.read(spelling)
        except ValueError as error:
            msg = f"{name} is {shown(spelling)}. {self.cure}{error}"
            raise ValueError(msg) from None


def number(low: float, high: float, *, above: bool = False) -> RuleField:
    """Return the type of numbers from ``low`` to ``high``; ``above`` leaves ``low`` itself out."""

    def read(value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not low <= value <= high or (above and value == low):
            raise ValueError
        return float(value)

    least = f"above {low:g} and at most" if above else f"from {low:g} to"
    return RuleField(read, f"Write a number {least} {high:g}.")


def whole_number(low: int, high: int) -> RuleField:
    """Return the type of whole numbers from ``low`` to ``high``."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError
        return value

    return RuleField(read, f"Write a whole number from {low:,} to {high:,}.")


def choice(*words: str) -> RuleField:
    """Return the type of a setting that is one of some words."""

    def read(value: Any) -> Any:
        if value not in words:
            raise ValueError(did_you_mean(value, words))
        return value

    *most, last = (f'"{word}"' for word in words)
    return RuleField(read, f"Write {', '.join(most)} or {last}.")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def several(value: Any) -> list[Any]:
    """Return the values of a list; a single value needs no brackets."""
    one = isinstance(value, str | Mapping) or not isinstance(value, Iterable)
    return [value] if one else list(value)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(one) for one in several(value))


def _ids(value: Any) -> tuple[str | int, ...]:
    ids = several(value)
    if not all(isinstance(id, str | int) and not isinstance(id, bool) and id != "" for id in ids):
        raise ValueError
    return tuple(ids)


def duration(text: Any) -> float:
    """Return the seconds of a duration such as 90s, 30min, 12h, 7d, 2w or 1y."""
    found = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or float(found[1]) == 0:
        raise ValueError
    return float(found[1]) * _UNITS[found[2]]


def _moment(value: Any) -> float:
    seconds = moment(value)
    if math.isnan(seconds):
        raise ValueError
    return seconds


def _field(value: Any) -> str:
    return CATEGORY if _text(value) == "categories" else value


Name = Annotated[str | None, RuleField(_text, "Write a text in quotation marks.")]
"""The name of a rule, which notes show."""
_FIELD = RuleField(_field, "Write the name of a field of items in quotation marks.")
Field = Annotated[str, _FIELD]
"""The name of a field of items."""
Texts = Annotated[tuple[str, ...], RuleField(_texts, 'Write texts: ["one", "another"].')]
"""One or several texts."""
_IDS = RuleField(_ids, 'Write ids, each a text or a whole number: ["a", "b"] or [1, 2].')
ItemIds = Annotated[tuple[str | int, ...], _IDS]
"""One or several ids of items."""
_DURATIONS = RuleField(duration, 'Write a duration: "90s", "30min", "12h", "7d", "2w" or "1y".')
Duration = Annotated[float, _DURATIONS]
"""A duration in seconds."""
Age = Annotated[float | None, _DURATIONS]
"""The minimum or maximum of an age in seconds, if there is one."""
Moment = Annotated[float | None, RuleField(_moment, "Write a date, such as 2026-03-01.")]
"""A time in seconds since 1970."""


def _settings_of(kind: Any) -> dict[str, RuleField]:
    hints = get_type_hints(kind, include_extras=True)
    extras = {field.name: get_args(hints[field.name])[1:] for field in fields(kind)}
    return {
        name: extra
        for name, found in extras.items()
        for extra in found
        if isinstance(extra, RuleField)
    }


settings_of: Callable[[Any], dict[str, RuleField]] = cache(_settings_of)
"""Return the settings of a dataclass by name: its fields whose type has a ``RuleField``."""


class Rule:
    """A rule of a file: a dataclass whose settings are its fields with a ``RuleField``."""

    __slots__ = ()
    kind: ClassVar[str]
    """The name of its table in a file."""
    repeated: ClassVar[bool] = True
    """Whether a file may have several of them."""

    @property
    def item_ids(self) -> list[str | int]:
        """The ids of items that the rule names."""
        return [item for ids in self._values_of(_IDS) for item in ids]

    @property
    def item_fields(self) -> set[str]:
        """The fields of items that the rule reads."""
        return set(self._values_of(_FIELD))

    def _values_of(self, setting: RuleField) -> list[Any]:
        found = settings_of(type(self)).items()
        return [getattr(self, name) for name, known in found if known is setting]


def parsed(kind: type[Made], place: str, table: object, **others: Any) -> Made:
    """Return an object of a dataclass from its settings in a file, and from its other fields."""

    def wrong(what: str) -> UsageError:
        return UsageError(f"{place}: {what}", code="bad_rules")

    settings = settings_of(kind)
    if not isinstance(table, Mapping):
        raise wrong(f"this must be a table of settings, got {shown(table)}.")
    for name in table:
        if name not in settings:
            near = did_you_mean(name, settings)
            raise wrong(f"there is no setting {name!r}.{near} Settings: {', '.join(settings)}.")
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in settings and field.default is MISSING and field.name not in table:
            raise wrong(f"{field.name} is missing. {settings[field.name].cure}")
    try:
        values = {name: settings[name].value(name, one) for name, one in table.items()}
        return kind(**values, **others)
    except ValueError as error:
        raise wrong(str(error)) from None


def shown(value: object) -> str:
    """Return a value as a short text."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a file of rules."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise UsageError(
                f"the file of rules {path} has {size:,} bytes, more than {_MOST_BYTES:,}. Block "
                "items by a category or a field, rather than one by one.",
                code="bad_rules",
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the file of rules {path} cannot be read ({error.strerror}). Check its name.",
            code="no_rules_file",
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path.name} is not TOML in UTF-8: {error}. Write texts in quotation marks, lists in "
            "square brackets, and begin a rule with a line such as [[boost]].",
            code="bad_rules",
        ) from error
