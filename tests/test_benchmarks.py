"""Every benchmark runs, on tiny data; no time is asserted."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="benchmarks/ is not there")

MODES = {
    "answers": ("", "index"),
    "beside_eager": ("cml", "fields"),
    "evaluation": ("", "fold-in"),
    "memory": ("seconds", "parts", "items"),
    "peers": ("seconds", "accuracy", "curves"),
    "sampling": ("", "proposals"),
    "scale": ("", "items"),
}
"""What the first word of some scripts may be."""
SHARED = {"common", "grids", "table_templates", "trainers"}
ALONE = {"accuracy", "busy_neighbour", "cluster_cost", "digests", "nights", "tables"}
"""The scripts that have separate tests."""
CASES = [
    f"{script} {mode}".strip()
    for script in sorted({path.stem for path in BENCHMARKS.glob("*.py")} - SHARED - ALONE)
    for mode in MODES.get(script, ("",))
]
WORDS = {"evaluation": ("--repeats", "1"), "peers seconds": ("--users", "50")}
WORDS |= dict.fromkeys(
    ("before_and_now", "reach", "sequences", "turns", "two_versions"),
    ("--before", str(BENCHMARKS.parent / "src")),
)
"""More words of some cases."""
NEEDS = {
    "answers index": "faiss",
    "sampling proposals": "faiss",
    "gpu": "triton",
    "sharded_gpu": "triton",
    "beside_als": "implicit",
    "cpu": "implicit",
    "evaluation": "implicit",
    "serving": "fastapi",
    "exports": "onnxruntime",
}


@pytest.fixture
def script(monkeypatch):
    """Import a benchmark as Python does if it is run: its folder is on the path."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    threads = torch.get_num_threads()
    yield importlib.import_module
    torch.set_num_threads(threads)


def test_nights_are_measured_one_a_line(script, monkeypatch, tmp_path):
    report = tmp_path / "report.jsonl"
    words = ["nights", "measure", "--quick", "--systems", "popular", "--json", str(report)]
    monkeypatch.setattr(sys, "argv", words)
    script("nights").main()
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert [line["night"] for line in lines] == [*range(1, 11)]
    assert all(line["warm_start"].keys() == line["from_scratch"].keys() for line in lines)
    # A system that is computed from scratch either way is the same model.
    sums = [
        (line["warm_start"]["sum of ndcg@50"], line["from_scratch"]["sum of ndcg@50"])
        for line in lines
    ]
    assert all(one == two for one, two in sums)
    assert sum(one for one, _ in sums) > 0


LONG = (
    "answers", "before_and_now", "beside_als", "command", "exports", "first_use", "gpu", "kills",
    "memory parts",
    "peers accuracy", "ranks", "reach", "reading", "recommend_all", "sequences", "serving",
    "sharded_gpu", "turns", "two_versions",
)  # fmt: skip
"""The cases of the long run, which start processes that measure, or train much."""


@pytest.mark.parametrize("case", LONG)
def test_what_a_benchmark_of_the_long_run_imports_is_there(case, script):
    pytest.importorskip(NEEDS.get(case, "torch"))
    assert callable(script(case.split()[0]).main)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.exhaustive] if c in LONG else []) for c in CASES],
)
def test_a_benchmark_runs_and_writes_its_report(case, script, monkeypatch, tmp_path):
    pytest.importorskip(NEEDS.get(case, "torch"))
    if case == "serving" and shutil.which("wrk") is None:
        pytest.skip("wrk is not installed (Debian's package wrk)")
    (name, *words), more = case.split(), WORDS.get(case, ())
    report = tmp_path / "report.json"
    monkeypatch.setattr(sys, "argv", [name, *words, "--quick", "--json", str(report), *more])
    script(name).main()
    reported = json.loads(report.read_text())
    assert len(reported) > 3
    if name == "gpu":
        assert reported["equality"]["all_same_bytes_twice"]
        assert reported["equality"]["largest_relative_error"] < 1e-4


def test_what_the_first_use_is_timed_by_runs(script, capsys):
    exec(script("cpu").FIRST_USE, {})
    assert set(json.loads(capsys.readouterr().out)) == {"import", "sdgar", "bpr"}


def test_shards_are_made_up_without_files_of_events(script, tmp_path):
    from sdgar.scale.shards import Shards

    made = script("shards")
    made.make_direct(tmp_path / "s", 3000, 200, 500, 3)
    shards = Shards.open(tmp_path / "s", verify=True)
    data = shards.interactions()
    assert (shards.n_users, shards.n_items, shards.n_shards) == (200, 500, 3)
    assert 2000 < len(shards) < 4000
    assert np.diff(data.indptr_U1).min() >= 1
    again = Shards.write(data, tmp_path / "again", 3)  # the same users lie in the same shards
    assert [shard.users.values.tolist() for shard in again] == [
        shard.users.values.tolist() for shard in shards
    ]


