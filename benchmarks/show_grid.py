"""Print the lines of accuracy grids, one run a line: show_grid.py FILE.jsonl [FILE.jsonl]."""

from __future__ import annotations

import json
import sys
from pathlib import Path

for path in map(Path, sys.argv[1:]):
    for line in path.read_text().splitlines():
        run = json.loads(line)
        if "error" in run:
            print(path.stem, run["name"], run["error"])
            continue
        health = run.get("health") or {}
        shown = {
            "seed": run["seed"],
            "protocol": run["protocol"],
            "valid": run["valid"] and round(run["valid"], 4),
            "test": run.get("test") and round(run["test"], 4),
            "epoch": f"{run['best_epoch']}/{run['epochs']}",
            "x": round(health.get("x_perplexity", 0), 1),
            "y": round(health.get("y_perplexity", 0)),
            "kl": round(health.get("kl", 0), 2),
            "ess": run["effective"] and round(run["effective"], 2),
            "s": run["seconds"],
        }
        print(path.stem, run["name"], shown)
