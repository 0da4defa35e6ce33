"""The tables of README.md and docs/, made from the reports: a number stands in its report alone.

    python benchmarks/tables.py            # fills in the pages; ``make tables`` does the same
    python benchmarks/tables.py --check    # says which pages differ, and fails if one does

A table stands in its page between <!-- table: NAME --> and <!-- end -->. To measure anew, see the
script that wrote the report; then run this.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

import grids
from grids import DATASETS, DISLIKING, PROPOSALS, PROTOCOLS, REPORTS, SEEDS, SHARES, SPACES
from sdgar.evaluation.measures import MEASURES
from sdgar.lab.paper.chosen import NAMES, PAPER, REAL
from sdgar.lab.paper.chosen import SYSTEMS as PAPERS
from sdgar.lab.paper.sources import TITLES
from sdgar.parts.rules import temperature_of

ROOT = Path(__file__).parents[1]


# Markdown


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table."""
    lines = [_line(head), "|---" * len(head) + "|", *(_line(row) for row in rows)]
    return "\n".join(lines)


def shown(values: Sequence[float]) -> str:
    """Write a mean and its standard deviation; – without values."""
    if not values:
        return "–"
    return f"{mean(values):.4f} ± {stdev(values):.4f}" if len(values) > 1 else f"{values[0]:.4f}"


def best_bold(rows: list[list[str]]) -> list[list[str]]:
    """Set the largest number of every column in bold; a spread behind it stays plain."""
    for column in range(1, len(rows[0])):
        cells = [row[column].partition(" ") for row in rows]
        largest = max(first for first, _, _ in cells if first != "–")
        for row, (first, space, rest) in zip(rows, cells, strict=True):
            if first == largest:
                row[column] = f"**{first}**{space}{rest}"
    return rows


def bold(text: str, *, on: bool) -> str:
    """Set a text in bold where ``on`` says so."""
    return f"**{text}**" if on else text


def rounded(value: float) -> str:
    """Write a speed in thousands."""
    return f"{round(value, -3):,.0f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _lines(name: str) -> list[dict[str, Any]]:
    path = REPORTS / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _report(name: str) -> Any:
    return json.loads((REPORTS / name).read_text())


# The paper's tables


def paper(name: str, number: int = 0) -> Callable[[], str]:
    """Make the function that copies a table which ``sdgar paper`` wrote."""

    def copied() -> str:
        text = (REPORTS / "paper" / f"{name}.md").read_text()
        return re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[number].strip()

    return copied


def _table2() -> dict[tuple[str, str, str], list[float]]:
    """Collect NDCG@50 of the runs of Table 2 by protocol, data set and label."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in _report("paper/table2.json"):
        found.setdefault((row["protocol"], row["data"], row["label"]), []).append(row["ndcg@50"])
    return found


README_ROWS = {
    "item-knn": "item-kNN",
    "irgan": "IRGAN's generator (a softmax over all items), D = 32",
    "dns": "DNS, D = 32",
    "warp": "WARP, D = 32",
    "cml": "CML, D = 32",
    "sdgar": "SD-GAR, D = 32",
    "aobpr": "AOBPR, D = 32",
    "sa": "SA, D = 32",
    "bpr": "BPR, D = 32",
    "popular": "most popular",
}


def accuracy() -> str:
    """Compare SD-Softmax with everyone on the paper's three data sets."""
    finals = {data: _finals(data) for data in REAL}
    first = {
        "defaults128": "SD-Softmax without a memory, D = 128",
        "ials": "iALS, D = 512",
        "ease": "EASE (items × items)",
    }
    ours = _with_memory("memory.jsonl")
    best = {d: [r["test"] for r in _lines("thorough.jsonl") if r["data"] == d] for d in REAL}
    rows = [
        ["**SD-Softmax with --thorough**", *(f"**{mean(best[d]):.4f}**" for d in REAL)],
        ["SD-Softmax, defaults", *(f"{mean(r['test'] for r in ours[d]):.4f}" for d in REAL)],
    ]
    for row, name in first.items():
        rows.append([name, *(f"{mean(r['test'] for r in finals[d][row]):.4f}" for d in REAL)])
    later = {data: _yardsticks_of(data) for data in REAL}
    for row in ("ease-options", "quick", "local-ease", "elsa"):
        values = [mean(r["test"] for r in later[data][row]) for data in REAL]
        rows.append([YARDSTICK_ROWS[row], *(f"{value:.4f}" for value in values)])
    found = _table2()
    for system, name in README_ROWS.items():
        rows.append([name, *(f"{mean(found['validated', d, system]):.4f}" for d in REAL)])
    rows.append(["*the paper's SD-GAR*", *(f"*{value:.4f}*" for value in PAPER["sdgar"])])
    return markdown(["", *(TITLES[data] for data in REAL)], rows)


def table2_search() -> str:
    """What the search on validation rows chose for each system of Table 2."""
    rows = []
    for system in SPACES:
        cells = []
        for data in REAL:
            runs = [r for r in _lines(f"table2/{data}-search.jsonl") if r["system"] == system]
            best = max((r for r in runs if "error" not in r), key=lambda run: run["valid"])
            settings = {k: v for k, v in best["settings"].items() if k in _told(system)}
            words = ", ".join(f"{k} {v:g}" for k, v in settings.items())
            cells.append(f"{words} ({best['valid']:.4f})")
        rows.append([system, *cells])
    return markdown(["system", *(TITLES[data] for data in REAL)], rows)


def _told(system: str) -> list[str]:
    """Name the settings that the search tried more than one value of."""
    return [name for name, values in SPACES[system].items() if len(values) > 1]


# SD-GAR's generator, engines and optimisers

ABLATION = {
    "uniform, weights held (SA)": "uniform, weights held (SA)",
    "uniform, gradient through w": "uniform, gradient through the weights",
    "popularity": "popularity, gradient through the weights",
    "literal, linear, |f-mu| (as printed)":
        "generator, λ literal, linear target, \\|f-μ\\| (as printed)",
    "literal, kl, f": "generator, λ literal, KL target, f",
    "relative, linear, |f-mu|": "generator, λ relative, linear target, \\|f-μ\\|",
    "relative, linear, f": "generator, λ relative, linear target, f",
    "relative, kl, |f-mu|": "generator, λ relative, KL target, \\|f-μ\\|",
    "relative, kl, f (preset)": "generator, λ relative, KL target, f (the preset of that commit)",
    "preset, frozen": "the same, but never updated (frozen)",
    "preset, scrambled": "the same, each context has the states of another (scrambled)",
}  # fmt: skip


def ablation() -> str:
    """SD-GAR with other proposals and other forms of its generator, on CiteULike."""
    found: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    for run in _lines("sdgar/citeulike-ablation.jsonl"):
        found[run["name"], run["settings"]["l2"]].append(run)
    rows, states = [], []
    for name, said in ABLATION.items():
        rows.append([said, *(shown([r["test"] for r in found[name, l2]]) for l2 in (0.03, 0.05))])
        runs = found[name, 0.05]
        learned = all(run["health"] for run in runs)
        perplexities = [
            f"{mean(run['health'][key] for run in runs):,.1f}" if learned else "–"
            for key in ("x_perplexity", "y_perplexity")
        ]
        states.append([*perplexities, f"{mean(run['effective'] for run in runs):.2f}"])
    head = ["proposal and weights", "l2 = 0.03", "l2 = 0.05", "perplexity of X", "of Y",
            "effective negatives of 5"]  # fmt: skip
    joined = [[*row, *state] for row, state in zip(best_bold(rows), states, strict=True)]
    return markdown(head, joined)


def engines() -> str:
    """BPR and SD-GAR by the three engines, on CiteULike."""
    found: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for run in _lines("engines/citeulike.jsonl"):
        if "5 seeds" in run["name"]:
            found[run["system"], run["engine"]][run["seed"]] = run["test"]
    rows = []
    for system in ("bpr", "sdgar"):
        names = ("eager", "fused-gpu", "fused-cpu")
        eager, *fused = (list(found[system, engine].values()) for engine in names)
        cells = [[shown(one), f"{mean(one) / mean(eager) - 1:+z.1%}"] for one in fused]
        rows.append([NAMES[system], shown(eager), *(cell for two in cells for cell in two)])
    head = ["system", "eager, H200", "fused GPU", "beside eager", "fused CPU", "beside eager"]
    return markdown(head, rows)


def lazy_adam() -> str:
    """BPR with dense and with lazy Adam, on CiteULike."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in _lines("engines/citeulike-lazy-adam.jsonl"):
        found[run["settings"]["optimizer"]].append(run["test"])
    names = {"adam": "dense Adam (eager)", "lazy-adam": "lazy Adam (fused)"}
    rows = [[said, shown(found[name])] for name, said in names.items()]
    return markdown(["optimiser", "test NDCG@50, seeds 0 to 4"], rows)


# Defaults

POWERS = (0, 0.25, 0.5, 0.75, 1)
FIXED: dict[str, dict[str, float]] = {
    "bpr": {"learning_rate": 0.2},
    "aobpr": {"learning_rate": 0.1, "rank_scale": 0.05},
    "warp": {"learning_rate": 0.2, "max_tries": 30},
    "dns": {"learning_rate": 0.1, "candidates": 10},
    "sa": {"learning_rate": 0.2, "temperature": 0.5},
    "sdgar": {"learning_rate": 0.2, "temperature": 0.5},
}
"""The settings that are held where rules are compared: those with enough values of l2 tried."""


def defaults() -> str:
    """What the paper's systems reach by their defaults, beside what a search reached."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for run in _lines("defaults/defaults.jsonl"):
        found.setdefault((run["protocol"], run["data"], run["system"]), []).append(run["test"])
    tuned = _table2()
    made = []
    for protocol, said in zip(
        PROTOCOLS, ("validated", "paper: the epoch is chosen on test rows"), strict=True
    ):
        head = ["system"]
        for data in REAL:
            head += [f"{TITLES[data]}, defaults", "tuned", "share"]
            if protocol == "paper":
                head.append("the paper's")
        made += [f"Protocol {said}.", "", _line(head), "|---" * len(head) + "|"]
        for system in PAPERS:
            cells = [NAMES[system]]
            for at, data in enumerate(REAL):
                ours, theirs = found.get((protocol, data, system)), tuned[protocol, data, system]
                if not ours:
                    cells += ["–", shown(theirs), "–"]
                else:
                    cells += [shown(ours), shown(theirs), f"{mean(ours) / mean(theirs):.1%}"]
                if protocol == "paper":
                    cells.append(f"{PAPER[system][at]:.4f}")
            made.append(_line(cells))
        made.append("")
    return "\n".join(made[:-1])


def rules() -> str:
    """For each exponent p: the mean and the least share of the best of the search, over data sets.

    The rule is l2 = c / (rows / (users + items))^p; settings between two that were tried are
    interpolated.
    """
    sizes = _report("defaults/sizes.json")
    per = {data: n["rows"] / (n["users"] + n["items"]) for data, n in sizes.items()}
    runs = _lines("defaults/search.jsonl")
    for data in REAL:
        runs += [run | {"data": data} for run in _lines(f"table2/{data}-search.jsonl")]
    made = [_line(["system", *(f"p = {p:g}" for p in POWERS)]), "|---" * (1 + len(POWERS)) + "|"]
    for system, fixed in FIXED.items():
        mine = [
            run for run in runs if run["system"] == system and run.get("valid") and "c" not in run
        ]
        best = {d: max(r["valid"] for r in mine if r["data"] == d and not r["seed"]) for d in per}
        curves: dict[str, dict[float, list[float]]] = {data: {} for data in per}
        for run in mine:
            if all(run["settings"].get(name, value) == value for name, value in fixed.items()):
                share = run["valid"] / best[run["data"]]
                curves[run["data"]].setdefault(run["settings"]["l2"], []).append(share)
        cells = [NAMES[system]]
        for p in POWERS:
            reached = [
                (mean(shares), min(shares), c)
                for c in np.geomspace(0.01, 20, 120)
                if all(shares := [_at(curves[d], c / per[d] ** p) for d in per])
            ]
            cells.append("{:.3f} (least {:.3f}, c = {:.2g})".format(*max(reached)))
        made.append(_line(cells))
    return "\n".join(made)


