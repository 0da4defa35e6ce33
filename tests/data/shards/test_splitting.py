"""Shards are split shard by shard as rows in memory are, row for row."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdgar
from sdgar.errors import SdgarError, UsageError
from sdgar.scale.shards import Shards
from sdgar.scale.shards.splitting import kth_smallest, split_shards

from ...cli.test_cli import sdgar as command
from .test_shards import data_sets


@given(
    data_sets(),
    st.integers(1, 4),
    st.sampled_from(["paper", "time", "paper:0.5", "time:0.4", None]),
    st.integers(0, 3),
)
@settings(max_examples=30)
def test_the_parts_are_those_of_a_split_in_memory(tmp_path_factory, data, n_shards, rule, seed):
    folder = tmp_path_factory.mktemp("any")
    shards = Shards.write(data, folder / "s", n_shards)
    try:
        wanted = sdgar.split(data, rule, seed=seed)
    except SdgarError as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        with pytest.raises(type(refused)) as caught:
            split_shards(shards, folder / "out", rule, seed=seed)
        assert caught.value.code == refused.code
        assert not (folder / "out").exists()
        return
    train, held_out, how = split_shards(shards, folder / "out", rule, seed=seed)
    assert how == wanted.how
    for shard_part, part in ((train, wanted.train), (held_out, wanted.held_out)):
        again = Shards.open(shard_part.folder, verify=True).interactions()
        assert again.fingerprint() == part.fingerprint()
        assert again.account == part.account


@given(
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9))).filter(any),
    st.data(),
)
@settings(max_examples=20)
def test_the_kth_smallest_is_found_without_a_sort_of_all(parts, data):
    together = sorted(sum(parts, []))  # noqa: RUF017
    k = data.draw(st.integers(0, len(together) - 1))
    assert kth_smallest([np.array(part, np.int64) for part in parts], k, few=1) == together[k]


def test_other_rules_are_refused(tmp_path):
    data = sdgar.Interactions.from_arrays([1, 1, 2], [1, 2, 3])
    shards = Shards.write(data, tmp_path / "s", 2)
    with pytest.raises(UsageError, match="shards are split by paper or time"):
        split_shards(shards, tmp_path / "out", "leave-last-out")


def test_the_commands_shard_describe_and_split(tmp_path):
    lines = [f"u{n % 13},{n * 5 % 11},{1_600_000_000 + n}" for n in range(90)]
    (tmp_path / "t.csv").write_text("\n".join(["user,item,time", *lines]))
    folder = tmp_path / "s"
    made = json.loads(
        command(
            "data", "shard", tmp_path / "t.csv", "--out", folder, "--shards", 3, "--json"
        ).stdout
    )
    report = json.loads(command("data", "info", folder, "--verify", "--json").stdout)
    assert report == made | {"verified": True}
    assert report["interactions"] == sum(report["rows_of_shards"]) == 90
    assert "90 rows in 3 shards" in command("data", "info", folder).stdout
    split = command("data", "split", folder, "--out", tmp_path / "parts", "--rule", "time:0.2")
    assert "by time, last 20% of the rows" in split.stdout
    assert len(Shards.open(tmp_path / "parts" / "test.shards")) == 18
    again = command("data", "shard", tmp_path / "t.csv", "--out", folder)
    assert again.returncode == 2
    assert "exists" in again.stderr
    bad = command("data", "shard", tmp_path / "t.csv", "--out", tmp_path / "x", "--ram", "much")
    assert "--ram must be a number of bytes" in bad.stderr
