"""Shared fixtures. Real data lies next to the repository, and tests on it skip without it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from sdgar.data.interactions import Interactions
from sdgar.machine import cores

from . import postgresql, triton_interpreter
from .last_bits import LastBits

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

os.environ["SDGAR_VERBOSE"] = "0"  # for child processes too

settings.register_profile(
    "sdgar",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
# Other examples in every run: pytest --hypothesis-profile=long
settings.register_profile(
    "long", settings.get_profile("sdgar"), derandomize=False, max_examples=1000
)
settings.load_profile("sdgar")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the rounding of another machine."""
    parser.addoption(
        "--last-bits", type=int, metavar="SEED", help="round as another machine might: last_bits.py"
    )


@pytest.fixture(autouse=True, scope="session")
def _rounding(request: pytest.FixtureRequest) -> Iterator[None]:
    seed = request.config.getoption("--last-bits")
    with nullcontext() if seed is None else LastBits(seed):
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Keep what is written in memory: no power is cut here. Commands in processes do wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _quick_interpreter() -> None:
    if os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton"):
        triton_interpreter.exchange_once_a_launch()


SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; the test skips where it is not there."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data sets are not on this machine (../shared/data)")
    return SHARED_DATA


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The address of a PostgreSQL server; the test skips where none is installed."""
    with postgresql.server() as address:
        yield address


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """The address of a new database on a PostgreSQL server."""
    with postgresql.database(postgresql_server) as address:
        yield address


@pytest.fixture
def plenty_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads run as torch is set to use, however few cores this machine has."""
    monkeypatch.setattr(cores, "_affinity", lambda: 64)
    monkeypatch.setattr(cores, "_own_quota", lambda: None)
    monkeypatch.setattr(cores, "threads_now", lambda most: most)


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """Set the number of torch's threads, until the test is over."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def checkerboard() -> Interactions:
    """Even users like even items, odd users odd items; each lacks the item of the same number.

    So the right first recommendation of user u is item u, whatever the model.
    """
    n = 40
    users, items = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    liked = (users % 2 == items % 2) & (users != items)
    return Interactions.from_arrays(users[liked], items[liked])


# The first compiles nearly every kernel that the others run; the next ones run none.
_LONGEST_FIRST = (
    "conformance/test_engines", "training/test_resume", "serve_page", "training/test_workers",
    "training/test_sharded_items", "test_composed", "kernels/test_triton",
    "quality", "experiments/test_paper", "test_examples", "cli/test_first_hour", "engines",
    "hostile/test_commands", "test_benchmarks", "cli/test_cli", "data/test_contexts", "hostile",
    "systems", "test_checkerboard", "test_numerics", "samplers", "training", "paper",
    "database", "cli", "data",
)  # fmt: skip


_FRESH = not sys.dont_write_bytecode and not any(Path(__file__).parent.glob("*/__pycache__"))
"""Whether no test is compiled yet, as in a fresh clone."""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send a worker what there was before any of them began."""
    node.workerinput["fresh"] = _FRESH


@contextmanager
def _in_turn(config: pytest.Config) -> Iterator[None]:
    """Make one worker of a fresh clone compile all tests, while the others wait.

    Each of them would otherwise compile every test and every package that tests import.
    """
    if fcntl is None or not getattr(config, "workerinput", {}).get("fresh"):
        yield
        return
    folder = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # the first one is at it
        fcntl.flock(folder, fcntl.LOCK_SH)
    try:
        yield
    finally:
        os.close(folder)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect tests without a search for garbage, which would take a fifth of the time.

    Later searches come seldom, and leave out what there is by then.
    """
    gc.disable()
    try:
        with _in_turn(session.config):
            return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first, so that no worker ends with them."""

    def place(item: pytest.Item) -> int:
        words = item.path.relative_to(Path(__file__).parent).as_posix()
        return next((n for n, name in enumerate(_LONGEST_FIRST) if name in words), 99)

    items.sort(key=place)
