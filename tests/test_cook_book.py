"""Every step of docs/cook-book.md runs: Python in one namespace, and commands in one folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import sdgar as api
from sdgar.engines import choose

from .cli.test_cli import sdgar

PAGE = Path(__file__).parents[1] / "docs" / "cook-book.md"
USERS, ITEMS = 24, 24


class Step(NamedTuple):
    """A row of the page."""

    section: str
    name: str
    python: list[str]
    commands: list[str]


def steps(text: str) -> list[Step]:
    """The rows of all tables that have a column for Python and one for commands."""
    found, section = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4 or cells[0] in ("how do I …", "---"):
            continue
        name, _, python, commands = cells
        code = re.findall(r"`([^`]+)`", python)
        code = [part for part in code if not part.startswith("GridSearchCV")]
        found.append(Step(section, name, code, re.findall(r"`(sdgar [^`]+)`", commands)))
    return found


STEPS = steps(PAGE.read_text()) if PAGE.exists() else []
SECTIONS = list(dict.fromkeys(step.section for step in STEPS))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder of files that the page speaks of."""
    folder = tmp_path_factory.mktemp("cook-book")
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((USERS, ITEMS)) < 0.4)
    times = 1_700_000_000 + rng.integers(0, 40 * 86_400, len(users))
    kept = rng.random(len(users)) < 0.9

    def write(name: str, column: str, values: list, some: np.ndarray) -> None:
        lines = [f"user,item,{column},time"]
        for row in np.flatnonzero(some):
            lines.append(f"u{users[row]:02},i{items[row]:02},{values[row]},{times[row]}")
        (folder / name).write_text("\n".join(lines) + "\n")

    counts = rng.integers(1, 60, len(users)).tolist()
    write("plays.csv", "plays", counts, kept)
    write("later.csv", "plays", counts, ~kept)
    write("ratings.csv", "rating", rng.integers(1, 6, len(users)).tolist(), kept)
    kinds = rng.choice(["view", "buy", "pass"], len(users), p=[0.6, 0.2, 0.2]).tolist()
    write("events.csv", "kind", kinds, kept)
    rows = [f"i{i:02},Title {i},{'pop' if i % 2 else 'folk'}" for i in range(ITEMS + 1)]
    (folder / "items.csv").write_text("\n".join(["item,title,genre", *rows]) + "\n")
    (folder / "new.csv").write_text("user,item,time\nu07,i77,1700000000\nu08,i77,1700000001\n")
    (folder / "users.txt").write_text("u07\nu08\n")
    (folder / "rules.toml").write_text('[[block]]\nname = "sold out"\nitems = ["i05"]\n')
    data = api.read(folder / "plays.csv", verbose=False)
    u, v = rng.normal(size=(data.n_users, 3)), rng.normal(size=(data.n_items, 3))
    np.savez(folder / "als.npz", user_factors=u, item_factors=v, factors=3)
    np.savez(
        folder / "lightfm.npz", user_factors=u, item_factors=v, item_biases=v[:, 0],
        users=data.users.values.astype(str), items=data.items.values.astype(str),
    )  # fmt: skip
    return folder


@pytest.mark.skipif(not STEPS, reason="docs/ is not next to the tests")
@pytest.mark.filterwarnings("ignore")  # small data is warned of, and so are strangers
def test_every_step_runs(place, monkeypatch):
    for package in ("faiss", "onnx", "optuna"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(place)
    # The compiled engines take seconds to compile, and are tested elsewhere.
    monkeypatch.setattr(choose, "FUSED", dict.fromkeys(choose.FUSED, "eager"))
    (begin,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(begin, str(PAGE), "exec"), names)
    ran = 0
    for step in STEPS:
        for code in step.python:
            exec(compile(code, f"{PAGE.name}: {step.name}", "exec"), names)
            ran += 1
        for line in step.commands:
            done = sdgar(*line.split()[1:])
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            ran += 1
    assert ran > 90


def test_each_library_has_its_steps():
    assert SECTIONS == ["implicit", "LightFM", "RecTools", "Microsoft's recommenders"]
    without = [step.name for step in STEPS if not step.python and not step.commands]
    assert without == [
        "measure AUC, or training rows",
        "recommend to new users by features",
    ]