def _at(curve: dict[float, list[float]], l2: float) -> float:
    """Return what a setting reaches, between those that were tried; 0 far beyond them."""
    tried = sorted(curve)
    if not tried[0] * 0.8 <= l2 <= tried[-1] * 1.25:
        return 0.0
    return float(np.interp(np.log(l2), np.log(tried), [mean(curve[one]) for one in tried]))


def neighbours() -> str:
    """What numbers of neighbours reach on validation rows, beside the number of the rule."""
    return _by_neighbours("neighbours", (50, 100, 200, 400), 200, "means of two seeds")


def neighbours_of_quick() -> str:
    """The same for quick."""
    return _by_neighbours("neighbours-of-quick", (50, 100, 200), 100, "seed 0")


def _by_neighbours(grid: str, counts: tuple[int, ...], most: int, seeds: str) -> str:
    report, rows = f"{grid}.jsonl", []
    for data in grids.NEIGHBOURLY:
        here = [line for line in _lines(report) if line["data"] == data]
        sizes = here[0]["sizes"]
        each = sizes["rows"] / sizes["items"]
        found = {
            k: mean(line["valid"] for line in here if line["settings"]["neighbours"] == k)
            for k in counts
        }
        best = max(found.values())
        cells = [f"**{v:.4f}**" if v == best else f"{v:.4f}" for v in found.values()]
        rows.append([data, f"{each:.0f}", f"{min(max(round(each), 50), most)}", *cells])
    head = ["data", "rows an item", "by the rule", *(f"k = {k}" for k in counts)]
    return markdown(head, rows) + (
        f"\n\nNDCG@50 on validation rows, {seeds}; {_made_by(report)}. "
        f"`python benchmarks/accuracy.py make {grid} …`."
    )


def temperature() -> str:
    """For each size, what the rule of τ gives beside 0.12 and beside the best temperature."""
    lines = _lines("defaults/temperature.jsonl")
    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[line["rows"] or 0, line["data"]].append(line | {"tau": line["settings"].get("tau")})
    rows = [
        "| data | rows | τ by the rule | best τ on validation rows | test, τ = 0.12 | nearest to "
        "the rule | best on validation rows | most popular | EASE |",
        "|---" * 9 + "|",
    ]
    for (_, data), group in sorted(groups.items(), key=lambda g: (g[0][0] or 10**9, g[0][1])):
        found: dict[Any, dict[str, float]] = {}
        for key in dict.fromkeys((line["system"], line["tau"]) for line in group):
            some = [line for line in group if (line["system"], line["tau"]) == key]
            valid = [line["valid"] for line in some if line["valid"] is not None]
            found[key] = {"test": mean(line["test"] for line in some)}
            found[key] |= {"valid": mean(valid)} if valid else {}
        taus = [tau for system, tau in found if system == "sdsoftmax"]
        n = round(mean(line["sizes"]["rows"] for line in group))
        rule = temperature_of(range(round(0.72 * n)))  # type: ignore[arg-type]
        best = max(taus, key=lambda tau: found["sdsoftmax", tau]["valid"])
        near = min(taus, key=lambda tau: abs(tau - rule))
        shown = [found["sdsoftmax", tau]["test"] for tau in (0.12, near, best)]
        others = [found.get((name, None), {}).get("test") for name in ("popular", "ease")]
        cells = [f"{v:.4f}" if v is not None else "" for v in (*shown, *others)]
        rows.append(f"| {data} | {n:,} | {rule:g} | {best:g} | {' | '.join(cells)} |")
    about = lines[0]["about"]
    rows += [
        "",
        "NDCG@50; seeds 0 and 1 up to 20,000 rows, seed 0 above; "
        f"commit `{about['commit'][:7]}` on {about['machine']}.",
    ]
    return "\n".join(rows)


# SD-Softmax

ROWS = {
    "defaults64": "SD-Softmax, D = 64",
    "tuned64": "SD-Softmax, D = 64, tuned",
    "defaults128": "**SD-Softmax, D = 128**",
    "tuned128": "SD-Softmax, D = 128, tuned",
    "ials": "iALS, D = 512, tuned",
    "ease": "EASE, tuned",
}


def _finals(dataset: str) -> dict[str, list[dict[str, Any]]]:
    """Collect the runs of each row of the table."""
    runs = _lines(f"sdsoftmax/{dataset}-final.jsonl")
    best = {
        row: grids.changes_of(run)
        for row, run in grids.chosen(dataset).items()
        if row.startswith("tuned")
    }
    found: dict[str, list[dict[str, Any]]] = {row: [] for row in ROWS}
    for run in runs:
        if run["system"] != "sdsoftmax":
            found[run["system"]].append(run)
            continue
        dim = run["settings"].get("dim", 128)
        changes = grids.changes_of(run)
        for row, wanted in ((f"defaults{dim}", {}), (f"tuned{dim}", best[f"tuned{dim}"])):
            if changes == wanted:
                found[row].append(run)
    return found


def sdsoftmax() -> str:
    """SD-Softmax beside iALS and EASE on seven data sets, with spreads."""
    every = {data: _finals(data) for data in DATASETS}
    rows = [[name, *(shown([r["test"] for r in every[d][row]]) for d in DATASETS)]
            for row, name in ROWS.items()]  # fmt: skip
    return markdown(["NDCG@50", *DATASETS.values()], best_bold(rows))


def sdsoftmax_short() -> str:
    """The same for the largest models, without spreads."""
    every = {data: _finals(data) for data in DATASETS}
    rows = [[name, *(f"{mean(r['test'] for r in every[d][row]):.4f}" for d in DATASETS)]
            for row, name in ROWS.items() if "64" not in row]  # fmt: skip
    return markdown(["NDCG@50", *DATASETS.values()], best_bold(rows))


BARS = "LightGCN, D = 64, as reproduced by BARS"
BSL = "matrix factorization with the BSL loss, 800 uniform negatives (its authors' logs)"
PUBLISHED = {BARS: (0.1820, 0.1547), BSL: (0.1882, 0.1584)}
"""Recall@20 and NDCG@20 that others published for LightGCN's split of Gowalla."""


def lightgcn() -> str:
    """SD-Softmax on LightGCN's split, in the metrics of that literature."""
    every, metrics = _finals("lightgcn"), ("recall@20", "ndcg@20")
    rows = [[name, *(shown([r["metrics"][metric] for r in every[row]]) for metric in metrics)]
            for row, name in ROWS.items()]  # fmt: skip
    lines = _lines("lightgcn.jsonl")
    tried = [line for line in lines if line["protocol"] == "valid"]
    best = max(tried, key=lambda line: line["valid"])["settings"]
    kept = [line for line in lines if line["protocol"] == "validated" and line["settings"] == best]
    memory = f"SD-Softmax with its memory, D = {best['dim']}, {best['epochs']} epochs, "
    memory += f"τ = {best['tau']:g}, the best of {len(tried)} on validation rows"
    rows.append([memory, *(shown([r["metrics"][metric] for r in kept]) for metric in metrics)])
    others = [[f"*{name}*", *(f"*{v:.4f}*" for v in both)] for name, both in PUBLISHED.items()]
    return markdown(["", "recall@20", "NDCG@20"], [*best_bold(rows), *others])


SIGNS = {"tau": "τ", "learning_rate": "rate", "l2": "λ", "alpha": "α"}


def sdsoftmax_search() -> str:
    """What the search chose for the tuned rows, with NDCG@50 on validation rows."""
    every = {data: grids.chosen(data) for data in DATASETS}
    rows = []
    for row, name in ROWS.items():
        if row.startswith("defaults"):
            continue
        cells = [name.removesuffix(", tuned")]
        for runs in every.values():
            run = runs[row]
            changes = grids.changes_of(run) if run["system"] == "sdsoftmax" else run["settings"]
            words = [f"{SIGNS[k]} {v:g}" for k, v in changes.items() if k in SIGNS]
            cells.append(f"{', '.join(words) or 'the defaults'} ({run['valid']:.4f})")
        rows.append(cells)
    return markdown(["chosen on validation rows", *DATASETS.values()], rows)


def seconds_to_accuracy() -> str:
    """Training seconds until test NDCG@50 reaches some values, on two cores and on a GPU."""
    rows = []
    for machine, name in (("2 cores", "cpu"), ("H200", "h200")):
        data = _report(f"sdsoftmax/seconds-{name}.json")["data"]
        goals = [(d, goal) for d in data for goal in data[d]["SD-Softmax"]["seconds_to"]]
        fastest = {
            (d, goal): min(filter(None, (run["seconds_to"][goal] for run in data[d].values())))
            for d, goal in goals
        }
        for system in dict.fromkeys(system for runs in data.values() for system in runs):
            cells = [f"{system}, {machine}"]
            for d, goal in goals:
                run = data[d].get(system)
                if run is None:
                    cells.append("–")
                elif seconds := run["seconds_to"][goal]:
                    cells.append(bold(f"{seconds:.2f}", on=seconds == fastest[d, goal]))
                else:
                    spent, best = max(run["looks"], key=lambda look: look[1])
                    cells.append(f"never ({best:.4f} in {spent:.2f} s)")
            rows.append(cells)
    head = [f"{TITLES[d]}, {float(goal):.3f}" for d, goal in goals]
    return markdown(["training seconds to", *head], rows)


def seconds_by_items() -> str:
    """How the parts of SD-Softmax grow with the number of items."""
    names = {
        "start": "start",
        "latent classes and refit": "latent classes",
        "epoch": "epoch",
        "refit": "refit (every second epoch)",
        "implicit ALS, a sweep at D = 128": "implicit ALS, a sweep at D = 128",
        "EASE": "EASE",
    }
    rows = []
    for items, parts in _report("sdsoftmax/items-cpu.json")["items"].items():
        cells = [f"{parts[part]:.1f}" if part in parts else "–" for part in names]
        rows.append([f"{int(items):,}", *cells])
    return markdown(["items", *names.values()], rows)


