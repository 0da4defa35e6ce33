"""Files at addresses: fetched to a cache as they are needed, and uploaded whole."""

from __future__ import annotations

from unittest.mock import MagicMock

import fsspec
import numpy as np
import polars as pl
import pytest

import sdgar
from sdgar.errors import ArtifactError, ResourceError, UsageError
from sdgar.scale.shards import Shards
from sdgar.storage import remote

from ..cli.test_cli import refuses, result_of
from ..cli.test_cli import sdgar as command

MEMORY = fsspec.filesystem("memory")
ROWS = "user,item\nann,7\nann,8\nbob,7\neve,9\neve,8\ntom,7\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(remote.CACHE, str(tmp_path / "cache"))
    MEMORY.store.clear()
    MEMORY.pseudo_dirs[:] = [""]
    return tmp_path / "cache"


@pytest.fixture
def shards(tmp_path):
    """Put a folder of shards at an address, and return what is in it."""
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 600, 300))
    data = sdgar.Interactions.from_arrays(pairs // 20, pairs % 20)
    local = Shards.write(data, tmp_path / "events.shards", 3)
    MEMORY.put(str(local.folder), "/bucket/events.shards", recursive=True)
    return data


def put(text, path="/bucket/logs/a.csv"):
    MEMORY.pipe(path, text.encode())


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("s3://bucket/a", True), ("memory://a/b.csv", True), ("file:///a", True), ("S3://b", True),
        ("sqlite:///a.db", False), ("postgresql://h/n", False), ("mysql://h/n", False),
        ("a/b.csv", False), ("C:/a", False), (None, False),
    ],
)  # fmt: skip
def test_addresses_of_files_are_distinguished_from_paths_and_stores(text, is_one):
    assert remote.is_remote(text) == is_one


def test_events_at_an_address_are_those_of_the_file(tmp_path):
    put(ROWS)
    (tmp_path / "a.csv").write_text(ROWS)
    local = sdgar.read(tmp_path / "a.csv").fingerprint()
    assert sdgar.read("memory://bucket/logs/a.csv").fingerprint() == local
    assert sdgar.read(f"file://{tmp_path}/a.csv").fingerprint() == local
    put(ROWS.replace("tom", "tim"))  # which has as many bytes
    assert "tim" in sdgar.read("memory://bucket/logs/a.csv").users.values.tolist()


@pytest.mark.parametrize("source", ["memory://bucket/logs", "memory://bucket/*/*/?.csv"])
def test_patterns_and_folders_are_read(tmp_path, source):
    put(ROWS, "/bucket/logs/day=2/a.csv")
    put("user,item\nkim,3\n", "/bucket/logs/day=3/b.csv")
    words = ("data", "shard", source, "--out", tmp_path / "shards", "--shards", 2, "--json")
    assert result_of(command(*words))["interactions"] == 7


def test_a_command_takes_events_and_gives_shards_at_addresses(tmp_path):
    put(ROWS)
    out = "memory://bucket/new.shards"
    words = ("data", "shard", "memory://bucket/logs/a.csv", "--shards", 2, "--json", "--out")
    there = result_of(command(*words, out))
    here = result_of(command(*words, tmp_path / "here"))
    assert there["folder"] == out
    assert (there["digest"], there["bytes"]) == (here["digest"], here["bytes"])
    refuses(f"{out} exists", *words, out)
    result_of(command(*words, out, "--overwrite"))
    report = result_of(command("data", "info", out, "--verify", "--json"))
    assert report["folder"] == out
    assert (report["digest"], report["bytes"]) == (here["digest"], here["bytes"])
    words = ("data", "split", out, "--rule", "paper", "--out", "memory://b/parts", "--json")
    parts = result_of(command(*words))
    assert parts["train"] + parts["test"] == 6
    assert len(Shards.open("memory://b/parts/train.shards")) == parts["train"]


def test_files_of_shards_are_fetched_when_they_are_needed(shards, cache):
    opened = Shards.open("memory://bucket/events.shards")
    assert not list(cache.rglob("*.npy"))
    assert len(opened[1].items_E) == opened.rows_S[1]
    assert [path.parent.name for path in cache.rglob("*.npy")] == ["shard-00001"]
    assert opened.interactions().fingerprint() == shards.fingerprint()


def test_a_file_that_is_not_that_of_its_manifest_is_refused(shards, cache):
    path = "/bucket/events.shards/shard-00001/items.npy"
    data = bytearray(MEMORY.cat(path))
    data[-1] ^= 1
    MEMORY.pipe(path, bytes(data))
    opened = Shards.open("memory://bucket/events.shards")
    with pytest.raises(ArtifactError, match="its SHA-256 is"):
        opened[1].items_E  # noqa: B018
    assert not list(cache.rglob("items.npy"))
    MEMORY.pipe(path, bytes(data[:-1]))
    with pytest.raises(
        ResourceError, match=r"shard-00001/items\.npy has .* bytes, and its manifest"
    ):
        Shards.open("memory://bucket/events.shards")
    MEMORY.rm(path)
    with pytest.raises(ResourceError, match=r"shard-00001/items\.npy is missing"):
        Shards.open("memory://bucket/events.shards")


