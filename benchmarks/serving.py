"""Requests over HTTP for one user each, and by a plain FastAPI handler with NumPy, in one run.

    python benchmarks/serving.py --run RUN [--json FILE] [--seconds 5] [--connections 1,4,16,64]
    python benchmarks/serving.py --items 1000000 [--json FILE]

Both servers are separate processes on loopback, and wrk (Debian's package) asks: it holds some
connections open, and each asks for the ten best items of a user drawn at random as soon as its last
answer has come. Both servers take turns, from few connections to many. The plain handler does what
a careful person writes in an afternoon: the product of the user's vector with all items, the memory
by SciPy's sparse rows, what the user has left out, ``argpartition``, a Pydantic model in and JSON
out, uvicorn with uvloop and httptools. Both give the same lists, which is checked first.

``--items`` makes up a catalogue of that size, with a memory, where ours uses its index.

Servers are compared by the requests a second that they answer within a p99. The plain handler runs
twice, with the threads that NumPy takes by itself and with one: the better one counts.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pydantic import BaseModel

from common import ROOT, machine, options_of, write_report

K = 10
P99_MS = (5, 10, 20, 50, 100, 200)
"""The longest that 99 of 100 answers may take, by which servers are compared."""


# The plain handler


class Question(BaseModel):
    """The request of the plain handler."""

    users: list[str | int]
    k: int = K


class Listed(BaseModel):
    """One entry of its lists."""

    item: str | int
    score: float


class List(BaseModel):
    """One of its lists."""

    user: str | int
    items: list[Listed]


def plain(run: str, port: int) -> None:
    """Serve a model by FastAPI and NumPy, as plainly as it can be done without being slow."""
    import uvicorn
    from fastapi import FastAPI
    from scipy.sparse import csr_matrix

    import sdgar
    from sdgar.models.sum import Sum

    saved = sdgar.load(run)
    model, gamma, weights = saved.model, 0.0, None
    if isinstance(model, Sum):
        second = model.second.to_saved()
        arrays = (second["weight_E"], second["items_E"], second["indptr_I1"])
        weights = csr_matrix(arrays, shape=(model.n_items, model.n_items))
        model, gamma = model.first, model.weight
    tensors = model.tensors()
    user_UD, item_ID, bias_I = (tensors[n].numpy() for n in ("user_UD", "item_ID", "bias_I"))
    history, items = saved.history, saved.items.values
    numbers = {user: at for at, user in enumerate(saved.users.values.tolist())}

    app = FastAPI()

    @app.post("/v1/recommend")
    def recommend(wanted: Question) -> dict[str, list[List]]:
        lists = []
        for user in wanted.users:
            at = numbers[user]
            own = history.of(at)
            scores_I = item_ID @ user_UD[at] + bias_I
            if weights is not None:
                named = weights[own]
                np.add.at(scores_I, named.indices, gamma * named.data)
            scores_I[own] = -np.inf
            best = np.argpartition(-scores_I, wanted.k)[: wanted.k]
            best = best[np.lexsort((best, -scores_I[best]))]
            found = zip(items[best].tolist(), scores_I[best].tolist(), strict=True)
            lists.append(List(user=user, items=[Listed(item=i, score=s) for i, s in found]))
        return {"lists": lists}

    @app.get("/livez")
    def livez() -> dict[str, bool]:
        return {"alive": True}

    uvicorn.run(app, port=port, log_level="error", access_log=False)


# The client

SCRIPT = """
local users = {USERS}
math.randomseed(7)
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
request = function()
  local body = '{"users": [' .. users[math.random(#users)] .. '], "k": 10}'
  return wrk.format(nil, "/v1/recommend", nil, body)
end
done = function(summary, latency, requests)
  local wrong = summary.errors.status + summary.errors.read + summary.errors.timeout
  io.write(string.format("told %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), wrong))
end
"""
"""What wrk sends, and what it says in the end: times are in microseconds."""


def ask(port: int, users: list[Any], connections: int, seconds: float) -> dict[str, float]:
    """Make wrk ask over some connections for a while, a user drawn at random each time."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        spelled = ", ".join(f"'{json.dumps(user)}'" for user in users)
        script.write(SCRIPT.replace("{USERS}", "{" + spelled + "}"))
        script.flush()
        line = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{max(1, round(seconds))}s",
            "--timeout",
            "30s",
        ]
        done = subprocess.run(
            [*line, "-s", script.name, f"http://127.0.0.1:{port}"], check=True,
            capture_output=True, text=True,
        )  # fmt: skip
    found_out = next(text for text in done.stdout.splitlines() if text.startswith("told"))
    requests, lasted, p50, p99, wrong = (int(word) for word in found_out.split()[1:])
    if wrong:
        raise SystemExit(f"{wrong} requests failed: {done.stdout}")
    return {
        "per_second": requests / (lasted / 1e6), "p50_ms": p50 / 1e3, "p99_ms": p99 / 1e3,
        "requests": requests,
    }  # fmt: skip


# The run


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Server:
    """A server in a separate process."""

    def __init__(self, words: list[str], port: int, **more: str) -> None:
        source = {"PYTHONPATH": str(ROOT / "src"), **more}
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, *words], env={**os.environ, **source}, stdout=subprocess.DEVNULL
        )
        self._wait()

    def _wait(self) -> None:
        from urllib.error import URLError
        from urllib.request import urlopen

        for _ in range(1200):
            try:
                urlopen(f"http://127.0.0.1:{self.port}/livez", timeout=5).read()
            except (URLError, OSError):
                if self.process.poll() is not None:
                    raise SystemExit("a server ended before it began") from None
                time.sleep(0.1)
            else:
                return
        raise SystemExit("a server did not begin")

    def lists(self, users: list[Any]) -> list[list[Any]]:
        """Return what it recommends to some users."""
        from urllib.request import Request, urlopen

        body = json.dumps({"users": users, "k": K}).encode()
        head = {"content-type": "application/json"}
        url = f"http://127.0.0.1:{self.port}/v1/recommend"
        found = json.loads(urlopen(Request(url, body, head)).read())["lists"]
        return [[entry["item"] for entry in one["items"]] for one in found]

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(30)


def large(folder: Path, n_items: int) -> Path:
    """Save a model of a catalogue that is synthetic, as ``answers.py`` makes it."""
    import answers
    from sdgar.data.ids import Ids
    from sdgar.recommend.artifact import Artifact
    from sdgar.recommend.recommender import Recommender

    model, known = answers.made_up(n_items, 128)
    users, items = (Ids(np.arange(n)) for n in (known.n_users, n_items))
    about = {"system": "made up", "context": ["user"]}
    Recommender(Artifact(model, users, items, known, about)).save(folder / "run")
    return folder / "run"


def tiny(folder: Path) -> Path:
    """Train a small model, to see that everything runs."""
    from sdgar.data.synthetic import Shape, generate
    from sdgar.systems.quick import Quick

    shape = Shape(users=60, items=40, interactions=900, concentration=0.11)
    Quick(dim=8).fit(generate(shape, seed=0)).save(folder / "run")
    return folder / "run"


def measure(run: Path, seconds: float, connections: list[int], rounds: int) -> dict[str, Any]:
    """Make both servers answer in turns."""
    import sdgar

    model = sdgar.load(run)
    ports = free_port(), free_port(), free_port()
    ours_words = ["-m", "sdgar", "serve", str(run), "--port", str(ports[0]), "--drain", "0",
                  "--no-page"]  # fmt: skip
    servers = {
        "sdgar serve": Server(ours_words, ports[0]),
        "FastAPI and NumPy": Server([__file__, "plain", str(run), str(ports[1])], ports[1]),
        "FastAPI and NumPy, one thread a product": Server(
            [__file__, "plain", str(run), str(ports[2])], ports[2], OMP_NUM_THREADS="1",
            OPENBLAS_NUM_THREADS="1",
        ),
    }  # fmt: skip
    try:
        trained_I = np.flatnonzero(np.diff(model.history.indptr_U1) > 0)
        everyone = model.users.at(trained_I).tolist()
        some = everyone[:: max(1, len(everyone) // 50)][:50]
        ours, theirs, _ = (server.lists(some) for server in servers.values())
        same = sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(some)
        each: dict[str, dict[int, list[dict[str, float]]]] = {
            name: {n: [] for n in connections} for name in servers
        }
        for _ in range(rounds):
            for n in connections:
                for name, server in servers.items():
                    each[name][n].append(ask(server.port, everyone, n, seconds))
                    print(name, n, each[name][n][-1])
    finally:
        for server in servers.values():
            server.close()
    found = {
        name: {
            str(n): {key: median(one[key] for one in runs) for key in runs[0]}
            for n, runs in by_n.items()
        }
        for name, by_n in each.items()
    }
    return {
        "items": len(model.items), "users": len(everyone), "system": model.about.get("system"),
        "same_lists": same, "servers": found, **within(found),
    }  # fmt: skip


def within(found: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Compare the most requests a second that keep a p99, for several of them."""
    found_out: dict[str, Any] = {}
    for bound in P99_MS:
        best = {
            name: max((one["per_second"] for one in by_n.values() if one["p99_ms"] <= bound),
                      default=0.0)
            for name, by_n in found.items()
        }  # fmt: skip
        ours = best.pop("sdgar serve")
        theirs = max(best.values())
        ratio = ours / theirs if theirs else None
        found_out[str(bound)] = {"sdgar serve": ours, **best, "ratio": ratio}
    return {"within_p99_ms": found_out}


def main() -> None:
    parser = options_of(
        __doc__, run={"type": Path, "metavar": "RUN"}, seconds={"type": float, "default": 5.0},
        connections={"default": "1,4,16,64"}, rounds={"type": int, "default": 1},
        items={"type": int, "metavar": "N"},
    )  # fmt: skip
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed: it is Debian's package wrk.")
    connections = [int(n) for n in options.connections.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        run = options.run
        if options.items is not None:
            run = large(Path(temporary), options.items)
        if options.quick or run is None:
            run, connections = tiny(Path(temporary)), [1, 2]
            options.seconds = 0.2
        found = measure(run, options.seconds, connections, options.rounds)
    report = {**machine("fastapi", "uvicorn"), "seconds": options.seconds, **found}
    for bound, one in found["within_p99_ms"].items():
        print(f"p99 within {bound} ms:", one)
    print(f"the same lists for {found['same_lists']:.0%}")
    write_report(options.json, report)


if __name__ == "__main__":
    match sys.argv[1:2]:
        case ["plain"]:
            plain(sys.argv[2], int(sys.argv[3]))
        case _:
            main()