def draws() -> str:
    """NDCG@50 of SD-Softmax by who proposes, and how often."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for run in _lines("sdsoftmax/citeulike-draws.jsonl"):
        if "error" not in run:
            key = run["settings"]["proposal"], run["settings"]["n_negatives"]
            found[key].append(run["valid"])
    rows = []
    for name, label in PROPOSALS.items():
        several = [found[name, n] for n in grids.DRAWS]
        rows.append([label, *(f"{mean(values):.4f}" if values else "–" for values in several)])
    return markdown(["draws", *(f"{n:,}" for n in grids.DRAWS)], rows)


def dislikes() -> str:
    """Validation and test of each share of dislikes, and the share that validation chooses."""
    lines = _lines("dislikes.jsonl")
    cells: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        cells[line["system"], line["settings"].get("dislikes", 0.0)].append(line)
    said = {p: "none" if p == 0 else f"p = {p:g}" for p in SHARES}
    rows = []
    for system in DISLIKING:
        best = max(SHARES, key=lambda p, s=system: mean(line["valid"] for line in cells[s, p]))
        for what, name, chosen in (("valid", f"`{system}`", said[best]), ("test", "", "")):
            values = [shown([line[what] for line in cells[system, p]]) for p in SHARES]
            rows.append([name, what, *values, chosen])
    about = lines[0]["about"]
    torch = f", torch {about['torch']}" if "torch" in about else ""
    return markdown(["system", "rows", *said.values(), "chosen"], rows) + (
        f"\n\nMeans and standard deviations of NDCG@50 over seeds {', '.join(map(str, SEEDS))}; "
        f"commit `{about['commit'][:7]}` on {about['machine']}{torch}."
    )


def disliked() -> str:
    """Validation and test without and with dislikes, and how many held-out dislikes lists hold."""
    lines = _lines("disliked.jsonl")
    titles = {"ratings-neutral": "MovieLens-100K", "anime-ratings": "Anime"}
    rows = []
    for data, title in titles.items():
        for system in DISLIKING:
            cells = []
            for what in ("valid", "test", "disliked"):
                for p in (0.0, 0.1):
                    some = [
                        line[what] for line in lines
                        if (line["data"], line["system"]) == (data, system)
                        and line["settings"].get("dislikes", 0.0) == p
                    ]  # fmt: skip
                    cells.append(shown(some))
            rows.append([title, f"`{system}`", *cells])
            title = ""
    head = ["data", "system", "valid, none", "valid, p = 0.1", "test, none", "test, p = 0.1"]
    head += ["disliked, none", "disliked, p = 0.1"]
    seeds = {t: len(grids.DISLIKED[d]) for d, t in titles.items()}
    about = lines[0]["about"]
    said = ", ".join(f"{n} seed{'s' if n > 1 else ''} on {t}" for t, n in seeds.items())
    return markdown(head, rows) + (
        f"\n\n{said}; engine {lines[0]['engine']}, {about['machine']}, commit "
        f"`{about['commit'][:7]}`."
    )


def memory() -> str:
    """SD-Softmax without and with a memory, and the memory alone, on every data set."""
    lines = _lines("memory.jsonl")
    rows = []
    for data, title in (grids.DATASETS | grids.FURTHER).items():
        cells = [title]
        here = [line for line in lines if line["data"] == data]
        learned = [line for line in here if line["system"] == "sdsoftmax"]
        for some in (
            [line for line in learned if line["settings"]["memory"] == 0],
            [line for line in here if line["system"] == "local-ease"],
            [line for line in learned if line["settings"]["memory"] is None],
        ):
            cells += [shown([line["metrics"][f"ndcg@{k}"] for line in some]) for k in (50, 20)]
        chosen = [f"{line['memory']:g}" for line in learned if line["settings"]["memory"] is None]
        rows.append([*cells, ", ".join(chosen)])
    head = ["", "vectors @50", "@20", "memory @50", "@20", "both @50", "@20", "γ of each seed"]
    return markdown(head, rows) + (
        f"\n\nMeans and standard deviations of test NDCG over seeds "
        f"{', '.join(map(str, SEEDS))}, protocol validated, default settings; "
        f"{_made_by('memory.jsonl')}."
    )


def schedule() -> str:
    """SD-Softmax at one rate, at a falling rate in two passes, and as it is by default."""
    reports = ("memory-one-rate", "memory-two-passes", "memory")
    ways = {name: _with_memory(f"{name}.jsonl") for name in reports}
    rows = []
    for data, title in grids.DATASETS.items():
        cells = [title]
        for name, found in ways.items():
            runs = found[data]
            once = name == "memory"
            epochs = [run["epochs"] + (0 if once else run["best_epoch"]) for run in runs]
            cells += [shown([run["test"] for run in runs]), f"{mean(epochs):.0f}"]
        rows.append(cells)
    head = ["", "one rate", "epochs", "falling rate, two passes", "epochs", "default", "epochs"]
    made_by = _made_by(*(f"{name}.jsonl" for name in reports))
    return markdown(head, rows) + (
        "\n\nTest NDCG@50 over three seeds, with the memory's weight chosen on validation rows. "
        f"Epochs are those of all passes. Made by {made_by}."
    )


def going_on() -> str:
    """The default, which goes on with all rows, beside a start anew with the same weight."""
    on = _with_memory("memory.jsonl")
    fresh: dict[str, list[float]] = defaultdict(list)
    for line in _lines("anew.jsonl"):
        fresh[line["data"]].append(line["test"])
    rows = []
    for data, title in (grids.DATASETS | grids.FURTHER).items():
        here = [line["test"] for line in on[data]]
        ratio = mean(here) / mean(fresh[data])
        rows.append([title, shown(here), shown(fresh[data]), f"{100 * (ratio - 1):+.1f} %"])
    return markdown(["", "goes on", "anew", "difference"], rows) + (
        f"\n\nTest NDCG@50 over three seeds; {_made_by('anew.jsonl')}."
    )


NIGHT_SETS = {
    "movielens-100k": "MovieLens-100K",
    "amazon-videogames": "Amazon Video Games",
    "amazon-beauty": "Amazon Beauty",
    "movielens-1m-ordered": "MovieLens-1M",
}


NIGHT_SYSTEMS = {"sdsoftmax": "SD-Softmax", "sdgar": "SD-GAR", "bpr": "BPR"}


def _nights() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Collect the nights by data set and system."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    lines = _measured_nights()
    for system, data in itertools.product(NIGHT_SYSTEMS, NIGHT_SETS):
        own = [n for n in lines if (n["data"], n["system"]) == (data, system)]
        if own:
            found[NIGHT_SETS[data], NIGHT_SYSTEMS[system]] = own
    return found


def _measured_nights() -> list[dict[str, Any]]:
    """Return the lines of the nights that were measured on a GPU, many seeds of each."""
    return [n for n in _lines("nights-gpu.jsonl") if n["about"]["what"] == "measure"]


def _night_mean(lines: list[dict[str, Any]], how: str) -> float:
    """Return the mean of NDCG@50 over all users of some nights."""
    return sum(n[how]["sum of ndcg@50"] for n in lines) / sum(n["users"] for n in lines)


def _night_gain(lines: list[dict[str, Any]]) -> float:
    """Return by how many percent the model that goes on is better."""
    return 100 * (_night_mean(lines, "going_on") / _night_mean(lines, "anew") - 1)


def _night_error(lines: list[dict[str, Any]]) -> str:
    """Return the standard error over users of that, in percent, with one seed; – if unknown."""
    if "squares" not in lines[0]:
        return "–"
    users = sum(n["users"] for n in lines)
    gain = _night_mean(lines, "going_on") - _night_mean(lines, "anew")
    spread = sum(n["squares"] for n in lines) / users - gain**2
    return f"{100 * (spread / users) ** 0.5 / _night_mean(lines, 'anew'):.1f} %"


def _by_seed(lines: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the nights of each seed."""
    return [[n for n in lines if n["seed"] == s] for s in sorted({n["seed"] for n in lines})]


def nights() -> str:
    """A model that goes on every night beside one that is trained anew, over ten nights."""
    rows = []
    for (title, system), lines in _nights().items():
        seeds = _by_seed(lines)
        each = [_night_gain(own) for own in seeds]
        error = f"{stdev(each) / len(each) ** 0.5:.1f} %" if len(each) > 1 else "–"
        rows.append(
            [title, system, f"{sum(n['users'] for n in seeds[0]):,}", str(len(seeds)),
             f"{_night_mean(lines, 'going_on'):.4f}", f"{_night_mean(lines, 'anew'):.4f}",
             f"{mean(each):+.1f} %", error, _night_error(seeds[0])]
        )  # fmt: skip
    head = ["", "system", "users", "seeds", "goes on", "anew", "difference", "± over seeds",
            "± over users"]  # fmt: skip
    commits = dict.fromkeys(f"`{n['about']['commit'][:7]}`" for n in _measured_nights())
    return markdown(head, rows) + (
        "\n\nNDCG@50 over all users of ten nights; ± is one standard error, over users with the "
        f"first seed. Commits {', '.join(commits)} on an NVIDIA H200; "
        "`python benchmarks/nights.py measure`."
    )


def nights_seconds() -> str:
    """The seconds of going on beside those of training anew, with one thread."""
    rows = []
    for data, title in NIGHT_SETS.items():
        lines = [n for n in _lines("nights.jsonl") if n["data"] == data]
        fast, slow = (mean(n[how]["cpu_seconds"] for n in lines) for how in ("going_on", "anew"))
        rows.append([title, f"{mean(n['train_rows'] for n in lines):,.0f}", f"{fast:.1f} s",
                     f"{slow:.1f} s", f"{fast / slow:.2f}"])  # fmt: skip
    about = _lines("nights.jsonl")[0]["about"]
    return markdown(["", "training rows", "goes on", "anew", "ratio"], rows) + (
        "\n\nThe mean seconds that one thread computes a night of SD-Softmax; commit "
        f"`{about['commit'][:7]}` on {about['cpu']}; `python benchmarks/nights.py measure`."
    )


def nights_weights() -> str:
    """SD-Softmax on MovieLens-100K with each weight of its memory, and how often it was chosen."""
    lines = _lines("nights-weights.jsonl")
    users = sum(n["users"] for n in lines)
    first, chosen = (Counter(n[which] for n in lines) for which in ("first", "chosen"))
    rows = [
        [weight, *(f"{sum(n[how][weight] for n in lines) / users:.4f}"
                   for how in ("going_on", "anew")),
         *(f"{100 * often[float(weight)] / len(lines):.0f} %" for often in (first, chosen))]
        for weight in lines[0]["anew"]
    ]  # fmt: skip
    head = ["weight", "goes on", "anew", "of the first night", "chosen by training anew"]
    about = lines[0]["about"]
    return markdown(head, rows) + (
        f"\n\nNDCG@50 over {len({n['seed'] for n in lines})} seeds; commit "
        f"`{about['commit'][:7]}` on {about['gpu']}; `python benchmarks/nights.py weights`."
    )


def nights_chosen() -> str:
    """The numbers of epochs and rates that were tried on the nights before."""
    lines = [n for n in _lines("nights-gpu.jsonl") if n["about"]["what"] == "choose"]
    rows = []
    for system in ("sdgar", "bpr"):
        own = [n for n in lines if n["system"] == system]
        tried = sorted({(n["further_epochs"], n["further_rate"]) for n in own})
        for epochs, rate in tried:
            cells = []
            for data in NIGHT_SETS:
                on, anew = (
                    mean(n[how]["ndcg@50"] for n in own
                         if (n["data"], n["further_epochs"], n["further_rate"])
                         == (data, epochs, rate))
                    for how in ("going_on", "anew")
                )  # fmt: skip
                cells.append(f"{100 * (on / anew - 1):+.1f} %")
            rows.append([NIGHT_SYSTEMS[system], str(epochs), f"{rate:g}", *cells])
    return markdown(["", "further_epochs", "further_rate", *NIGHT_SETS.values()], rows) + (
        "\n\nBeside training anew, after four and after eight of the ten nights before; two or "
        "three seeds."
    )


def nights_each() -> str:
    """The same night by night."""
    found = {title: own for (title, system), own in _nights().items() if system == "SD-Softmax"}
    rows = []
    for number in range(1, 11):
        cells = []
        for lines in found.values():
            own = [n for n in lines if n["night"] == number]
            pair = (f"{_night_mean(own, how):.4f}" for how in ("going_on", "anew"))
            cells.append(" / ".join(pair) if sum(n["users"] for n in own) else "–")
        rows.append([str(number), *cells])
    return markdown(["night", *found], rows)


def effort() -> str:
    """The three efforts of sdgar train on every data set."""
    quick: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in _lines("memory.jsonl"):
        if line["system"] == "quick":
            quick[line["data"]].append(line)
    thorough: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in _lines("thorough.jsonl"):
        thorough[line["data"]].append(line)
    usual = _with_memory("memory.jsonl")
    rows = []
    for data, title in (grids.DATASETS | grids.FURTHER).items():
        cells = [title]
        for runs in (quick[data], usual[data], thorough[data]):
            cells += [f"{mean(r['metrics'][f'ndcg@{k}'] for r in runs):.4f}" for k in (50, 20)]
        rows.append(cells)
    head = ["NDCG", "--fast @50", "@20", "default @50", "@20", "--thorough @50", "@20"]
    return markdown(head, rows) + (
        "\n\nTest rows, protocol validated; means of three seeds, but one of --fast. Made by "
        f"{_made_by('memory.jsonl', 'thorough.jsonl')}."
    )


def command(path: str = "command.json") -> str:
    """The seconds of the whole command, in multiples of ALS."""
    report = _report(path)
    rows = []
    for data, found in report["data"].items():
        for name, row in found.items():
            times = f"{row['times_als']:.1f}" if "times_als" in row else "–"
            quality = f"{row['ndcg@50']:.4f}" if "ndcg@50" in row else "–"
            rows.append([TITLES[data], name, f"{row['seconds']:.1f} s", times, quality])
    return markdown(["", "", "seconds", "times ALS", "NDCG@50"], rows) + (
        f"\n\n{report['cpu']}, {report['threads']} threads, commit `{report['commit'][:7]}`."
    )


def _made_by(*reports: str) -> str:
    """Say by which commits and on which machines reports were made."""
    about = [line["about"] for report in reports for line in _lines(report)]
    commits = list(dict.fromkeys(f"`{one['commit'][:7]}`" for one in about))
    machines = ", ".join(dict.fromkeys(one["machine"] for one in about))
    return f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)} on {machines}"