def test_training_reads_and_writes_addresses(shards, tmp_path):
    words = ("train", "memory://bucket/events.shards", "--system", "bpr", "--set", "dim=4")
    words += ("--set", "epochs=1", "--test-users", 5, "--json", "--out")
    there = result_of(command(*words, "memory://bucket/run"))
    assert there["out"] == "memory://bucket/run"
    result_of(command(*words, tmp_path / "run"))
    local = sdgar.load(tmp_path / "run").recommend(k=2)
    assert sdgar.load("memory://bucket/run").recommend(k=2).equals(local)
    done = command("recommend", "memory://bucket/run", "--user", 3, "-k", 2, "--json")
    assert len(result_of(done)["recommendations"][0]["items"]) == 2
    refuses("memory://bucket/run exists", *words, "memory://bucket/run")


def test_the_manifest_comes_last_and_nothing_of_before_stays(tmp_path, monkeypatch):
    place = remote.place_for("memory://bucket/folder")
    (place / "sub").mkdir(parents=True)
    for name in ("manifest.json", "a.bin", "sub/manifest.json", "sub/b.bin"):
        (place / name).write_text(name)
    MEMORY.pipe("/bucket/folder/old.bin", b"old")
    MEMORY.pipe("/bucket/folder/manifest.json", b"old")
    seen = []
    put_file = type(MEMORY).put_file

    def watched(self, source, target, **more):
        seen.append((target, self.exists("/bucket/folder/manifest.json")))
        put_file(self, source, target, **more)

    monkeypatch.setattr(type(MEMORY), "put_file", watched)
    assert remote.deliver(place) == "memory://bucket/folder"
    ends = [target.removeprefix("/bucket/folder/") for target, _ in seen]
    assert ends[-2:] == ["sub/manifest.json", "manifest.json"]
    assert not any(there for _, there in seen)
    assert sorted(MEMORY.find("/bucket/folder")) == [
        f"/bucket/folder/{n}" for n in ("a.bin", "manifest.json", "sub/b.bin", "sub/manifest.json")
    ]
    assert not place.exists()


def test_a_folder_of_this_machine_is_left_where_it_is(tmp_path):
    assert remote.deliver(tmp_path) == str(tmp_path)
    assert remote.place_for(f"file://{tmp_path}/a") == tmp_path / "a"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (FileNotFoundError("x"), "no_such_file", "there is nothing at memory://bucket/a.csv"),
        (PermissionError("hush"), "unreachable", "cannot be reached (PermissionError)"),
        (ConnectionResetError("hush"), "unreachable", "cannot be reached (ConnectionResetError)"),
        (TimeoutError("hush"), "unreachable", "cannot be reached (TimeoutError)"),
    ],
)
def test_what_goes_wrong_there_is_named_without_secrets(error, code, said, monkeypatch):
    def fails(*args, **options):
        raise error

    put(ROWS, "/bucket/a.csv")
    monkeypatch.setattr(type(MEMORY), "open", fails)
    with pytest.raises((ResourceError, UsageError)) as found:
        remote.fetched("memory://bucket/a.csv")
    assert found.value.code == code
    assert said in str(found.value)
    assert "hush" not in str(found.value)


def broken(error):
    """Return a file that reads half of a block, and then fails."""
    file = MagicMock()
    file.__enter__.return_value = file
    file.read.side_effect = [b"half of it", error]
    file.write.side_effect = error
    return file


def test_a_connection_that_is_cut_leaves_nothing_that_passes_for_whole(shards, cache, monkeypatch):
    opened = Shards.open("memory://bucket/events.shards")
    monkeypatch.setattr(type(MEMORY), "open", lambda *a, **o: broken(ConnectionResetError()))
    with pytest.raises(ResourceError, match="cannot be reached"):
        opened[0].items_E  # noqa: B018
    assert not [path for path in cache.rglob("*") if "items" in path.name]


def test_a_full_disk_here_is_distinguished_from_trouble_there(cache, monkeypatch):
    put(ROWS)
    full = broken(OSError(28, "No space left on device"))
    monkeypatch.setattr(fsspec.spec, "open", lambda *_: full, raising=False)
    with pytest.raises(ResourceError) as found:
        remote.fetched("memory://bucket/logs/a.csv")
    assert found.value.code == "disk_full"


def test_what_is_not_installed_is_named_with_what_installs_it(monkeypatch):
    def missing(*args, **options):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(UsageError, match=r"pip install 'sdgar\[remote\]'"):
        sdgar.read("s3://bucket/a.csv")


def test_secrets_in_an_address_are_never_shown():
    address = "s3://key:hush@bucket/a/b.csv?token=hush"
    assert remote.shown(address) == "s3://bucket/a/b.csv"


def test_events_of_parquet_are_read_in_blocks(tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2, 3], "item": [4, 5, 4, 5]})
    frame.write_parquet(tmp_path / "a.parquet")
    MEMORY.put(str(tmp_path / "a.parquet"), "/bucket/a.parquet")
    words = ("data", "shard", "memory://bucket/a.parquet", "--out", tmp_path / "s", "--json")
    assert result_of(command(*words))["interactions"] == 4
