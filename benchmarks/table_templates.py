"""Templates of tables: Markdown with paths into reports in place of numbers.

A section ``## NAME: REPORTS, each of PATH, columns A|B, best in bold`` of a file in
``benchmarks/tables`` has the head of a table, its rows, and a caption. The row below the head is
there for each row of PATH, and cells with ``$`` for each column. ``{peak_bytes / GiB:.1f GiB}`` is
a number of the report, ``{runs[system=bpr; data=$].test:±}`` a mean of some lines.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import add, mul, sub, truediv
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from grids import DATASETS, FURTHER, REPORTS

TEMPLATES = Path(__file__).parent / "tables"
Line = dict[str, Any]
Rows = list[list[str]] | list[Line]
EVERY = DATASETS | FURTHER
NIGHT_SETS = {
    "movielens-100k": "MovieLens-100K",
    "amazon-videogames": "Amazon Video Games",
    "amazon-beauty": "Amazon Beauty",
    "movielens-1m-ordered": "MovieLens-1M",
}
SETS = {
    "all sets": EVERY,
    "main sets": DATASETS,
    "night sets": NIGHT_SETS,
    "sequence sets": {
        "ml-100k": "MovieLens-100K",
        "beauty": "Amazon-Beauty",
        "videogames": "Amazon-VideoGames",
    },
}
"""Groups of data sets that are the rows of a table."""


@dataclass(frozen=True)
class Template:
    """A section of a file of templates."""

    page: str
    name: str
    reports: list[str]
    each: str
    """The path of the rows in the report, or the name of a group of data sets."""
    columns: list[str]
    """What replaces ``$`` in cells, which are repeated for each of these."""
    bold: list[int] | None
    """The columns whose largest number is bold."""
    computed_by: str
    text: str

    def filled(self, functions: Mapping[str, Any]) -> str:
        """Return the table and its caption; functions compute rows, and reports of many files."""
        scope = _scope(self.reports, functions)
        rows = _each(scope, self.each) if self.each else []
        if compute := functions.get(self.computed_by.replace("-", "_")):
            made = compute(scope)
            rows, values = made if isinstance(made, tuple) else (made, {})
            scope = ChainMap(values, scope)
        lines = list(self._lines(scope, rows))
        return "\n".join(lines if self.bold is None else _bold_columns(lines, self.bold))

    def _lines(self, scope: Mapping[str, Any], rows: Rows) -> Iterator[str]:
        before = ""
        for line in map(self._repeated, self.text.splitlines()):
            if before.startswith("|---") and rows and isinstance(rows[0], dict):
                yield from (_filled(line, ChainMap(row, scope)) for row in rows)
            else:
                yield _filled(line, scope)
            if line.startswith("|---") and rows and isinstance(rows[0], list):
                yield markdown(rows)
            before = line

    def _repeated(self, line: str) -> str:
        """Return a line whose neighbouring cells with ``$`` are there once for each column."""
        if "$" not in line or not line.startswith("|"):
            return line
        cells = []
        for varies, group in itertools.groupby(line[2:-2].split(" | "), lambda cell: "$" in cell):
            own = list(group)
            for column in self.columns if varies else [""]:
                cells += [cell.replace("$", column) for cell in own]
        return markdown([cells])


_HEAD = re.compile(
    r"(?P<name>[\w-]+)(?:: (?P<reports>.*?))?(?:, each of (?P<each>.*?))?"
    r"(?:, columns (?P<columns>.*?))?(?P<best>, best in bold(?: of (?P<bold>.*?))?)?"
    r"(?:, as (?P<like>.*))?"
)


@cache
def templates() -> dict[str, Template]:
    """Return the templates of all tables, by name."""
    found: dict[str, Template] = {}
    for path in sorted(TEMPLATES.glob("*.md")):
        page = "README.md" if path.name == "README.md" else f"docs/{path.name}"
        for section in re.split(r"^## ", path.read_text(), flags=re.MULTILINE)[1:]:
            first, _, text = section.partition("\n")
            head = _HEAD.fullmatch(first)
            bold = (
                None if not head["best"] else [int(n) for n in (head["bold"] or "").split("|") if n]
            )
            made = Template(
                page,
                head["name"],
                [one for one in (head["reports"] or "").split(", ") if one],
                head["each"] or "",
                (head["columns"] or "").split("|"),
                bold,
                head["like"] or head["name"],
                found[head["like"]].text if head["like"] else text.strip("\n"),
            )
            found[made.name] = made
    return found


def _scope(reports: list[str], functions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a template may name: the first report, and each by its number and its name."""
    read = [functions[name]() if "." not in name else report_of(name) for name in reports]
    named: Line = {str(n): report for n, report in enumerate(read)}
    for name, report in zip(reports, read, strict=True):
        if isinstance(report, list) or name.endswith(".jsonl"):
            named[Path(name).stem] = report if isinstance(report, list) else lines_of(name)
    return ChainMap(named, read[0]) if read and isinstance(read[0], dict) else named