def _with_memory(report: str) -> dict[str, list[dict[str, Any]]]:
    """Collect the runs of SD-Softmax whose memory was chosen, by data set."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in _lines(report):
        if line["system"] == "sdsoftmax" and line["settings"]["memory"] is None:
            found[line["data"]].append(line)
    return found


def memory_weights() -> str:
    """What three rules for γ choose on validation rows, and what that is worth on test rows."""
    pairs: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for line in _lines("memory-weights.jsonl"):
        pairs[DATASETS.get(line["data"], grids.FURTHER.get(line["data"], line["data"])),
              line["split"]][line["rows"]] = line  # fmt: skip
    rows = []
    for (title, split), line in sorted(pairs.items(), key=lambda pair: (pair[0][1], pair[0][0])):
        valid, test = line["valid"]["ndcg@50"], line["test"]["ndcg@50"]
        best = max(valid, key=lambda g: valid[g])
        gain = valid[best] - valid["0"]
        lost = line["valid"]["loss_and_error"]
        enough = next(g for g in valid if valid[g] - valid["0"] >= 0.9 * gain)
        within = next(g for g in valid if lost[g][0] <= lost[g][1])
        cells = [f"{g}: {test[g]:.4f}" for g in (best, within, enough)]
        rows.append([title, split, f"{test['0']:.4f}", *cells])
    head = ["", "test rows", "no memory", "best γ", "within one error", "nine tenths of the gain"]
    about = line["test"]["about"]
    return markdown(head, rows) + (
        f"\n\nγ and test NDCG@50 with it; {about['protocol']}; commit `{about['commit'][:7]}` on "
        f"{about['machine']}."
    )


def memory_parts() -> str:
    """What k, λ, β and γ are worth, and for whom."""
    found = _report("memory-parts.json")["sets"]
    rows = []
    for name, sign in (("k", "k"), ("l2", "λ"), ("beta", "β")):
        for value in next(iter(found.values()))[name]:
            cells = [f"{sign} = {float(value):g}"]
            for worth in found.values():
                one = worth[name][value]
                cells += [f"{one['memory']:.4f}", f"{one['both']:.4f} (γ = {one['weight']:g})"]
            rows.append(cells)
    for weight in next(iter(found.values()))["weights"]:
        cells = [f"γ = {float(weight):g}"]
        for worth in found.values():
            chosen = " (chosen)" if worth["chosen"] == float(weight) else ""
            cells += ["", f"{worth['weights'][weight]:.4f}{chosen}"]
        rows.append(cells)
    head = ["k = 50, λ = 20, β = 0.5, but"]
    for data in found:
        head += [f"{DATASETS[data]}, memory", "both, best γ"]
    kinds = ["users with short histories", "users in between", "users with long histories"]
    kinds += ["rows of rare items", "rows in between", "rows of popular items"]
    groups = []
    for place, kind in enumerate(kinds):
        cells = [kind]
        for worth in found.values():
            of = worth["histories" if place < 3 else "items"]
            cells += [f"{of[model][place % 3]:.4f}" for model in ("vectors", "memory", "both")]
        groups.append(cells)
    of_groups = [""]
    for data in found:
        of_groups += [f"{DATASETS[data]}, vectors", "memory", "both"]
    alone = ", ".join(f"{DATASETS[data]} {worth['vectors']:.4f}" for data, worth in found.items())
    return (
        f"{markdown(head, rows)}\n\nVectors alone: {alone}. Thirds of users by their number of "
        "training rows have NDCG@50; thirds of held-out rows by the popularity of their item have "
        f"the share that is among the first 50:\n\n{markdown(of_groups, groups)}"
    )


def memory_items() -> str:
    """Seconds and memory of the weights for more and more items."""
    report = _report("memory-items.json")
    rows = [
        [f"{int(items):,}", f"{one['rows']:,}", f"{one['seconds']:.1f} s",
         f"{one['peak_gib'] - one['data_gib']:.1f} GiB"]
        for items, one in report["items"].items()
    ]  # fmt: skip
    head = ["items", "rows", "time", "memory beyond the data"]
    return markdown(head, rows) + (f"\n\nCommit `{report['commit'][:7]}` on {report['cpu']}.")


def memory_on_disk() -> str:
    """Seconds and memory of the weights from shards, within limits and in memory."""
    report = _report("memory-on-disk.json")
    rows = [
        [f"{one['rows']:,}", f"{one['users']:,}", _limit(one["limit_gib"]),
         f"{one['seconds']:.0f} s", f"{one['cpu_seconds']:.0f} s",
         f"{one['peak_gib']['anonymous']:.2f} GiB", f"{one['peak_gib']['files']:.2f} GiB",
         f"`{one['sha256'][:8]}`"]
        for one in report["runs"]
    ]  # fmt: skip
    head = ["rows", "users", "limit", "time", "CPU time", "allocated", "pages of files", "weights"]
    return markdown(head, rows) + (
        f"\n\n{report['items']:,} items with {report['neighbours']} neighbours each, "
        f"{report['threads']} threads. The weights are told by the first digits of their SHA-256. "
        f"Commit `{report['commit'][:7]}` on {report['cpu']}; {report['load']:.0f} processes "
        "wanted its cores at the same time."
    )


def _limit(gib: float | None) -> str:
    return "in memory" if gib is None else f"{gib:g} GiB"


def sharded_training() -> str:
    """Seconds and memory of training on shards, by the number of rows."""
    runs = _report("sharded_training.json")["runs"]
    rows = [
        [f"{one['rows']:,}", f"{one['users']:,}", one["limit"],
         f"{one['train']['peak_anonymous'] / 2**30:.2f} GiB",
         f"{one['train']['peak_of_files'] / 2**30:.2f} GiB",
         *(f"{one['seconds'][part]:.0f} s" for part in
           ("start", "memory", "refit", "train", "evaluate")),
         f"{one['train']['cpu_seconds']:.0f} s",
         f"{1e6 * one['train']['cpu_seconds'] / one['rows']:.0f} µs"]
        for one in runs
    ]  # fmt: skip
    head = [
        "rows", "users", "`--memory`", "arrays", "pages of files", "start", "memory of histories",
        "generator", "epoch", "measuring", "of cores, in all", "a row",
    ]  # fmt: skip
    one = runs[-1]
    contained = [run["container_bytes"] for run in runs if run.get("container_bytes")]
    said = f" The process had a container of {min(contained) / 2**30:g} GiB." if contained else ""
    return markdown(head, rows) + (
        f"\n\n{one['items']:,} items, D = {one['dim']}, {one['epochs']} epoch, measured on 20,000 "
        f"users; commit `{one['commit'][:7]}` on {one['cpu']}.{said} About {one['load']:.0f} "
        "processes wanted the cores at the same time, so seconds of the clock are several times "
        "those of an idle machine."
    )


def memory_seconds() -> str:
    """Seconds and accuracy of the weights beside implicit's ALS, in turns."""
    report = _report("memory-seconds.json")
    als = report["als"]
    names = {
        "local-ease": "local-ease",
        "implicit ALS": f"implicit's ALS, D = {als['factors']}, {als['iterations']} sweeps",
    }
    rows = [
        [title, f"{median(report['seconds'][name]):.1f} s", f"{report['ndcg@50'][name]:.4f}"]
        for name, title in names.items()
    ]
    return markdown(["Gowalla, two threads", "fit", "test NDCG@50"], rows) + (
        f"\n\nMedians of {len(report['seconds']['local-ease'])} rounds in turns; commit "
        f"`{report['commit'][:7]}` on {report['cpu']}."
    )


def new_users() -> str:
    """Users who were folded in beside the same users trained, without and with a memory."""
    reports = {
        "vectors": _report("sdsoftmax/fold-in-gowalla.json"),
        "vectors and a memory": _report("fold-in-gowalla-memory.json"),
    }
    rows = [
        [name, f"{r['ndcg@50_trained']:.4f}", f"{r['ndcg@50_folded']:.4f}", f"{r['ratio']:.1%}",
         f"{r['users_per_second']:,}"]
        for name, r in reports.items()
    ]  # fmt: skip
    head = ["SD-Softmax, Gowalla", "trained", "folded in", "ratio", "users folded in a second"]
    users = reports["vectors and a memory"]["users"]
    return markdown(head, rows) + (
        f"\n\nTest NDCG@50 of {users:,} users who were left out of training; "
        "`python benchmarks/evaluation.py fold-in --dataset gowalla --set memory=8`, two threads. "
        "The vectors alone were measured at one rate, the others with today's defaults."
    )


def _new_items() -> list[dict[str, Any]]:
    """Return the runs with new items, by data set and system."""
    sets = {name: at for at, name in enumerate(NEW_ITEMS)}
    runs = _lines("new_items.jsonl")
    return sorted(runs, key=lambda r: (sets[r["data"]], r["system"], r["seed"]))


NEW_ITEMS = {
    "movielens-1m-ordered": "MovieLens-1M, genres and titles",
    "s3rec-beauty": "Beauty, attributes",
    "s3rec-sports": "Sports, attributes",
}
"""The data sets with features, as tables call them."""


def _with_interval(found: dict[str, float]) -> str:
    return f"{found['ndcg']:.4f} [{found['low']:.4f}, {found['high']:.4f}]"


def new_items_cold() -> str:
    """Cold items among each other, by their features, by popularity and at random."""
    rows = []
    for run in _new_items():
        own = run["cold"]
        found = [own["among_cold"][name] for name in ("model", "popular", "random")]
        how_many = f"{own['cold']:,} of {own['items']:,}"
        shown = map(_with_interval, found)
        rows.append([NEW_ITEMS[run["data"]], run["system"], how_many, *shown])
    head = ["data", "system", "cold items", "by features", "popular", "random"]
    return markdown(head, rows) + (
        "\n\nTest NDCG@20 with its 95 % interval over users. Popular has no event of a cold item, "
        "and ranks them in the order of their ids." + _new_items_about()
    )


def new_items_all() -> str:
    """All items ranked, with and without cold ones, on all test rows and on those of warm items."""
    rows = []
    for run in _new_items():
        both, warm = run["cold"]["among_all"], run["cold"]["warm"]
        share = run["cold"]["share_of_lists"]
        change = warm["with"]["ndcg"] / warm["without"]["ndcg"] - 1
        rows.append(
            [NEW_ITEMS[run["data"]], run["system"], f"{both['without']['ndcg']:.4f}",
             f"{both['model']['ndcg']:.4f}", f"{both['popular']['ndcg']:.4f}",
             f"{both['random']['ndcg']:.4f}", f"{warm['without']['ndcg']:.4f}",
             f"{warm['with']['ndcg']:.4f}", f"{change:+.2%}", f"{share:.2%}"]
        )  # fmt: skip
    head = ["data", "system", "without cold items", "with", "popular", "random",
            "warm rows without", "with", "change", "cold in lists"]  # fmt: skip
    return markdown(head, rows) + (
        "\n\nTest NDCG@20 of all test rows, then of the rows of warm items alone; the last column "
        "is the share of cold items among the first 20 of all users." + _new_items_about()
    )


def new_items_few() -> str:
    """Items with five events, added or trained, beside the same items with all their rows."""
    rows = []
    for run in _new_items():
        found = {name: one["ndcg"] for name, one in run["few"]["among_chosen"].items()}
        others = {name: one["ndcg"] for name, one in run["few"]["others"].items()}
        five, added = found["trained on five"], found["added by five"]
        rows.append(
            [NEW_ITEMS[run["data"]], run["system"], f"{run['few']['items']:,}",
             f"{found['trained on all']:.4f}", f"{five:.4f}", f"{added:.4f}", f"{added / five:.0%}",
             f"{added / found['trained on all']:.0%}",
             f"{found['added by five and features']:.4f}",
             f"{others['added by five'] / others['trained on five'] - 1:+.2%}"]
        )  # fmt: skip
    head = ["data", "system", "items", "trained, all rows", "trained, five rows", "added by five",
            "of trained, five", "of trained, all", "and by features", "other items"]  # fmt: skip
    return markdown(head, rows) + (
        "\n\nTest NDCG@20. The last column is the change of the NDCG@20 of all other items, among "
        "all items, beside the model that was trained on five rows of each." + _new_items_about()
    )


