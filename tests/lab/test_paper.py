"""`sdgar paper all --quick` from end to end, on tiny data that stands for the paper's sets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sdgar.cli.app import app
from sdgar.data import splits
from sdgar.data.synthetic import Shape, generate
from sdgar.lab import paper as experiments
from sdgar.lab.paper import chosen, measurements, seconds
from sdgar.runs.watching import Watch, Work, never
from sdgar.systems.names import SYSTEMS

polars = pytest.importorskip("polars")

TINY = Shape(users=60, items=80, interactions=900, concentration=0.2)
SMALL = Shape(users=2000, items=1600, interactions=20_000, concentration=0.15)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """CiteULike, Gowalla and MovieLens by name, tiny by size; Amazon and Echonest are missing."""
    root = tmp_path_factory.mktemp("data")
    for number, name in enumerate(chosen.FOLDERS.values()):
        (root / name).mkdir()
        data = generate(TINY, seed=number)
        parts = {"interactions": data}
        if name != "movielens-10m":
            parts = dict(zip(("train", "test"), splits.per_user(data, seed=0), strict=True))
        for part, rows in parts.items():
            frame = polars.DataFrame(
                {"user": rows.users.at(rows.users_E), "item": rows.items.at(rows.items_E)}
            )
            frame.write_parquet(root / name / f"{part}.parquet")
    return root


@pytest.fixture(scope="module", autouse=True)
def small_shapes():
    """Synthetic data is hundreds of times smaller, and timed twice only."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("amazon", "echonest"):
            patch.setitem(seconds.PRESETS, name, SMALL)
        patch.setattr(seconds, "QUICK_SHARE", 200)
        patch.setattr(seconds, "INTERACTIONS", 400_000)
        patch.setattr(seconds, "ITEMS", dict.fromkeys(seconds.ITEMS, seconds.ITEMS["irgan"]))
        patch.setattr(seconds, "ROUNDS", 1)
        chosen.source.cache_clear()
        yield
    chosen.source.cache_clear()