def _each(scope: Mapping[str, Any], name: str) -> list[Line]:
    """Return the rows of a list, of a mapping with its keys, or the lines of each data set."""
    if sets := SETS.get(name):
        reports = {k: v for k, v in scope.items() if isinstance(v, list)}
        return [
            {"title": title} | {k: where(lines, data=data) for k, lines in reports.items()}
            for data, title in sets.items()
        ]
    found = _found(scope, name)
    if isinstance(found, list):
        return found
    return [{"key": int(key) if key.isdigit() else key} | one for key, one in found.items()]


_OPERATIONS = {"/": truediv, "*": mul, "-": sub, "+": add}
_CONSTANTS = {"GiB": 2**30, "MiB": 2**20, "million": 1e6}
_SPEC = re.compile(r"(?P<spec>[^ ?]*)(?P<unit> [^?]*)?(?P<missing>\?.*)?")


def _filled(line: str, scope: Mapping[str, Any]) -> str:
    """Fill in ``{path / path:spec unit?text if missing}``."""
    return re.sub(r"\{([^{}:]+)(?::([^{}]*))?\}", lambda m: _field(m[1], m[2] or "", scope), line)


def _field(expression: str, spec: str, scope: Mapping[str, Any]) -> str:
    if expression.startswith("made by "):
        return _made_by(*expression.removeprefix("made by ").split(", "))
    if copied := re.fullmatch(r"table (\d) of (.+)", expression):
        blocks = re.findall(r"(?:^\|.*\n)+", (REPORTS / copied[2]).read_text(), re.MULTILINE)
        return blocks[int(copied[1])].strip()
    parts = _SPEC.fullmatch(spec)
    try:
        value = _computed(expression, scope)
    except KeyError:
        value = None
    if value is None or (value == [] and parts["missing"]):
        if not parts["missing"]:
            raise ValueError(f"the report has no {expression}")
        return parts["missing"][1:] or "–"
    return _shown(value, parts["spec"]) + (parts["unit"] or "")


def _computed(expression: str, scope: Mapping[str, Any]) -> Any:
    first, *rest = re.split(r" ([-+*/]) ", expression)
    value = _found(scope, first)
    for sign, name in zip(rest[::2], rest[1::2], strict=True):
        value, other = _averaged(value), _averaged(_operand(name, scope))
        if value is None or other is None:
            return None
        value = _OPERATIONS[sign](value, other)
    return value


def _operand(name: str, scope: Mapping[str, Any]) -> Any:
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    return float(name) if re.fullmatch(r"[\d.e]+", name) else _found(scope, name)


def _averaged(value: Any) -> float | None:
    return (mean(value) if value else None) if isinstance(value, list) else value


def _found(value: Any, path: str) -> Any:
    """Follow a path: ``a.b`` are keys, ``[2]`` is a place, ``[x]`` the row of that name.

    ``[a=1; b.c=2|3]`` are the lines of a list that have these values; then a key is that of each.
    """
    for key, bracketed in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", path):
        if isinstance(value, Mapping):
            value = value[key or bracketed]
        elif key:
            value = values_of(value, key)
        elif re.fullmatch(r"-?\d+", bracketed):
            value = value[int(bracketed)]
        elif re.match(r"[\w.@-]+=", bracketed):
            wanted = [one.partition("=") for one in bracketed.split("; ")]
            value = [line for line in value if all(_has(line, k, v) for k, _, v in wanted)]
        else:
            value = next((one for one in value if one.get("name") == bracketed), None)
        if value is None:
            return None
    return value