def _new_items_about() -> str:
    runs = _new_items()
    commits = dict.fromkeys(run["about"]["commit"][:7] for run in runs)
    cpus = dict.fromkeys(run["about"]["cpu"] for run in runs)
    return (
        " `python benchmarks/new_items.py --set … --system … --seed 0`, commit "
        f"{', '.join(f'`{commit}`' for commit in commits)} on {', '.join(cpus)}."
    )


def explained() -> str:
    """What ``sdgar explain`` prints."""
    return "```\n" + (REPORTS / "explained.txt").read_text().rstrip() + "\n```"


YARDSTICK_ROWS = {
    "thorough": "SD-Softmax with --thorough",
    "ours": "SD-Softmax, defaults",
    "quick": "quick (--fast)",
    "local-ease": "local-ease, defaults",
    "ease-options": "EASE with the options of DAN and RDLAE",
    "ease": "EASE",
    "ials": "iALS, D ≤ 512",
    "elsa": "ELSA, D ≤ 2,048",
    "item-knn": "item-kNN",
}


def yardsticks() -> str:
    """SD-Softmax with a memory beside models that were tuned on validation rows."""
    runs = {data: _yardsticks_of(data) for data in grids.MEASURED}
    rows = []
    for row, title in YARDSTICK_ROWS.items():
        cells = [title]
        for data in grids.MEASURED:
            own = runs[data][row]
            heads = [line["metrics"]["ndcg@20"] for line in own if "metrics" in line]
            cells += [f"{mean(line['test'] for line in own):.4f}",
                      f"{mean(heads):.4f}" if heads else "–"]  # fmt: skip
        rows.append(cells)
    head = ["NDCG"]
    for data in grids.MEASURED:
        head += [f"{DATASETS[data]} @50", "@20"]
    tries = Counter(
        line["data"] for line in _lines("yardsticks/search.jsonl") if line["system"] == "elsa"
    )
    few = ", ".join(f"{DATASETS[d]} {tries[d]}" for d in grids.MEASURED if tries[d] < 12)
    return markdown(head, best_bold(rows)) + (
        "\n\nTest rows, protocol validated. Ours and iALS are means of three seeds; others have "
        "one. Ours, quick and local-ease are not tuned. On validation rows, 12 settings of EASE "
        "with options and of item-kNN were tried, 7 to 12 of EASE, 48 of iALS, and 12 of ELSA, or "
        f"fewer where the time ran out: {few}."
    )


def yardsticks_further() -> str:
    """The same on further sets of 5,000 users or more."""
    finals = _lines("yardsticks/final.jsonl")
    rows = []
    for row, title in YARDSTICK_ROWS.items():
        cells = [title]
        for data in grids.ALSO_MEASURED:
            own = _further_runs(data, row, finals)
            for metric in ("ndcg@50", "ndcg@20"):
                value = f"{mean(line['metrics'][metric] for line in own):.4f}" if own else "–"
                cells.append(value)
        rows.append(cells)
    head = ["NDCG"]
    for data in grids.ALSO_MEASURED:
        head += [f"{grids.FURTHER[data]} @50", "@20"]
    return markdown(head, best_bold(rows)) + (
        "\n\nTest rows, protocol validated. Ours and iALS are means of three seeds; others have "
        "one. Ours, quick and local-ease are not tuned; of each other row, 12 settings were tried "
        "on validation rows, or as many of ELSA as fit beside other runs on the GPU."
    )