@pytest.fixture(scope="module")
def made(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("paper") / "out"
    words = ["paper", "all", "--quick", "--data", str(folder), "--out", str(out), "--json"]
    result = CliRunner().invoke(app, [*words, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    return out, json.loads(result.stdout.splitlines()[-1])


def rows_of(out: Path, name: str) -> list[dict]:
    return json.loads((out / f"{name}.json").read_text())


def test_every_experiment_leaves_its_data_table_and_picture(made):
    out, said = made
    assert said["experiments"] == list(experiments.EXPERIMENTS)
    for name in experiments.EXPERIMENTS:
        suffixes = {"jsonl", "json", "md"} | ({"png"} if name != "table1" else set())
        for suffix in suffixes:
            assert (out / f"{name}.{suffix}").stat().st_size > 100, (name, suffix)
        assert "Made on: " in (out / f"{name}.md").read_text()
    assert {Path(file).suffix for file in said["files"]} == {".md", ".json", ".png"}


def test_table1_counts_what_is_there_and_says_what_is_made_up(made):
    rows = {row["data"]: row for row in rows_of(made[0], "table1")}
    for name in ("citeulike", "gowalla", "movielens"):
        row = rows[name]
        assert (row["real"], row["users"], row["items"], row["interactions"]) == (True, 60, 80, 900)
    assert [rows[name]["real"] for name in ("amazon", "echonest")] == [False, False]
    text = (made[0] / "table1.md").read_text()
    assert "| CiteULike | 60 | 7,947 | 80 | 25,975 | 900 | 134,860 |" in text
    assert "synthetic, split by the paper's rule" in text


def test_table2_has_every_system_and_sound_numbers(made):
    rows = rows_of(made[0], "table2")
    assert len({row["label"] for row in rows}) == 8 + 2 + 3
    assert all(0 < row["ndcg@50"] < 1 for row in rows)
    assert "per_user" not in rows[0]
    paired = rows_of(made[0], "table2-paired")
    assert {row["label"] for row in paired} == {row["label"] for row in rows} - {"sdgar"}
    assert all(row["low"] <= row["difference"] <= row["high"] for row in paired)
    text = (made[0] / "table2.md").read_text()
    assert "| 0.1365 |" in text  # the paper's SD-GAR on CiteULike
    assert "+17.2%" in text  # and its improvement over BPR there


def test_trends_and_sensitivities_cover_their_axes(made):
    trend = rows_of(made[0], "trend")
    assert sorted({row["epoch"] for row in trend}) == list(range(5, 80, 5))
    assert {row["system"] for row in trend} == {"sdsoftmax", "sdgar", "dns", "sa", "bpr"}
    assert all(0 <= row["ndcg@50"] <= 1 for row in trend)
    found = {(row["axis"], row["value"]) for row in rows_of(made[0], "sensitivity")}
    assert {("dim", 16), ("dim", 256), ("n_negatives", 1), ("sampler__samples", 128)} <= found
    assert len(found) == 9


def test_costs_are_positive_and_ratios_are_of_their_rows(made):
    for name in ("time", "items"):
        rows = rows_of(made[0], name)
        assert {row["system"] for row in rows} == {"sdgar", "irgan"}
        assert all(row["discriminator"] > 0 and row["generator"] > 0 for row in rows)
    ours, theirs = rows_of(made[0], "time")[:2]
    ratio = theirs["discriminator"] / ours["discriminator"]
    drawing = theirs["proposals"] / ours["discriminator"]
    assert f"| {ratio:.1f} | {drawing + 1:.1f} | 20 |" in (made[0] / "time.md").read_text()


def test_what_was_measured_is_not_measured_again(made, folder):
    out, _ = made
    before = {path: path.read_bytes() for path in out.glob("*.jsonl")}
    pictures = [path for path in out.iterdir() if path.suffix != ".jsonl"]
    for path in pictures:
        path.unlink()
    setting = experiments.PaperOptions(data=folder, quick=True, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sdgar.data.readers.read", None)  # nothing is read, let alone trained
        chosen.source.cache_clear()
        experiments.run(experiments.named("all"), out, setting, watch=Watch(), stop=never)
    assert {path: path.read_bytes() for path in out.glob("*.jsonl")} == before
    assert all(path.exists() for path in pictures)


def test_another_setting_is_another_piece(folder):
    quick, full = (
        experiments.PaperOptions(data=folder, quick=q, device="cpu") for q in (True, False)
    )
    for experiment in experiments.named("all"):
        some = [piece.key for piece in experiment.pieces(quick)]
        others = [piece.key for piece in experiment.pieces(full)]
        assert len(others) >= len(some)
        # What has no epochs, or as many in both, is the same piece.
        for key in some:
            assert key not in others or "epochs" not in key.get("settings", {})


def test_growth_is_an_exponent_and_a_straight_line_is_found():
    sizes = [1e4, 3e4, 1e5]
    assert seconds.growth(sizes, [2 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert seconds.straight([1.0, 2.0, 4.0], [5.0, 7.0, 11.0]) == pytest.approx((3, 2, 1))
    assert seconds.straight([1.0, 2.0, 3.0], [1.0, 2.0, 1.0])[2] < 0.1


def test_scaled_shapes_keep_their_proportions():
    whole, half = seconds.scaled("citeulike", 1.0), seconds.scaled("citeulike", 0.5)
    assert (whole.users, whole.items, whole.interactions) == chosen.PAPER_SIZES["citeulike"]
    assert (half.users, half.items) == (3973, 12987)
    assert seconds.QUICK_TIME_SHARE < 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["table3"], "table3"),
        (["all", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["table1", "--data", "no/such/folder"], "is not a folder"),
    ],
)
def test_bad_input_is_named(tmp_path, words, said):
    from sdgar.errors import UsageError

    result = CliRunner().invoke(app, ["paper", *words, "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)
    assert not (tmp_path / "out").exists()


SEARCHES = Path(__file__).parents[2] / "benchmarks" / "reports" / "table2"


@pytest.mark.skipif(not SEARCHES.is_dir(), reason="benchmarks/ is not next to the tests")
@pytest.mark.parametrize("data", chosen.REAL)
def test_the_settings_are_the_best_of_the_search_on_validation_rows(data):
    lines = (SEARCHES / f"{data}-search.jsonl").read_text().splitlines()
    runs = [run for run in map(json.loads, lines) if "error" not in run]
    for system in (*chosen.SYSTEMS, *chosen.BASELINES):
        best = max((r for r in runs if r["system"] == system), key=lambda run: run["valid"])
        found, expected = (
            SYSTEMS[system](**settings).get_params() | {"epochs": None}
            for settings in (chosen.settings_of(system, data), best["settings"])
        )
        assert found == expected, system


def test_numbers_of_users_are_packed_to_sixteen_bits():
    values_T = np.random.default_rng(0).random(1000)
    values_T[:3] = 0, 1, 0.5
    back_T = measurements.unpacked(measurements.packed(values_T))
    np.testing.assert_allclose(back_T, values_T, atol=0.51 / 65535)
    assert back_T[:2].tolist() == [0, 1]


def test_what_another_device_left_is_shown_too(tmp_path):
    """A time on one device does not count for another, whose rows are shown too."""

    def piece(device: str, value: int) -> measurements.Piece:
        return measurements.Piece(
            key={"system": "sdgar", "device": device},
            measure=lambda _: {"value": value},
        )

    other = measurements.Piece(key={"device": "tpu"}, measure=lambda _: {"value": 3})
    path, work = tmp_path / "time.jsonl", Work(Watch(), never, "")

    def measured(*found: measurements.Piece) -> list[int]:
        rows = measurements.measured(list(found), path, "cpu", work)
        return [row["value"] for row in rows]

    assert measured(piece("cuda", 1), other) == [1, 3]
    assert measured(piece("cpu", 2)) == [2, 1]
    assert measured(piece("cuda", 9)) == [1, 2]
