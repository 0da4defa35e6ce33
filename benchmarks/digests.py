"""Does a change of the code change what is learned? SHA-256 of the saved model of every system.

    python benchmarks/digests.py --json before.json
    (change the code, on the same machine)
    python benchmarks/digests.py --compare-with before.json

Every system learns from the same synthetic rows with seed 7, for three epochs, on one thread, by
each engine that runs on a CPU. The digests depend on the processor, so they are compared on one
machine and not kept in the repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sdgar

SYSTEMS = {
    **{name: {} for name in ("MostPopular", "ItemKNN", "IALS", "EASE", "ELSA")},
    **{name: {} for name in ("BPR", "AOBPR", "WARP", "CML", "DNS", "SA", "SDGAR", "SDGARPrinted")},
    "IRGAN": {"sampler__pretrain": 2},
    "SDSoftmax": {"sampler__pretrain": 3},
    "Composed": {},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sdgar frozen": ("SDGAR", {"sampler": "frozen"}),
    "sdgar scrambled": ("SDGAR", {"sampler": "scrambled"}),
    "sdgar popularity": ("SDGAR", {"sampler": "popularity"}),
    "irgan discriminator": ("IRGAN", {"sampler__pretrain": 2, "side": "discriminator"}),
    "sdsoftmax dot": ("SDSoftmax", {"sampler__pretrain": 3, "similarity": "dot"}),
    "sdsoftmax uniform": ("SDSoftmax", {"sampler": "uniform"}),
    "lightgcn": ("Composed", {"discriminator": "lightgcn"}),
    "factorization with sdgar": (
        "Composed",
        {"discriminator": "factorization", "objective": "sdgar"},
    ),
    "bpr by lazy adam": ("BPR", {"optimizer": "lazy-adam", "learning_rate": 0.004}),
    "bpr by sgd": ("BPR", {"optimizer": "sgd"}),
}
ENGINES = ("eager", "fused-cpu")


def digests() -> dict[str, str]:
    """SHA-256 of ``model.safetensors`` by system and engine."""
    rows = sdgar.synthetic("demo")
    found = {}
    cases = {name: (name, settings) for name, settings in SYSTEMS.items()} | VARIANTS
    for case, (name, settings) in cases.items():
        kind = getattr(sdgar, name)
        learns = "engine" in kind().get_params()
        for engine in ENGINES if learns else ("",):
            common = {"epochs": 3, "early_stopping": False, "engine": engine, "seed": 7}
            model = kind(**settings, **(common if learns else {}))
            try:
                model.fit(rows, verbose=False)
            except sdgar.SdgarError as error:
                if error.code != "not_covered":
                    raise
                continue
            with tempfile.TemporaryDirectory() as folder:
                saved = model.save(Path(folder) / "model")
                digest = hashlib.sha256((saved / "model.safetensors").read_bytes()).hexdigest()
            found[f"{case} {engine}".strip()] = digest
            print(f"{case:26}{engine:12}{digest[:16]}", flush=True)
    return found


def main(arguments: list[str]) -> int:
    """Print the digests; with ``--compare-with``, those that differ, and 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the digests to this file")
    parser.add_argument("--compare-with", type=Path, help="compare with the digests in this file")
    wanted = parser.parse_args(arguments)
    found = digests()
    if wanted.json:
        wanted.json.write_text(json.dumps(found, indent=1))
    if not wanted.compare_with:
        return 0
    before = json.loads(wanted.compare_with.read_text())
    changed = sorted(case for case in before.keys() | found if before.get(case) != found.get(case))
    print(f"{len(found)} digests, {len(changed)} differ" + "".join(f"\n  {c}" for c in changed))
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
