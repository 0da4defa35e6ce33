"""How much memory of a GPU training on shards takes."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import sdgar
from sdgar.errors import ResourceError, UsageError
from sdgar.scale.needs import Needs, gpu_needs
from sdgar.scale.shards import Shards
from sdgar.scale.training import OnShards, train_on_shards
from sdgar.scale.workers import Workers

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    users, items = np.divmod(np.arange(600), 10)
    data = sdgar.Interactions.from_arrays(users, items)
    return Shards.write(data, tmp_path_factory.mktemp("data") / "shards", 6)


def test_larger_blocks_and_wider_vectors_need_more(shards):
    model = sdgar.SDSoftmax(dim=8, sampler__states=4)
    needs = gpu_needs(model, shards, 2)
    assert gpu_needs(model, shards, 4).block > needs.block
    assert gpu_needs(model, shards, 4).items == needs.items
    assert gpu_needs(sdgar.SDSoftmax(dim=16, sampler__states=4), shards, 2).items > needs.items
    assert gpu_needs(sdgar.SDSoftmax(dim=8, sampler__states=8), shards, 2).items > needs.items
    adam = gpu_needs(sdgar.SDSoftmax(dim=8, sampler__states=4, optimizer="lazy-adam"), shards, 2)
    assert adam.items - needs.items == shards.n_items * (8 * 8 - 4)
    assert needs.total == needs.items + needs.block + needs.work


def test_all_tables_of_the_largest_block_are_counted(shards):
    """Vectors, sums and states of a block are there four times: once in use, and in three slots."""
    needs, users = gpu_needs(sdgar.SDSoftmax(dim=8, sampler__states=4), shards, 6), shards.n_users
    assert needs.block > 4 * users * (4 * 8 + 4) + users * (3 * 8 + 12) * 4
    assert needs.items > shards.n_items * (8 * 8 + 12 * 4)


REPORT = Path(__file__).parents[2] / "benchmarks" / "reports" / "sharded_gpu.json"


@pytest.mark.skipif(not REPORT.exists(), reason="benchmarks/ is not there")
def test_the_counted_bytes_exceed_what_was_measured_on_a_gpu():
    for run in json.loads(REPORT.read_text())["runs"]:
        parts = [SimpleNamespace(rows=-(-run["rows"] // run["shards"]))] * run["shards"]
        start_S1 = np.linspace(0, run["users"], run["shards"] + 1).astype(np.int64)
        like = {
            "n_users": run["users"], "n_items": run["items"], "n_shards": run["shards"],
            "start_S1": start_S1, "has_weights": False, "described": SimpleNamespace(shards=parts),
        }  # fmt: skip
        made_up = type("Sizes", (), {**like, "__len__": lambda _, run=run: run["rows"]})()
        model = sdgar.SDSoftmax(dim=run["dim"], sampler__states=run["states"])
        for way, found in run["ways"].items():
            if "blocks" in found:
                together = run["shards"] if found["blocks"] == 1 else run["together"]
                on_gpu = way in ("on the GPU", "one block")
                needs = gpu_needs(model, made_up, together, on_gpu=on_gpu)
                assert found["reserved_bytes"] < needs.total, way
                assert needs.total < 3 * found["reserved_bytes"], way


def test_too_little_memory_is_refused_with_what_helps():
    needs = Needs(items=3 << 30, block=8 << 30, work=1 << 30)
    needs.require_within(12 << 30, 8, CPU)
    with pytest.raises(ResourceError, match=re.escape("needs 12.00 GiB of the GPU: 3.00")) as error:
        needs.require_within(8 << 30, 8, CPU)
    assert "8.00 GiB are allowed by --gpu-memory. Put fewer shards together" in str(error.value)
    assert "--together 4." in str(error.value)
    with pytest.raises(ResourceError, match="smaller dim or states"):
        needs.require_within(4 << 30, 8, CPU)
    with pytest.raises(ResourceError, match="are free"):
        Needs(1 << 60, 0, 0).require_within(None, 1, CPU)


def test_several_workers_train_on_cpus_unless_the_device_is_a_gpu(shards, tmp_path, monkeypatch):
    several = OnShards(workers=Workers(machine_R=(0, 0)), work=tmp_path)
    with pytest.raises(UsageError, match="2 workers train together on CPUs only"):
        train_on_shards(sdgar.BPR(engine="fused-gpu", device="cpu"), shards, several)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert OnShards().device("auto").type == "cuda"
    assert several.device("auto").type == "cpu"
    assert several.device("cuda").type == "cuda"
