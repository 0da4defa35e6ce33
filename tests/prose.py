"""Find words that a newcomer would stumble over: python tests/prose.py src/sdgar/samplers ...

Names, docstrings, comments and strings are searched. Each finding is printed as "file:line: word".
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

TEXT = {
    "yardstick": r"yardsticks?",
    "judged": r"judg(?:e|es|ed|ing)",
    "a look": r"(?:a|each|every|first|last|next|per|no|one|two|three|between|all) looks?",
    "liking": r"likings?",
    "speaks for": r"sp(?:eak|eaks|oke|eaking) (?:for|against)",
    "told": r"told|tells?|telling|untold",
    "asked": r"asked|asks|asking",
    "whom": r"whom|whoever|whomever",
    "beside": r"beside",
    "anew": r"anew",
    "goes on": r"(?:go|goes|going|gone|went) on(?! (?:disk|GPUs?|a GPU|the GPU|the CPU|top))",
    "stands in for": r"st(?:and|ands|ood|anding) in for|in the place of",
    "felt": r"felt",
    "shows little": r"shows? little",
    "held against": r"(?:hold|holds|held|holding) against",
    "somebody": r"somebody|someone else|whoever else",
    "made up": r"made[ -]up",
    "showcase": r"showcases?",
    # "dial" is also a key in files of rules: dial = 0.3.
    "dial": r"(?<!\.)(?:(?<=.)dials?|dials?(?=.))(?! ?=| is)",
    "house": r"houses?",
    "room": r"rooms?",
    "floor of code": r"(?:lower|upper|higher|ground|same) floors?",
    "those of": r"those (?:of|that|who|which|it|they|in|on|for|from|to)",
    "such as have": r"such as (?:have|has|are|do|did|were)",
    "where it does not": r"(?:where|if) (?:it|they) (?:does|do|is|are) not(?=[.,;:]|$)",
    "the same bytes": r"the same bytes|same bytes",
    "taught": r"taught",
    "of one's own": r"of (?:one's|its|their|your) own",
    "broken off": r"br(?:oken|oke|eaks|eak) off",
    "what it takes": r"what it takes",
    "in the making": r"in the making",
    "knows": r"knows|knew",
}
"""Patterns of words in docstrings, comments and strings."""

NAMES = {
    "yardstick", "yardsticks", "judge", "judged", "judges", "liking", "likings", "told", "tell",
    "tells", "asked", "asks", "whom", "whoever", "beside", "anew", "felt", "showcase", "dials",
    "house", "room", "rooms", "whose", "somebody", "taught", "anyhow",
}  # fmt: skip
"""Words of names, split at underscores and capitals."""

MODULES = {
    "few", "further", "ahead", "held", "earlier", "together", "patience", "others", "going_on",
}  # fmt: skip
"""Names of modules that do not say what the module does."""

FIRST_VERBS = re.compile(r"(?:Give|Gives|Say|Says|Tell|Tells|Be|Let|Lets)\b")
"""First words of a docstring that another verb replaces: Return, Keep, Write, Check, ..."""

EXEMPT = {"prose.py", "test_prose.py"}

_TEXT = re.compile("|".join(rf"\b(?P<_{n}>{p})\b" for n, p in enumerate(TEXT.values())), re.I)
_NAMED = list(TEXT)
_WORDS = re.compile(r"[a-z]+|[A-Z][a-z]*")


def findings(path: Path) -> list[tuple[int, str]]:
    """Return the lines and the banned words of a module."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    found = [(line, word) for line, text in _texts(tree, source) for word in _banned(text)]
    found += _first_verbs(tree)
    found += [(line, f"name {name}") for line, name in _names(tree) if _dialect(name)]
    if path.stem in MODULES or _dialect(path.stem):
        found.append((1, f"module {path.stem}"))
    return sorted(set(found))


def all_findings(paths: Iterable[Path]) -> list[str]:
    """Return "file:line: word" for all modules of files and folders."""
    modules = [
        module
        for path in paths
        for module in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
        if module.name not in EXEMPT
    ]
    return [f"{module}:{line}: {word}" for module in modules for line, word in findings(module)]


def _banned(text: str) -> list[str]:
    text = " ".join(text.split())
    return [_NAMED[int(match.lastgroup[1:])] for match in _TEXT.finditer(text)]


def _texts(tree: ast.Module, source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings and the comments, several lines of comments as one text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    comments = [
        (token.start[0], token.string.lstrip("# "))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    start, last, text = 0, -1, ""
    for line, comment in comments:
        if line == last + 1:
            text += " " + comment
        else:
            yield start, text
            start, text = line, comment
        last = line
    yield start, text


def _first_verbs(tree: ast.Module) -> list[tuple[int, str]]:
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    return [
        (getattr(node, "lineno", 1), f"docstring begins with {match[0]}")
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and (match := FIRST_VERBS.match(ast.get_docstring(node) or ""))
    ]


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines, parameters and fields among them."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def _dialect(name: str) -> bool:
    return not NAMES.isdisjoint(word.lower() for word in _WORDS.findall(name))


def main() -> None:
    """Print the findings of the files and folders of the command line."""
    found = all_findings(Path(argument) for argument in sys.argv[1:])
    sys.stdout.write("".join(f"{line}\n" for line in found) + f"{len(found)} findings\n")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
