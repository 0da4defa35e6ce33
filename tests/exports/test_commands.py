"""The commands that write a model for other programs, and that take vectors of others in."""

from __future__ import annotations

import numpy as np
import pytest

import sdgar as api

from ..cli.test_cli import result_of, sdgar

CSV = "user,item\nann,tea\nann,ham\nbob,ham\nbob,rum\ncid,tea\n"


@pytest.fixture
def events(tmp_path):
    (tmp_path / "events.csv").write_text(CSV)
    return tmp_path / "events.csv"


def test_export_says_what_it_wrote_and_refuses_to_lose_a_memory(models, tmp_path):
    run = models["memory"].save(tmp_path / "run")
    result = result_of(sdgar("export", run, "--to", "numpy", "--out", tmp_path / "out", "--json"))
    assert result["score"] == "s_ci = u_c · v_i + b_i + Σ_{j ∈ I_c} w_ji"
    assert set(result["files"]) == {file.name for file in (tmp_path / "out").glob("*.npy")}
    refused = sdgar("export", run, "--to", "faiss", "--out", tmp_path / "index")
    assert refused.returncode == 2
    assert "--vectors-only" in refused.stderr
    pytest.importorskip("faiss", reason="faiss is not installed (extra export)")
    words = ("--out", tmp_path / "index", "--vectors-only")
    done = sdgar("export", run, "--to", "faiss", *words)
    assert done.returncode == 0
    assert "weights between items are left out" in done.stdout


def test_import_takes_ids_from_the_file_from_files_or_in_order(events, tmp_path):
    u, v = np.eye(3), np.arange(9.0).reshape(3, 3)
    np.savez(tmp_path / "bare.npz", user_factors=u, item_factors=v)
    np.savez(
        tmp_path / "named.npz", user_factors=u[::-1], item_factors=v,
        users=np.array(["cid", "bob", "ann"]), items=np.array(["ham", "rum", "tea"]),
    )  # fmt: skip
    (tmp_path / "users.txt").write_text("ann\nbob\ncid\n")
    (tmp_path / "items.txt").write_text("ham\nrum\ntea\n")
    common = ("--events", events, "--json")
    ways = {
        "sorted": ("arrays", tmp_path / "bare.npz", "--sorted-ids"),
        "lines": (
            "implicit", tmp_path / "bare.npz",
            "--user-ids", tmp_path / "users.txt", "--item-ids", tmp_path / "items.txt",
        ),
        "named": ("arrays", tmp_path / "named.npz"),
    }  # fmt: skip
    for name, words in ways.items():
        result = result_of(sdgar("import", *words, *common, "--out", tmp_path / name))
        assert (result["users"], result["items"], result["dim"]) == (3, 3, 3)
        model = api.load(tmp_path / name)
        assert model.score_pairs("bob", "rum")["score"][0] == pytest.approx(4.0)
        assert model.recommend("ann", k=3)["item"].to_list() == ["rum"]
    lost = sdgar("import", "implicit", tmp_path / "bare.npz", *common, "--out", tmp_path / "x")
    assert lost.returncode == 3
    assert "--sorted-ids" in lost.stderr
    assert not (tmp_path / "x").exists()
    both = sdgar(
        "import", "arrays", tmp_path / "bare.npz", "--sorted-ids", "--user-ids", "u.txt", *common,
        "--out", tmp_path / "x",
    )  # fmt: skip
    assert both.returncode == 2


def test_ids_of_a_file_of_lines_are_integers_where_all_are_written_so(tmp_path):
    from sdgar.data.readers.tables import read_ids

    (tmp_path / "ids.txt").write_text("10\n-2\n0\n")
    assert read_ids(tmp_path / "ids.txt").tolist() == [10, -2, 0]
    (tmp_path / "ids.txt").write_text("10\n007\n")
    assert read_ids(tmp_path / "ids.txt").tolist() == ["10", "007"]
