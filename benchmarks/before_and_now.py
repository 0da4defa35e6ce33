"""Does every system learn as well as in an earlier version? Both have the settings of the earlier.

    python benchmarks/before_and_now.py --before OTHER/src --packed carry [--seeds 3] [--json FILE]

Each version runs in a separate process, and reports in turn its test NDCG@50 on CiteULike after
some epochs. What has changed since then in the defaults of a system does not count here: the later
version is told the settings of the earlier one, and ``SINCE``, which is what came later.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from common import ROOT, Contestant, from_npz, machine, options_of, write_report

SYSTEMS = ("BPR", "AOBPR", "WARP", "CML", "DNS", "SA", "IRGAN", "SDGAR", "SDSoftmax")
EPOCHS = 10
SINCE = {"optimizer__schedule": "constant", "item_memory": 0.0}
"""Settings that the earlier version did not have, at the values of what it did."""
SHORTER = {"IRGAN": {"sampler__pretrain": 10}}
"""Other settings than the defaults of the earlier version, for both."""


def contestant(path: str) -> None:
    """Answer the name of a system with its settings, and a system with settings with NDCG@50."""
    import sdgar
    from sdgar.data.synthetic import Shape, generate

    if path == "tiny":
        train = test = generate(
            Shape(users=60, items=40, interactions=600, concentration=0.15), seed=0
        )
    else:
        train, test = from_npz(Path(path))
    for line in sys.stdin:
        wanted = json.loads(line)
        kind = getattr(sdgar, wanted["system"])
        known = kind().get_params()
        if "settings" not in wanted:
            print(json.dumps(known), flush=True)
            continue
        settings = {k: v for k, v in wanted["settings"].items() if k in known}
        found = kind(**settings).fit(train).evaluate(test, ks=(50,)).means()["ndcg@50"]
        print(json.dumps(found), flush=True)


def measured(
    before: Path, path: str, systems: tuple[str, ...], seeds: int, epochs: int
) -> dict[str, dict[str, Any]]:
    """Return the NDCG@50 of each seed by both versions, by system."""
    sources = {"before": before, "now": ROOT / "src"}
    versions = {name: Contestant(__file__, source, path) for name, source in sources.items()}
    found: dict[str, dict[str, Any]] = {}
    for system in systems:
        settings = versions["before"].ask({"system": system}) | SINCE | SHORTER.get(system, {})
        settings |= {"epochs": epochs, "early_stopping": False}
        rows: dict[str, list[float]] = {name: [] for name in versions}
        for seed in range(seeds):
            for name, version in versions.items():
                wanted = {"system": system, "settings": settings | {"seed": seed}}
                rows[name].append(version.ask(wanted))
        found[system] = rows
        said = "  ".join(f"{name} {shown(values)}" for name, values in rows.items())
        print(f"{system:10} {said}", flush=True)
    for version in versions.values():
        version.end()
    return found


def shown(values: list[float]) -> str:
    """Return the mean of some seeds and the standard deviation between them."""
    return f"{statistics.mean(values):.4f} ± {statistics.pstdev(values):.4f}"


def main() -> None:
    """Measure, print and write."""
    parser = options_of(
        __doc__,
        before={"type": Path, "required": True, "help": "the src folder of another version"},
        packed={"type": Path, "help": "what accuracy.py pack wrote"},
        seeds={"type": int, "default": 3, "help": "seeds of each"},
    )
    options = parser.parse_args()
    if options.quick:
        wanted = "tiny", SYSTEMS[:1], 1, 1
    else:
        wanted = str(options.packed / "citeulike.npz"), SYSTEMS, options.seeds, EPOCHS
    report = {**machine(), "seeds": wanted[2], "epochs": wanted[3]}
    write_report(options.json, report | {"found": measured(options.before, *wanted)})


if __name__ == "__main__":
    if sys.argv[1:2] == ["contestant"]:
        contestant(*sys.argv[2:])
    else:
        main()
