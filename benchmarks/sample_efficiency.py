"""How many draws a proposal needs: NDCG@50 of SD-Softmax against draws for each positive.

    python benchmarks/sample_efficiency.py make FOLDER NAME=VALUE ...   # FOLDER/draws.json
    PYTHONPATH=src python benchmarks/accuracy_grid.py run carry/citeulike.npz FOLDER/draws.json \
        benchmarks/reports/sdsoftmax/citeulike-draws.jsonl 8
    python benchmarks/sample_efficiency.py plot REPORT.jsonl FIGURE.png

The same settings, epochs and seeds for all; only who proposes and how often differs. On validation
rows. Above 64 draws the eager engine runs, as the fused GPU kernels hold no more in registers.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

PROPOSALS = {"uniform": "uniform", "popularity": "popularity", "em": "generator, fitted by EM"}
DRAWS = (4, 8, 16, 32, 64, 256, 1024, 4096)
SEEDS = range(3)
MOST_FUSED = 64


def make(folder: Path, settings: list[str]) -> None:
    chosen = {name: float(value) for name, value in (word.split("=") for word in settings)}
    whole = {name: int(v) if v.is_integer() and name != "tau" else v for name, v in chosen.items()}
    jobs = [
        {
            "name": f"{proposal}-{n}-{seed}",
            "system": "sdsoftmax",
            "seed": seed,
            "protocol": "valid",
            "engine": "auto" if n <= MOST_FUSED else "eager",
            "settings": {**whole, "proposal": proposal, "n_negatives": n},
        }
        for n in reversed(DRAWS)
        for proposal in PROPOSALS
        for seed in SEEDS
    ]
    (folder / "draws.json").write_text(json.dumps(jobs))


def plot(report: Path, figure: Path) -> None:
    import matplotlib.pyplot as plt

    reached: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in report.read_text().splitlines():
        run = json.loads(line)
        if "error" not in run:
            settings = run["settings"]
            reached[settings["proposal"]][settings["n_negatives"]].append(run["valid"])
    fig, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    looks = zip(PROPOSALS.items(), ("#D55E00", "#009E73", "#0072B2"), "s^o", strict=True)
    for (proposal, label), colour, mark in looks:
        by_draws = sorted(reached[proposal].items())
        means = [statistics.mean(values) for _, values in by_draws]
        spread = [statistics.stdev(v) if len(v) > 1 else 0 for _, v in by_draws]
        axes.errorbar(
            [n for n, _ in by_draws], means, yerr=spread, marker=mark, color=colour, capsize=3,
            label=label,
        )  # fmt: skip
        print(proposal, {n: round(m, 4) for (n, _), m in zip(by_draws, means, strict=True)})
    axes.set(xscale="log", xlabel="draws for each positive", ylabel="NDCG@50, validation rows")
    axes.set_xticks(DRAWS, [str(n) for n in DRAWS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    fig.savefig(figure, dpi=150)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "make":
        make(Path(words[0]), words[1:])
    else:
        plot(Path(words[0]), Path(words[1]))