def packed(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 20)) < 0.4)
    test = rng.random(len(users)) < 0.2
    arrays = {}
    for part, some in (("train", ~test), ("test", test)):
        arrays |= {f"{part}_user": users[some], f"{part}_item": items[some]}
    np.savez(folder / "citeulike.npz", **arrays)
    np.savez(folder / "ratings.npz", user=users, item=items, rating=rng.integers(1, 6, len(users)))
    np.savez(folder / "beauty.npz", user=users, item=items, time=np.arange(len(users)))
    np.savez(folder / "lastfm.npz", user=users, item=items)
    return folder


def test_a_grid_is_run_once(script, tmp_path, capsys):
    accuracy, folder = script("accuracy"), packed(tmp_path)
    few = {"epochs": 2, "early_stopping__every": 1, "dim": 4, "device": "cpu", "engine": "eager"}
    jobs = [
        {"data": data, "system": system, "seed": 0, "protocol": protocol, "settings": settings}
        for data, system, protocol, settings in (
            ("citeulike", "bpr", "valid", few),
            ("citeulike", "bpr", "paper", few),
            ("citeulike", "ease", "validated", {"device": "cpu"}),
            ("ratings", "bpr", "chosen", few | {"sampler__dislikes": 0.2}),
            ("beauty", "bpr", "fixed", few),
            ("lastfm", "popular", "validated", {}),
        )
    ]
    jobs.append({**jobs[-1], "rows": 60})
    grid, out = tmp_path / "grid.jsonl", tmp_path / "out.jsonl"
    grid.write_text("".join(json.dumps(job) + "\n" for job in jobs))
    accuracy.main("run", str(folder), str(grid), str(out))
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line.get("error") for line in lines] == [None] * len(jobs)
    assert ["test" in line for line in lines] == [False] + [True] * (len(jobs) - 1)
    assert lines[-1]["sizes"]["rows"] < lines[-2]["sizes"]["rows"]
    accuracy.main("run", str(folder), str(grid), str(out))
    assert len(out.read_text().splitlines()) == len(jobs)
    accuracy.main("show", str(out))
    assert "citeulike bpr paper 0" in capsys.readouterr().out


def test_digests_show_whether_a_change_changes_what_is_learned(script, monkeypatch, tmp_path):
    import sdgar

    digests = script("digests")
    rows = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    monkeypatch.setattr(sdgar, "synthetic", lambda name: rows)
    monkeypatch.setattr(digests, "SYSTEMS", {"MostPopular": {}, "BPR": {"dim": 2}})
    monkeypatch.setattr(digests, "VARIANTS", {})
    before = tmp_path / "before.json"
    assert digests.main(["--json", str(before)]) == 0
    assert set(json.loads(before.read_text())) == {"MostPopular", "BPR eager", "BPR fused-cpu"}
    assert digests.main(["--compare-with", str(before)]) == 0
    monkeypatch.setattr(digests, "SYSTEMS", {"MostPopular": {}, "BPR": {"dim": 3}})
    assert digests.main(["--compare-with", str(before)]) == 1


def test_draws_can_be_drawn(script, tmp_path):
    report = BENCHMARKS / "reports" / "sdsoftmax" / "citeulike-draws.jsonl"
    script("accuracy").main("plot", str(report), str(tmp_path / "draws.png"))
    assert (tmp_path / "draws.png").stat().st_size > 1000


@pytest.fixture
def grids(script, monkeypatch, tmp_path):
    """The grids, with a search in which the last setting that was tried is the best of its row."""
    grids, path = script("grids"), tmp_path / "search.jsonl"
    lines = [job | {"valid": place / 1000} for place, job in enumerate(grids.baselines())]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(grids, "SEARCHED_BASELINES", path)
    return grids


def test_grids_name_systems_and_settings_that_there_are(grids):
    from sdgar.systems.make import estimator_from_params

    for name, grid in grids.GRIDS.items():
        jobs = grid()
        assert jobs, name
        for job in {json.dumps([j["system"], j["settings"]]): j for j in jobs}.values():
            estimator_from_params(job["system"], job["settings"])


def test_every_baseline_has_as_many_tries_and_the_best_of_each_goes_on(grids):
    assert {len(tried) for _, tried in grids.TRIES.values()} == {12}
    assert all(tried.count(one) == 1 for _, tried in grids.TRIES.values() for one in tried)
    final = [job for job in grids.baselines_final() if job["data"] == "douban"]
    wanted = [
        grids.job("douban", system, seed, "validated", **tried[-1])
        for system, tried in grids.TRIES.values()
        for seed in ((0, 1, 2) if system in ("elsa", "ials") else (0,))
    ]
    assert final == wanted