def _has(line: Line, path: str, text: str) -> bool:
    for key in path.split("."):
        line = (line or {}).get(key)
    return str(line) in text.split("|") or str(line) == text


def _shown(value: Any, spec: str) -> str:
    match spec:
        case "±":
            return shown(value)
        case "mean":
            return averaged(value)
        case "count":
            return str(len(value))
        case "list":
            return ", ".join(f"{one:g}" for one in value)
        case "commit":
            return f"`{value[:7]}`"
        case "thousands":
            return f"{round(value, -3):,.0f}"
        case "interval":
            return "{ndcg:.4f} [{low:.4f}, {high:.4f}]".format(**value)
    if spec.startswith("median"):
        return format(median(value), spec.removeprefix("median"))
    return format(_averaged(value), spec)


def _bold_columns(lines: list[str], columns: list[int]) -> list[str]:
    """Set the largest number of columns of the first table in bold."""
    start = next(n for n, line in enumerate(lines) if line.startswith("|---")) + 1
    stop = next((n for n in range(start, len(lines)) if not lines[n]), len(lines))
    rows = best_bold([line[2:-2].split(" | ") for line in lines[start:stop]], columns)
    return [*lines[:start], markdown(rows), *lines[stop:]]


# Markdown


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return the lines of a table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def shown(values: Sequence[float]) -> str:
    """Return a mean and its standard deviation; – without values."""
    if not values:
        return "–"
    return f"{mean(values):.4f} ± {stdev(values):.4f}" if len(values) > 1 else f"{values[0]:.4f}"


def averaged(values: Sequence[float]) -> str:
    """Return a mean; – without values."""
    return f"{mean(values):.4f}" if values else "–"


def best_bold(rows: list[list[str]], columns: Sequence[int] = ()) -> list[list[str]]:
    """Set the largest number of every column in bold; a spread behind it stays plain."""
    for column in columns or range(1, len(rows[0])):
        cells = [row[column].partition(" ") for row in rows]
        largest = max(first for first, _, _ in cells if first != "–")
        for row, (first, space, rest) in zip(rows, cells, strict=True):
            if first == largest:
                row[column] = f"**{first}**{space}{rest}"
    return rows


def bold(text: str, *, on: bool) -> str:
    """Return a text, in bold if ``on``."""
    return f"**{text}**" if on else text


def grid(
    rows: Mapping[Any, str], columns: Iterable[Any], cells: Callable[[Any, Any], Sequence[str]]
) -> list[list[str]]:
    """Return the rows of a table: a title, and the cells of each column."""
    columns = list(columns)
    return [
        [title, *itertools.chain.from_iterable(cells(row, column) for column in columns)]
        for row, title in rows.items()
    ]


# Reports


@cache
def lines_of(name: str) -> list[Line]:
    path = REPORTS / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@cache
def report_of(name: str) -> Any:
    """Return a report, the first line of a report of many lines, or a text."""
    if name.endswith(".txt"):
        return {"text": (REPORTS / name).read_text().rstrip()}
    return (
        lines_of(name)[0] if name.endswith(".jsonl") else json.loads((REPORTS / name).read_text())
    )


def where(lines: Iterable[Line], **wanted: Any) -> list[Line]:
    """Return the lines that have some values."""
    return [line for line in lines if all(line.get(k) == v for k, v in wanted.items())]


def values_of(lines: Iterable[Line], path: str) -> list[Any]:
    """Return one value of each line that has it."""
    first, _, key = path.partition(".")
    found = (line.get(first) for line in lines)
    if key:
        return values_of((one for one in found if one), key)
    return [one for one in found if one is not None]


def grouped(lines: Iterable[Line], key: Callable[[Line], Any]) -> dict[Any, list[Line]]:
    found: dict[Any, list[Line]] = defaultdict(list)
    for line in lines:
        found[key(line)].append(line)
    return found


def commits_of(reports: Iterable[Line]) -> list[str]:
    return list(dict.fromkeys(f"`{one['commit'][:7]}`" for one in reports))


def _made_by(*reports: str) -> str:
    """Return the commits and the machines that made reports."""
    about = [line["about"] for report in reports for line in lines_of(report)]
    commits = commits_of(about)
    machines = ", ".join(dict.fromkeys(one["machine"] for one in about))
    return f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)} on {machines}"