def _further_runs(data: str, row: str, finals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Collect the runs of one row of a further set."""
    if row == "ours":
        return _with_memory("memory.jsonl")[data]
    if row == "thorough":
        return [line for line in _lines("thorough.jsonl") if line["data"] == data]
    if row in ("quick", "local-ease"):
        lines = _lines("memory.jsonl")
        return [line for line in lines if (line["data"], line["system"]) == (data, row)]
    system, tried = grids.TRIES[row]
    return [
        line for line in finals
        if (line["data"], line["system"]) == (data, system) and line["settings"] in tried
    ]  # fmt: skip


def _yardsticks_of(data: str) -> dict[str, list[dict[str, Any]]]:
    """Collect the runs of each row of the table."""
    found = {row: _finals(data)[row] for row in ("ease", "ials")}
    found["ours"] = _with_memory("memory.jsonl")[data]
    for system in ("local-ease", "quick"):
        found[system] = [
            line for line in _lines("memory.jsonl")
            if line["data"] == data and line["system"] == system
        ]  # fmt: skip
    found["thorough"] = [line for line in _lines("thorough.jsonl") if line["data"] == data]
    named = {"ease": "ease-options"}
    for line in _lines("yardsticks/final.jsonl"):
        if line["data"] == data:
            found.setdefault(named.get(line["system"], line["system"]), []).append(line)
    return found


# Networks and proposals by search


def sequences() -> str:
    """A sequence model with uniform negatives, and with those of the generator."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in _lines("networks/final.jsonl"):
        found[run["data"], run["settings"]["sampler"]].append(run["metrics"])
    titles = {
        "ml-100k": "MovieLens-100K",
        "beauty": "Amazon-Beauty",
        "videogames": "Amazon-VideoGames",
    }
    rows = []
    for data, title in titles.items():
        cells = [title]
        for metric in ("ndcg@10", "recall@20"):
            uniform = [m[metric] for m in found[data, "uniform"]]
            learned = [m[metric] for m in found[data, "decomposable"]]
            cells += [shown(uniform), shown(learned), f"{mean(learned) / mean(uniform) - 1:+.0%}"]
        rows.append(cells)
    head = ["sequence, 16 draws", "uniform, NDCG@10", "generator, NDCG@10", "gain",
            "uniform, recall@20", "generator, recall@20", "gain"]  # fmt: skip
    return markdown(head, rows)


def graphs() -> str:
    """LightGCN with three kinds of negatives, on its own split of Gowalla."""
    names = {
        ("bpr", "uniform"): "BPR, one uniform negative, 200 epochs",
        ("sdsoftmax", "uniform"): "sampled softmax, 32 uniform draws, 16 epochs",
        ("sdsoftmax", "decomposable"): "sampled softmax, 32 draws by the generator, 32 epochs",
    }
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in _lines("networks/final.jsonl"):
        if run["data"] == "lightgcn":
            found[run["settings"]["objective"], run["settings"]["sampler"]].append(run["metrics"])
    rows = [["as published (BPR, 1,000 epochs, epoch chosen on test rows)",
             *(f"{value:.4f}" for value in PUBLISHED[BARS])]]  # fmt: skip
    for key, said in names.items():
        metrics = ("recall@20", "ndcg@20")
        rows.append([said, *(shown([m[metric] for m in found[key]]) for metric in metrics)])
    head = ["LightGCN's split of Gowalla, D = 64, 3 layers", "recall@20", "NDCG@20"]
    return markdown(head, best_bold(rows))


SEARCHED = ("citeulike", "gowalla")
INDEXES = {"exact": "exact", "hnsw": "HNSW", "pq": "PQ"}


def _searches() -> list[tuple[str, list[dict[str, Any]]]]:
    """Collect the lines of each proposal or model: its name, and the line of either data set."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in _lines("search/proposals.jsonl"):
        index = f", {INDEXES[line['index']]}" if "index" in line else ""
        found[line.get("name") or line["proposal"] + index].append(line)
    return [
        (name, sorted(lines, key=lambda line: SEARCHED.index(line["data"])))
        for name, lines in found.items()
    ]


def proposals() -> str:
    """How long it takes to find proposals, and how many of them are known to be wrong."""
    rows = []
    for name, lines in _searches():
        if "proposal" not in lines[0]:
            continue
        cells = [name]
        for line in lines:
            seconds, recall, false = (line.get(key) for key in ("seconds", "recall", "false"))
            cells.append("–" if seconds is None else f"{seconds:.1f}")
            cells.append("–" if recall is None else f"{recall:.1%}")
            cells.append(f"{false:.3%}")
        rows.append(cells)
    head = ["proposed"]
    for data in SEARCHED:
        head += [f"{TITLES[data]}, seconds", "recall", "false negatives"]
    return markdown(head, rows)


MODELS = {
    "BPR, uniform": "BPR, uniform",
    "DNS": "DNS, the best of 10 uniform ones",
    "SD-GAR": "SD-GAR",
    "the best item (m = 1), HNSW": "the best item, HNSW",
    "m = 50, HNSW": "among the 50 best, HNSW",
    "m = 500, exact": "among the 500 best, exact",
    "m = 50, half uniform, exact": "among the 50 best or uniform, half each, exact",
    "m = 50, half uniform, HNSW": "among the 50 best or uniform, half each, HNSW",
    "m = 50, half uniform, PQ": "among the 50 best or uniform, half each, PQ",
    "m = 500, half uniform, exact": "among the 500 best or uniform, half each, exact",
    "m = 50, half uniform, HNSW, SD-GAR's weights, 5 draws":
        "among the 50 best or uniform, half each, HNSW, SD-GAR's weights, 5 draws",
}  # fmt: skip


def searched_models() -> str:
    """What models reach that learn from proposals by search."""
    found = dict(_searches())
    pairs = [[line["valid"] for line in found[name]] for name in MODELS]
    best = [max(values) for values in zip(*pairs, strict=True)]
    rows = []
    for name, said in MODELS.items():
        cells = [said]
        for line, most in zip(found[name], best, strict=True):
            cells.append(bold(f"{line['valid']:.4f}", on=line["valid"] == most))
            for key in ("epoch_seconds", "refit_seconds"):
                cells.append("–" if line[key] is None else f"{line[key]:.2f}")
            cells.append("–" if line["recall"] is None else f"{line['recall']:.1%}")
        rows.append(cells)
    head = ["negatives"]
    for data in SEARCHED:
        head += [f"{TITLES[data]}, NDCG@50", "epoch, s", "refit, s", "recall"]
    return markdown(head, rows)


# Speed


def cpu_sdgar() -> str:
    """SD-GAR's step, fused and eager."""
    names = {
        "adagrad, private": "Adagrad, 5 private negatives",
        "lazy-adam, private": "lazy Adam, 5 private negatives",
        "sgd, private": "SGD, 5 private negatives",
        "adagrad, 4 share 8": "Adagrad, 4 positives share 8",
    }
    found = {row["name"]: row for row in _report("cpu_engine.json")["sdgar"]["rows"]}
    rows = []
    for name, said in names.items():
        row = found[name]
        eager = row.get("eager_positives_per_second")
        beside = [rounded(eager), f"{row['fused_over_eager']:.1f}"] if eager else ["–", "–"]
        rows.append([said, rounded(row["positives_per_second"]), *beside])
    head = ["optimiser, layout", "fused, positives/s", "eager, positives/s", "ratio"]
    return markdown(head, rows)


def cpu_bpr() -> str:
    """BPR's step beside implicit's."""
    names = {
        "sgd, private": "SGD, 1 private negative",
        "sgd, 4 share 4": "SGD, 4 positives share 4 negatives",
        "adagrad, 4 share 4": "Adagrad, 4 positives share 4 negatives",
    }
    report = _report("cpu_engine.json")
    parts = [report["bpr_gowalla"], report["bpr_large"]]
    peers = [rounded(part["implicit"]["triplets_per_second"]) for part in parts]
    rows = [["implicit", *(peer for peer in peers for _ in range(2))]]
    for name, said in names.items():
        found = [next(row for row in part["rows"] if row["name"] == name) for part in parts]
        speeds = ("positives_per_second", "pairs_per_second")
        rows.append([said, *(rounded(row[speed]) for row in found for speed in speeds)])
    head = ["", "Gowalla, D = 32: positives/s", "pairs/s",
            "200,000 × 100,000, D = 64: positives/s", "pairs/s"]  # fmt: skip
    return markdown(head, rows)


def beside_eager() -> str:
    """CML, and contexts of two fields, fused and eager."""
    names = {
        "CML": "CML, CiteULike, 20 negatives",
        "CML, covariance 1": "CML with the covariance term, CiteULike",
        "BPR": "BPR, user and daypart, MovieLens-100K",
        "SD-GAR": "SD-GAR, user and daypart, MovieLens-100K",
    }
    parts = [_report(f"beside-eager-{part}.json") for part in ("cml", "fields")]
    found = {row["name"]: (row, part["positives"]) for part in parts for row in part["rows"]}
    rows = []
    for name, said in names.items():
        row, positives = found[name]
        speeds = (positives / row[f"{engine}_seconds"] for engine in ("fused", "eager"))
        rows.append([said, *map(rounded, speeds), f"{row['fused_over_eager']:.1f}"])
    return markdown(["system, data", "fused, positives/s", "eager, positives/s", "ratio"], rows)


def scale() -> str:
    """An epoch of a hundred million interactions."""
    report = _report("scale.json")
    names = {
        "BPR": "BPR, Adagrad",
        "SD-GAR, popularity": "SD-GAR's loss, popularity draws, 5 negatives",
    }
    rows = [
        [said, f"{row['epoch_seconds']:.0f} s", rounded(row["positives_per_second"]),
         rounded(row["small_positives_per_second"]),
         f"{row['time_per_positive_over_small']:.2f} ×",
         f"{report['peak_bytes'][f'after {name}'] / 2**30:.1f} GiB"]
        for name, said in names.items() for row in [report["rows"][name]]
    ]  # fmt: skip
    head = ["", "epoch", "positives/s", "Gowalla, positives/s", "time of a positive", "peak memory"]
    return markdown(head, rows)


def evaluation() -> str:
    """Full ranking beside a bare product and implicit."""
    report = _report("evaluation.json")
    names = {
        "bare product": "bare matrix product, same blocks",
        "sdgar": "sdgar: product, masking, top 50, metrics",
        "implicit": "implicit 0.7.3 `ranking_metrics_at_k`",
    }
    kinds = ("best", "median", "cpu")
    rows = [
        [said, *(f"{report[kind][name]:.2f}" for kind in kinds)] for name, said in names.items()
    ]
    return markdown(["", "best s", "median s", "CPU s"], rows)


READ_FILES = {
    "integers.parquet": "Parquet, integer ids",
    "integers.csv": "CSV, integer ids",
    "text.parquet": "Parquet, text ids",
    "text.csv": "CSV, text ids",
}


def reading() -> str:
    """Files read to interactions, beside a bare Polars read and an earlier version."""
    rows, told_of = [], []
    before = _report("reading-before.json")
    for report in (_report("reading.json"), _report("reading-large.json")):
        for name, said in READ_FILES.items():
            bare, ours = (report["reads"][name][reader] for reader in ("polars", "sdgar"))
            earlier = before["reads"][name]["sdgar"]["seconds"]
            rows.append(
                [
                    f"{report['rows']:,}",
                    said,
                    f"{report['bytes'][name] / 2**20:,.0f} MiB",
                    f"{earlier:.1f}" if report["rows"] == before["rows"] else "–",
                    f"{ours['seconds']:.1f}",
                    f"{ours['first_s']:.1f}",
                    f"{bare['seconds']:.1f}",
                    f"{ours['seconds'] / bare['seconds']:.1f}",
                    *(f"{told['cpu_s']:.1f}" for told in (ours, bare)),
                    *(f"{told['growth_bytes'] / 2**30:.1f}" for told in (ours, bare)),
                ]
            )
        told_of.append(f"{report['rows']:,} rows: {_turns(report)} after the first")
    head = [
        "rows",
        "",
        "file",
        "before, s",
        "now, s",
        "the first time, s",
        "Polars, s",
        "now / Polars",
    ]
    head += ["CPU s", "of Polars", "memory, GiB", "of Polars"]
    told_of.append(f"before: {_turns(before)}")
    return (
        f"{markdown(head, rows)}\n\nSeconds are medians. {'; '.join(told_of)}. All of this on "
        f"{_report('reading.json')['cpu']}."
    )


def _turns(report: dict[str, Any]) -> str:
    turns = "one turn" if report["repeats"] == 1 else f"{report['repeats']} turns"
    return f"{turns} at `{report['commit'][:7]}`"


ANSWERS = {
    "users 1": "a user that the model knows",
    "users 4": "the same, 4 at once",
    "users 16": "the same, 16 at once",
    "users 64": "the same, 64 at once",
    "histories 1": "a new user with 20 items",
    "histories 4": "the same, 4 at once",
    "histories 16": "the same, 16 at once",
    "histories 64": "the same, 64 at once",
    "top_k 16": "`top_k` alone, 16 at once",
    "fold_in 16": "`fold_in` alone, 16 at once",
    "similar item": "items that are similar to an item",
    "similar item, by vectors": "the same, asked for by vectors",
    "explain user": "10 reasoned items of a user",
    "explain history": "the same of a new user",
}


def answers() -> str:
    """CPU milliseconds of answers in process, beside the version before and a plain handler."""
    found = _report("answers.json")["answers"]
    rows = []
    for asked, said in ANSWERS.items():
        before, now = (found[asked][name]["cpu_ms"] for name in ("before", "now"))
        plain = found.get(asked.replace("users", "numpy"), {}) if "users" in asked else {}
        bare = f"{plain['now']['cpu_ms']:.2f}" if plain else "–"
        rows.append([said, f"{before:.2f}", f"{now:.2f}", f"{before / now:.1f}", bare])
    return markdown(["a question", "before", "now", "ratio", "plain NumPy, vectors only"], rows)


def answers_index() -> str:
    """CPU milliseconds of exact lists and of those that an index finds, with their recall."""
    rows = [
        [
            f"{row['items']:,}",
            *(f"{row[f'{how}_cpu_ms_{n}']:.1f}" for n in (1, 16) for how in ("exact", "index")),
            f"{row['recall@10']:.3f}",
            f"{row['looked_into']} of {row['lists']:,}",
            f"{row['build_s']:,.0f}",
        ]
        for row in _report("answers-index.json")["rows"]
    ]
    head = ["items", "exact, one user", "index, one user", "exact, 16 at once"]
    head += ["index, 16 at once", "recall@10", "lists looked into", "seconds to build"]
    return markdown(head, rows)


def exports() -> str:
    """Lists that other programs make of an export, beside those of the model."""
    report = _report("exports.json")
    rows = [
        [
            f"`{row['system']}`",
            row["by"],
            *(f"{row[name]:,}" for name in ("same", "rounding", "other")),
            f"{row['megabytes']:,.1f}",
        ]
        for row in report["rows"]
    ]
    head = ["system", "made by", "same list", "equal but for rounding", "other", "MB"]
    versions = report["versions"]
    with_ = ", ".join(f"{n} {versions[n]}" for n in ("faiss-cpu", "onnxruntime", "polars"))
    server = report["server"]
    with_ += f", PostgreSQL {server['postgresql']} with pgvector {server['pgvector']}"
    return markdown(head, rows) + (
        f"\n\n{report['users']:,} users of CiteULike, lists of {report['k']} items, seed "
        f"{report['seed']}; {with_}; commit "
        f"`{report['commit'][:7]}`."
    )


def sequence_epochs() -> str:
    """Seconds of an epoch of the sequence model, before and now."""
    report = _report("sequences.json")
    seconds = {name: median(each) for name, each in report["seconds"].items()}
    rows = [
        [said, f"{seconds[name]:.1f} s", f"{report['rows'] / seconds[name]:,.0f}"]
        for name, said in (("before", "one place at a time, `aa32b44`"), ("now", "all places"))
    ]
    table = markdown(["an epoch", "seconds", "rows a second"], rows)
    return table + (
        f"\n\n{report['rows']:,} rows, {report['threads']} threads, {report['cpu']}, commit "
        f"`{report['commit'][:7]}`: {report['ratio']:.1f} times as fast."
    )


def first_use() -> str:
    """The first and the second command on a machine, beside an earlier version."""
    report = _report("first_use.json")
    names = {
        "before": f"before, `{report['commit_before'][:7]}`",
        "now": "as checked out",
        "portable": "with portable code",
    }
    rows = [
        [said, *(f"{report['seconds'][name][what]:.1f} s" for what in ("first", "second")),
         f"{report['seconds'][name]['compiling']:.1f} s"]
        for name, said in names.items()
    ]  # fmt: skip
    table = markdown(["`sdgar train`", "the first", "the second", "compiling"], rows)
    return table + (
        f"\n\n{report['rows']:,} made-up rows, {report['cpu']}, commit `{report['commit'][:7]}`; "
        f"medians of {report['rounds']} rounds."
    )


_EAGER = ("cml", "fields")
"""The parts of ``beside_eager.py``."""


def on_x86() -> str:
    """Speed on another kind of processor: ratios, each within one run."""
    folder = "x86-64"
    turns, engine = _report(f"{folder}/turns.json"), _report(f"{folder}/cpu_engine.json")
    rows = [
        [
            f"an epoch of {said}, Gowalla's shape",
            "`aa32b44`",
            f"{turns['turns'][name]['ratio']:.2f}",
        ]
        for name, said in (("SDGAR", "SD-GAR"), ("BPR", "BPR"), ("SDSoftmax", "SD-Softmax"))
    ]
    rows += [
        [f"SD-GAR, {row['name']}, Gowalla", "the eager engine", f"{row['fused_over_eager']:.1f}"]
        for row in engine["sdgar"]["rows"]
        if "fused_over_eager" in row
    ]
    for part, said in (("bpr_gowalla", "Gowalla"), ("bpr_large", "200,000 × 100,000")):
        rows += [
            [f"BPR, {row['name']}, {said}", "implicit", f"{row['positives_over_implicit']:.2f}"]
            for row in engine[part]["rows"]
            if row["name"].startswith("sgd")
        ]
    for part in _EAGER:
        report = _report(f"{folder}/beside-eager-{part}.json")
        where = "CiteULike" if part == "cml" else "user and daypart, MovieLens-100K"
        rows += [
            [f"{row['name']}, {where}", "the eager engine", f"{row['fused_over_eager']:.1f}"]
            for row in report["rows"]
        ]
    reached = _report(f"{folder}/reach.json")
    rows += [
        [
            f"{said}: {found[name]['ndcg@50']:.4f} on {TITLES[data]}, from rows to the model",
            f"`aa32b44`, SD-Softmax: {found['before']['ndcg@50']:.4f}",
            f"{found[name]['ratio']:.2f}",
        ]
        for data, found in reached["data"].items()
        for name, said in (("now", "SD-Softmax"), ("small", "small SD-Softmax"), ("quick", "quick"))
    ]
    made = (turns, engine, reached, *(_report(f"{folder}/beside-eager-{p}.json") for p in _EAGER))
    commits = ", ".join(sorted({f"`{one['commit'][:7]}`" for one in made}))
    return markdown(["what", "beside", "times as fast"], rows) + (
        f"\n\n{engine['cpu']}, 2 threads; commits {commits}."
    )


def earlier_version() -> str:
    """Epochs, and seconds to an accuracy, beside an earlier version in turns."""
    epochs, reached = _report("turns/aa32b44.json"), _report("reach.json")
    names = {"SDGAR": "SD-GAR", "BPR": "BPR", "SDSoftmax": "SD-Softmax"}
    rows = [
        [f"an epoch of {said}, Gowalla's shape", f"{row['before']:.2f} s", f"{row['now']:.2f} s",
         f"{row['ratio']:.2f}"]
        for name, said in names.items()
        for row in [epochs["turns"][name]]
    ]  # fmt: skip
    for data, row in reached["data"].items():
        before = row["before"]
        small = ", ".join(f"{key} {value:g}" for key, value in reached["small"].items())
        contestants = {
            "now": "SD-Softmax by default",
            "small": f"SD-Softmax with {small}",
            "quick": "quick",
        }
        for name, said in contestants.items():
            now = row[name]
            after = f" after {now['epochs']} epochs" if now["epochs"] > 1 else ""
            after = " after one epoch" if now["epochs"] == 1 else after
            rows.append([
                f"{TITLES[data]}, {row['value']:.3f}: {said}, {now['ndcg@50']:.4f}{after}; before, "
                f"{before['ndcg@50']:.4f} after {before['epochs']} epochs of SD-Softmax",
                f"{before['seconds']:.1f} s", f"{now['seconds']:.1f} s", f"{now['ratio']:.2f}",
            ])  # fmt: skip
    table = markdown(["what", "`aa32b44`", "now", "ratio"], rows)
    commits = " and ".join(dict.fromkeys(f"`{r['commit'][:7]}`" for r in (epochs, reached)))
    return table + (
        f"\n\n{epochs['cpu']}, 2 threads, commit {commits}; medians of {epochs['rounds']} and "
        f"{reached['rounds']} rounds."
    )


def before_and_now() -> str:
    """The accuracy of every system by its earlier settings, in an earlier version and now."""
    report = _report("before_and_now.json")
    rows = []
    for system, values in report["found"].items():
        means = [mean(values[name]) for name in ("before", "now")]
        spreads = [stdev(values[name]) for name in ("before", "now")]
        cells = [f"{m:.4f} ± {s:.4f}" for m, s in zip(means, spreads, strict=True)]
        rows.append([system, *cells, f"{means[1] - means[0]:+.4f}"])
    return markdown(["system", "`aa32b44`", "now", "difference"], rows) + (
        f"\n\nTest NDCG@50 on CiteULike after {report['epochs']} epochs: mean and standard "
        f"deviation over {report['seeds']} seeds. {report['cpu']}, commit "
        f"`{report['commit'][:7]}`."
    )


def serving() -> str:
    """Requests a second over HTTP that keep a p99, beside a plain handler."""
    rows = []
    for name, what in (("serving.json", "Gowalla"), ("serving-large.json", "made up")):
        report = _report(name)
        for bound, found in report["within_p99_ms"].items():
            ours, ratio = found["sdgar serve"], found["ratio"]
            theirs = max(n for key, n in found.items() if key.startswith("FastAPI"))
            if not ours or bound == "100":
                continue
            rows.append([
                f"{what}, {report['items']:,} items", f"{bound} ms", f"{ours:,.0f}",
                f"{theirs:,.0f}" if theirs else "none", f"{ratio:.1f}" if ratio else "–",
            ])  # fmt: skip
    head = ["catalogue", "p99 within", "`sdgar serve`, requests/s", "FastAPI and NumPy", "ratio"]
    about = _report("serving.json")
    return markdown(head, rows) + f"\n\n{about['cpu']}, commit `{about['commit'][:7]}`."


NEIGHBOURS = (0, 1, 2, 4)
WORK = {
    "epochs": "epochs of SD-Softmax",
    "refit": "an update of its generator",
    "ranking": "full ranking",
    "implicit": "implicit's BPR",
}


def busy_neighbour(report: dict[str, Any] | None = None) -> str:
    """Seconds of one and of two threads beside neighbours, and their ratio with its spread."""
    report = report or _report("busy_neighbour.json")
    rows = {(r["contestant"], r["work"], r["neighbours"]): r for r in report["rows"]}
    heads = " | ".join(f"{n} beside" for n in NEIGHBOURS)
    lines = [f"| seconds of one → of two threads | {heads} |", "|---" * (len(NEIGHBOURS) + 1) + "|"]
    for name, work in dict.fromkeys((c, w) for c, w, _ in rows):
        cells = []
        for n in NEIGHBOURS:
            r = rows[name, work, n]
            spread = f"{r['one_over_two']:.2f} ({r['least']:.2f}–{r['most']:.2f})"
            cells.append(f"{r['seconds_one']:.2f} → {r['seconds_two']:.2f}: {spread}")
        before = ", the version before" if name == "before" else ""
        lines.append(f"| {WORK[work]}{before} | {' | '.join(cells)} |")
    return "\n".join(lines)


def peer_accuracy() -> str:
    """BPR and WARP beside those of implicit and LightFM."""
    report = _report("peer_accuracy.json")
    names = {
        "sdgar BPR": "our BPR",
        "implicit BPR": "`implicit` BPR",
        "sdgar WARP": "our WARP, at most 10 tries",
        "LightFM WARP": "LightFM WARP, at most 10 tries",
    }
    rows = [[said, shown(report[name]["test"])] for name, said in names.items()]
    return markdown(["", "test NDCG@50"], [*best_bold(rows[:2]), *best_bold(rows[2:])])


def time_to_quality() -> str:
    """Training seconds on two cores until a model is as good as a peer's best."""
    report = _report("time_to_quality.json")
    names = {
        "implicit BPR": "implicit 0.7.3 BPR",
        "LightFM WARP": "LightFM (lightfm-next 1.19.0) WARP",
        "sdgar SD-GAR": "SD-GAR",
        "sdgar weighted loss, uniform draws, 4 share 32":
            "SD-GAR's loss with uniform draws, 4 positives share 32 negatives, T = 0.2",
    }  # fmt: skip
    best = {said: f"{report['best'][name]['ndcg@50']:.4f}" for name, said in names.items()}
    rows = best_bold([list(row) for row in best.items()])
    head = ["", f"best within {report['limit_seconds']:.0f} s"]
    for peer in ("implicit BPR", "LightFM WARP"):
        goal = report["reached"][f"100% of {peer}'s best"]
        head.append(f"seconds to the best of {peer} ({goal['target']:.4f})")
        taken = [goal["systems"][name]["seconds_at_best_setting"] for name in names]
        least = min(filter(None, taken))
        for row, seconds in zip(rows, taken, strict=True):
            row.append(bold(f"{seconds:.1f}", on=seconds == least) if seconds else "never")
    return markdown(head, rows)


def _with_adagrad() -> list[list[str]]:
    """Rows of epochs with the default optimiser of SD-GAR, of a later commit."""
    report = _report("gpu_epoch.json")
    return [
        [f"the same with row-wise Adagrad, SD-GAR's default, batch {run['batch_size']:,}"
         f" (`gpu_epoch.json`, commit `{report['commit'][:7]}`)", _millions(run)]
        for run in report["echonest"]["runs"]
        if run["optimizer"] == "RowAdagrad" and run["positives_per_visit"] == 1
    ]  # fmt: skip


def gpu() -> str:
    """The fused engine and what surrounds it on one GPU."""
    report = _report("gpu_engine.json")
    shape, gowalla, large = report["echonest"], report["gowalla"], report["large"]
    softmax = _report("gpu_softmax.json")
    drawn = softmax["gowalla"]["softmax_draws_ms"]
    first, wide, shared = shape["runs"]
    epoch = (
        f"epoch of SD-GAR, lazy Adam, Echonest's shape ({shape['users']:,} × {shape['items']:,}, "
        f"{shape['positives'] / 1e6:.1f} million positives, D = {shape['dim']}, "
        f"{shape['negatives']} negatives), batch {first['batch_size']:,}"
    )
    share = f"{shared['positives_per_visit']} positives share {shape['negatives']} negatives"
    rows = [
        [epoch, f"{_millions(first)} ({first['epoch_ms']:.1f} ms)"],
        ["the first epoch of the eager engine there",
         f"{shape['eager_first_epoch_seconds_at_4096']:.1f} s"],
        [f"the fused engine, batch {wide['batch_size']:,}", _millions(wide)],
        [f"the fused engine, batch {shared['batch_size']:,}, {share}", _millions(shared)],
        *_with_adagrad(),
        ["bytes of a positive at the first of these, if none were cached",
         f"{first['bytes_per_positive']['total'] / 1e3:.1f} kB"],
        [f"their share of a copy's bandwidth ({report['copy_bytes_per_second'] / 1e12:.1f} TB/s)",
         f"{first['share_of_copy_bandwidth']:.0%}"],
        ["update of the generator on Gowalla, S = 64, K = 64, tables and a check of it included",
         f"{gowalla['refit_ms']['all']:.0f} ms"],
        ["full-ranking evaluation of Gowalla, k = 50", f"{gowalla['evaluate_ms']['all']:.0f} ms"],
        ["the paper's run on Gowalla: 75 epochs, 15 updates, 15 evaluations",
         f"{gowalla['warm_run']['fit_seconds']:.1f} s warm, "
         f"{gowalla['first_run']['fit_seconds']:.1f} s with compilation; "
         f"NDCG@50 {gowalla['warm_run']['best_ndcg@50']:.4f}"],
        ["epoch of 10^6 users × 10^6 items × 10^8 interactions, D = 32, "
         f"batch {large['batch_size']:,}",
         f"{large['second_epoch_seconds']:.2f} s, {large['peak_memory_bytes'] / 1e9:.1f} GB"],
        ["50 draws for each user of Gowalla from IRGAN's softmax over all items "
         f"(`gpu_softmax.json`, commit `{softmax['commit'][:7]}`)",
         f"{drawn['blocks']:.0f} ms without writing a score, {drawn['scores']:.0f} ms with all"],
    ]  # fmt: skip
    return markdown(["what", "measured"], rows)


def _millions(run: dict[str, Any]) -> str:
    return f"{run['positives_per_second'] / 1e6:.0f} million positives/s"


def shards() -> str:
    """Say what it takes to shard events, step by step."""
    rows = []
    for run in _report("shards.json")["runs"]:
        for step, name in (
            ("make", "make up"),
            ("shard", "`sdgar data shard`"),
            ("verify", "open, all sums"),
        ):
            if step not in run:
                continue
            took = run[step]
            size = {"make": run["event_bytes"], "shard": run["shard_bytes"]}.get(step)
            rows.append(
                [
                    f"{run['rows']:,}",
                    name,
                    f"{took['seconds']:,.0f}",
                    _cpu_of(took),
                    f"{took['peak_rss'] / 2**30:.2f}",
                    f"{took['peak_anonymous'] / 2**30:.2f}",
                    f"{took['peak_of_files'] / 2**30:.2f}",
                    "" if size is None else f"{size / 1e9:.2f}",
                ]
            )
    memory = ["peak GiB", "of it anonymous", "of it files"]
    return markdown(["rows", "step", "seconds", "of cores", *memory, "GB written"], rows)


def _cpu_of(took: dict[str, float]) -> str:
    """Write the seconds that cores have spent, where they were measured."""
    return f"{took['cpu_seconds']:,.0f}" if "cpu_seconds" in took else "–"


def shards_beside() -> str:
    """Compare sharding with the core of the work in DuckDB and Polars."""
    names = {"shard": "`sdgar data shard`", "duckdb": "DuckDB", "polars": "Polars, streaming"}
    rows = [
        [
            f"{run['rows']:,}",
            name,
            f"{run[key]['seconds']:,.0f}",
            _cpu_of(run[key]),
            f"{run[key]['peak_rss'] / 2**30:.2f}",
        ]
        for run in _report("shards.json")["runs"]
        if "duckdb" in run
        for key, name in names.items()
    ]
    return markdown(["rows", "by", "seconds", "of cores", "peak GiB"], rows)


def metrics() -> str:
    """Write what each metric is, from the register of metrics."""
    head = ["metric", "equation", "range", "good", "looks at", "the same is"]
    about = {
        "accuracy": "held-out items", "held-out": "held-out items", "list": "each list",
        "catalogue": "all lists together",
    }  # fmt: skip
    rows = [
        [f"`{kind}`", f"`{one.equation}`".replace("|", "\\|"), one.span, one.good, about[one.about],
         one.same_as]
        for kind, one in MEASURES.items()
    ]  # fmt: skip
    return markdown(head, rows)


def metric_words() -> str:
    """Write the meaning of each metric, as --explain-metrics says it."""
    return "\n".join(f"- `{kind}@k`: {one.says}." for kind, one in MEASURES.items())


def agreed() -> str:
    """Write which metrics agree with which version of a public implementation."""
    found = json.loads((ROOT / "tests/evaluation/peers/agreed.json").read_text())
    rows = []
    for peer, values in found["values"].items():
        kinds = dict.fromkeys(name.partition("@")[0] for name in values)
        rows.append([peer, found["versions"][peer], ", ".join(f"`{kind}`" for kind in kinds)])
    return markdown(["implementation", "version", "metrics"], rows)


_WAYS = {
    "none": "no rule", "mmr": "`mmr`", "dpp": "`dpp`", "popularity": "`popularity` dial",
    "turns": "genres in turn, candidates",
}  # fmt: skip


def diversity() -> str:
    """Write NDCG beside the diversity of lists, for every rule and setting."""
    report = _report("diversity.json")
    head = ["data", "re-ranked by", "NDCG@20", "diversity@20", "coverage@20", "tail@20"]
    rows = [
        [name, f"{_WAYS[one['way']]} {'' if one['setting'] is None else one['setting']}".strip(),
         *(f"{one[f'{metric}@20']:.4f}" for metric in ("ndcg", "diversity", "coverage", "tail"))]
        for name, found in report["data"].items()
        for one in found["points"]
    ]  # fmt: skip
    return markdown(head, rows)


def diversity_seconds() -> str:
    """Write the seconds of many lists, without rules and with them."""
    found = _report("diversity.json")["seconds"]
    rows = [
        [_WAYS[way], f"{found[way]['cpu']:.1f}", f"{found[way]['wall']:.1f}"]
        for way in ("none", "mmr", "dpp")
    ]
    return markdown(["rule", "seconds of CPU", "seconds"], rows)


def recommend_all() -> str:
    """Seconds and memory of lists for users of a large model, by each number of workers."""
    reports = [_report("recommend-all.json"), _report("recommend-trained.json")]
    rows = [
        [report["model"], f"{one['lists']:,}", f"{one['seconds']:,.0f} s",
         f"{one['cpu_seconds of a list'] * 1e3:.2f} ms",
         f"{one['peak_gib of a process']['anonymous']:.2f} GiB",
         f"{one['peak_gib of a process']['files']:.2f} GiB",
         f"`{report['commit'][:7]}`, {report['load']:.0f}"]
        for report in reports
        for one in report["runs"]
    ]  # fmt: skip
    head = ["model", "lists", "by the clock", "CPU time of a list", "allocated", "pages of files",
            "commit, and processes that wanted the cores"]  # fmt: skip
    one = reports[0]
    return markdown(head, rows) + (
        f"\n\n{one['users']:,} users, {one['items']:,} items, {one['dim']} numbers a vector, "
        f"lists of ten, `--memory {one['memory']}`; {one['cpu']}. Memory: the largest process. "
        "The CPU time of a list is what a run takes more than one of 64 lists, over the lists that "
        "it has more."
    )


def ranks() -> str:
    """Say how fast several processes train on shards, beside one."""
    report = _report("ranks.json")
    rows = [
        [
            "one process, two threads" if count == "1" else f"{count} workers, a thread each",
            f"{speed:,}",
            f"{report['of one process'][count]:.2f}",
        ]
        for count, speed in report["positives_per_second"].items()
    ]
    return markdown(["by", "positives a second", "of one process"], rows)


def kills() -> str:
    """How many trainings went on to the bytes of one process after a worker was killed."""
    report = _report("kills.json")
    groups: dict[tuple[str, int], list[bool]] = {}
    for one, same in zip(report["kills"], report["same"], strict=True):
        groups.setdefault((one["by"], one["workers"]), []).append(same)
    rows = [
        [f"`{by}`", f"{workers}", f"{len(same)}", f"{sum(same)}"]
        for (by, workers), same in groups.items()
    ]
    head = ["started by", "workers", "kills", "the same bytes in the end"]
    return markdown(head, rows) + (
        f"\n\nSD-Softmax on {report['rows']:,} made-up rows, {report['epochs']} epochs. A worker, "
        "an epoch and a moment in it are drawn for each kill. What `--workers` started goes on by "
        "`sdgar train --resume` with 2 workers, and what `torchrun` has started by itself. Commit "
        f"`{report['commit'][:7]}` on {report['cpu']}."
    )


def beside_als() -> str:
    """Training on shards beside implicit's ALS: what each has after which time and memory."""
    report = _report("beside_als.json")
    ours, als = report["sdgar"], report["als"]
    room = f"{als['peak_anonymous'] / 2**30:.2f} GiB"
    rows = [
        [f"ALS after sweep {look['sweeps']}", f"{look['ndcg@50']:.4f}", f"{look['seconds']:.0f} s",
         f"{look['cpu_seconds']:.0f} s", room]
        for look in als["looks"]
    ]  # fmt: skip
    rows.append(
        ["`sdgar train`, the whole command", f"{ours['ndcg@50']:.4f}", f"{ours['seconds']:.0f} s",
         f"{ours['cpu_seconds']:.0f} s", f"{ours['peak_anonymous'] / 2**30:.2f} GiB"]
    )  # fmt: skip
    chosen = ", ".join(f"{name} {value:g}" for name, value in als["settings"].items())
    head = ["", "NDCG@50", "by the clock", "of cores", "arrays in memory"]
    return markdown(head, rows) + (
        f"\n\n{report['rows']:,} rows, {report['users']:,} users, {report['items']:,} items, "
        f"D = {report['dim']}, measured on {report['test_users']:,} users; the most popular items "
        f"have {ours['popular']:.4f}. ALS has {chosen}, the best of {len(als['tried'])} on "
        f"validation rows after {report['sweeps_tried']} sweeps; search and reading are not in "
        f"its seconds. `--memory {report['limit']}`, {report['threads']} threads, implicit "
        f"{report['versions']['implicit']}. Commit `{report['commit'][:7]}` on {report['cpu']}; "
        f"{report['load']:.0f} processes wanted its cores at the same time."
    )


def sharded_gpu() -> str:
    """Say how fast a GPU trains on shards, by where users wait meanwhile."""
    report = _report("sharded_gpu.json")
    rows = []
    for run in report["runs"]:
        whole = run["ways"]["all rows at once"]["positives_per_second"]
        for way in ("all rows at once", "one block", "on the GPU", "in memory", "in files"):
            found = run["ways"][way]
            waited = found.get("share_waited")
            rows.append(
                [
                    f"{run['rows']:,}",
                    way if "at once" in way or "block" in way else f"users wait {way}",
                    str(found.get("blocks", "–")),
                    f"{found['positives_per_second'] / 1e6:.1f}",
                    f"{found['positives_per_second'] / whole:.2f}",
                    "–" if waited is None else f"{100 * waited:.0f} %",
                    f"{found['peak_bytes'] / 2**30:.1f}",
                ]
            )
    head = ["rows", "way", "blocks", "million positives a second", "of all rows at once",
            "waited for blocks", "peak GiB of the GPU"]  # fmt: skip
    last = report["runs"][-1]
    return markdown(head, rows) + (
        f"\n\nSD-Softmax with D = {last['dim']}, {last['states']} states, "
        f"{last['positives_per_visit']} positives and {last['negatives']} negatives a visit, "
        f"{last['users']:,} users and {last['items']:,} items, in blocks of {last['together']} "
        f"shards. Commit `{last['commit'][:7]}` on one {last['device']} and {last['cpu']}."
    )


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "accuracy": ("README.md", accuracy),
    "paper-table1": ("docs/results.md", paper("table1")),
    "paper-table2": ("docs/results.md", paper("table2")),
    "paper-gains": ("docs/results.md", paper("table2", 1)),
    "paper-time": ("docs/results.md", paper("time")),
    "paper-items": ("docs/results.md", paper("items")),
    "sdsoftmax-short": ("docs/results.md", sdsoftmax_short),
    "sdsoftmax": ("docs/results-sdsoftmax.md", sdsoftmax),
    "lightgcn": ("docs/results-sdsoftmax.md", lightgcn),
    "sdsoftmax-search": ("docs/results-sdsoftmax.md", sdsoftmax_search),
    "seconds-to-accuracy": ("docs/results-sdsoftmax.md", seconds_to_accuracy),
    "seconds-by-items": ("docs/results-sdsoftmax.md", seconds_by_items),
    "draws": ("docs/results-sdsoftmax.md", draws),
    "table2-search": ("docs/results-more.md", table2_search),
    "ablation": ("docs/results-more.md", ablation),
    "peer-accuracy": ("docs/results-more.md", peer_accuracy),
    "engines": ("docs/results-more.md", engines),
    "lazy-adam": ("docs/results-more.md", lazy_adam),
    "rules": ("docs/defaults.md", rules),
    "defaults": ("docs/defaults.md", defaults),
    "temperature": ("docs/defaults.md", temperature),
    "neighbours": ("docs/defaults.md", neighbours),
    "metrics": ("docs/metrics.md", metrics),
    "metric-words": ("docs/metrics.md", metric_words),
    "agreed": ("docs/metrics.md", agreed),
    "diversity": ("docs/rules.md", diversity),
    "diversity-seconds": ("docs/rules.md", diversity_seconds),
    "sequences": ("docs/systems.md", sequences),
    "graphs": ("docs/systems.md", graphs),
    "proposals": ("docs/systems.md", proposals),
    "searched-models": ("docs/systems.md", searched_models),
    "memory": ("docs/systems.md", memory),
    "memory-weights": ("docs/systems.md", memory_weights),
    "memory-parts": ("docs/systems.md", memory_parts),
    "memory-items": ("docs/systems.md", memory_items),
    "memory-on-disk": ("docs/scale.md", memory_on_disk),
    "memory-seconds": ("docs/systems.md", memory_seconds),
    "new-users": ("docs/systems.md", new_users),
    "new-items-cold": ("docs/new-items.md", new_items_cold),
    "new-items-all": ("docs/new-items.md", new_items_all),
    "new-items-few": ("docs/new-items.md", new_items_few),
    "explained": ("docs/systems.md", explained),
    "schedule": ("docs/systems.md", schedule),
    "going-on": ("docs/systems.md", going_on),
    "effort": ("docs/systems.md", effort),
    "nights": ("docs/every-night.md", nights),
    "nights-seconds": ("docs/every-night.md", nights_seconds),
    "nights-weights": ("docs/every-night.md", nights_weights),
    "nights-chosen": ("docs/every-night.md", nights_chosen),
    "nights-each": ("docs/every-night.md", nights_each),
    "command": ("docs/benchmarks.md", command),
    "yardsticks": ("docs/systems.md", yardsticks),
    "yardsticks-further": ("docs/systems.md", yardsticks_further),
    "dislikes": ("docs/systems.md", dislikes),
    "disliked": ("docs/systems.md", disliked),
    "cpu-sdgar": ("docs/benchmarks.md", cpu_sdgar),
    "cpu-bpr": ("docs/benchmarks.md", cpu_bpr),
    "beside-eager": ("docs/benchmarks.md", beside_eager),
    "time-to-quality": ("docs/benchmarks.md", time_to_quality),
    "scale": ("docs/benchmarks.md", scale),
    "busy-neighbour": ("docs/benchmarks.md", busy_neighbour),
    "gpu": ("docs/benchmarks.md", gpu),
    "evaluation": ("docs/benchmarks.md", evaluation),
    "reading": ("docs/benchmarks.md", reading),
    "exports": ("docs/exports.md", exports),
    "answers": ("docs/benchmarks.md", answers),
    "answers-index": ("docs/benchmarks.md", answers_index),
    "serving": ("docs/benchmarks.md", serving),
    "sequence-epochs": ("docs/benchmarks.md", sequence_epochs),
    "first-use": ("docs/benchmarks.md", first_use),
    "x86": ("docs/benchmarks.md", on_x86),
    "before-and-now": ("docs/benchmarks.md", before_and_now),
    "command-x86": ("docs/benchmarks.md", lambda: command("x86-64/command.json")),
    "earlier-version": ("docs/benchmarks.md", earlier_version),
    "neighbours-of-quick": ("docs/defaults.md", neighbours_of_quick),
    "shards": ("docs/scale.md", shards),
    "shards-beside": ("docs/scale.md", shards_beside),
    "ranks": ("docs/scale.md", ranks),
    "sharded-gpu": ("docs/scale.md", sharded_gpu),
    "recommend-all": ("docs/scale.md", recommend_all),
    "kills": ("docs/scale.md", kills),
    "beside-als": ("docs/scale.md", beside_als),
    "sharded-training": ("docs/scale.md", sharded_training),
}
"""The page of every table, and what makes it."""


def filled(page: str, text: str) -> str:
    """Return a page with all its tables made anew."""
    for name, (where, table) in TABLES.items():
        if where != page:
            continue
        marks = re.compile(rf"<!-- table: {re.escape(name)} -->\n.*?<!-- end -->", re.DOTALL)
        if len(marks.findall(text)) != 1:
            raise SystemExit(f"{page} needs <!-- table: {name} --> … <!-- end -->, once")
        made = f"<!-- table: {name} -->\n{table()}\n<!-- end -->"
        text = marks.sub(made.replace("\\", r"\\"), text)
    return text


def main() -> None:
    """Fill in the pages, or with --check say which of them differ."""
    changed = []
    for page in dict.fromkeys(where for where, _ in TABLES.values()):
        before = (ROOT / page).read_text()
        after = filled(page, before)
        if after != before:
            changed.append(page)
            if "--check" not in sys.argv:
                (ROOT / page).write_text(after)
    print("\n".join(changed) or "all tables are those of the reports")
    if changed and "--check" in sys.argv:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