def test_every_data_set_is_packed_and_can_be_loaded_again(script, tmp_path):
    pl = pytest.importorskip("polars")
    accuracy = script("accuracy")
    n = np.arange(600)
    rows = pl.DataFrame({"user": n % 30, "item": n % 19, "rating": n % 10, "position": n})
    folders = [*accuracy.SPLIT.values(), *accuracy.TIMED.values(), "movielens-10m"]
    for folder in {*folders, *(folder for folder, _ in accuracy.WHOLE.values())}:
        (tmp_path / folder).mkdir()
        once = rows.unique(["user", "item"], maintain_order=True)
        once.write_parquet(tmp_path / folder / "interactions.parquet")
        for part, some in (("train", n % 4 > 0), ("test", n % 4 == 0)):
            once.filter(some[: len(once)]).write_parquet(tmp_path / folder / f"{part}.parquet")
    accuracy.main("pack", str(tmp_path), str(tmp_path / "carry"))
    names = [*accuracy.SPLIT, *accuracy.TIMED, *accuracy.WHOLE, *accuracy.RATED, "movielens"]
    assert {path.stem for path in (tmp_path / "carry").iterdir()} == set(names)
    for name in names:
        parts = accuracy.load(tmp_path / "carry", {"data": name})
        assert len(parts.train) > 0, name
        assert len(parts.test) > 0, name
        assert len(parts.split.held_out) > 0, name


def test_the_paper_is_measured_where_no_line_is_yet(script, tmp_path, monkeypatch, capsys):
    accuracy = script("accuracy")
    from sdgar.lab.paper.measurements import Piece

    def piece(value: int) -> Piece:
        return Piece(key={"n": value}, measure=lambda _: {"v": value}, epochs=value)

    monkeypatch.setattr(accuracy, "_pieces", lambda name, data: [piece(1), piece(2)])
    for _ in range(2):
        accuracy.main("paper", str(tmp_path), str(tmp_path), "1", "table1")
    kept = [json.loads(line) for line in (tmp_path / "table1.jsonl").read_text().splitlines()]
    assert [line["values"] for line in kept] == [{"v": 2}, {"v": 1}]  # the longest first


def test_a_busy_neighbour_is_measured(script, monkeypatch, capsys):
    busy = script("busy_neighbour")
    monkeypatch.setattr(busy, "NEIGHBOURS", (0, 1))
    turns = {"sdgar": lambda threads: {"epochs": 1.0 / threads}}
    monkeypatch.setattr(busy, "_all_started", lambda sources, quick: nullcontext(turns))
    rows = busy.measure(2, None)
    assert [(row["neighbours"], row["one_over_two"]) for row in rows] == [(0, 2.0), (1, 2.0)]


def test_contestants_answer_when_it_is_their_turn(script):
    busy = script("busy_neighbour")
    with busy.started("sdgar", BENCHMARKS.parent / "src", quick=True) as turn:
        assert set(turn(1)) == {"epochs", "refit", "ranking"}


def test_pages_show_what_the_reports_hold(script):
    tables = script("tables")
    for page in dict.fromkeys(table.page for table in tables.templates().values()):
        text = (tables.ROOT / page).read_text()
        assert tables.filled(page, text) == text, f"{page} differs from its reports: make tables"


def test_a_page_without_its_marks_is_named(script):
    with pytest.raises(SystemExit, match="needs <!-- table"):
        script("tables").filled("README.md", "no table here")


def test_every_marked_table_is_made_by_something(script):
    tables = script("tables")
    for page in [tables.ROOT / "README.md", *(tables.ROOT / "docs").glob("*.md")]:
        for line in page.read_text().splitlines():
            if line.startswith("<!-- table: "):
                name = line.removeprefix("<!-- table: ").removesuffix(" -->")
                assert tables.templates()[name].page == str(page.relative_to(tables.ROOT))


def test_a_command_is_reported_without_the_places_of_a_machine(script, monkeypatch, tmp_path):
    inside = BENCHMARKS / "reports" / "one.json"
    words = ["benchmarks/one.py", "--before", str(tmp_path / "src"), "--json", str(inside), "--n=/"]
    monkeypatch.setattr(sys, "argv", words)
    reported = script("common").machine()["command"]
    assert reported == (
        "python benchmarks/one.py --before src --json benchmarks/reports/one.json --n=/"
    )


def test_no_report_names_a_place_of_a_machine():
    reports = [*BENCHMARKS.glob("reports/**/*.json"), *BENCHMARKS.glob("reports/**/*.jsonl")]
    assert len(reports) > 50
    for report in reports:
        for command in re.findall(r'"command": "([^"]*)"', report.read_text()):
            assert not [word for word in command.split() if word.startswith("/")], report
