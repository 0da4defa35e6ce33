"""A folder of shards holds what was written, in the numbers of a load in memory."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdgar
from sdgar.data.history import History
from sdgar.errors import ArtifactError, SdgarError, UsageError
from sdgar.scale.shards import Shards
from sdgar.scale.shards.writing import shard_of

MASK = (1 << 64) - 1


def hash_of(spelling: str) -> int:
    """The hash by its definition, one word after the other."""
    raw = spelling.encode()
    found = len(raw)
    for at in range(0, len(raw), 8):
        x = (found ^ int.from_bytes(raw[at : at + 8].ljust(8, b"\0"), "little")) & MASK
        x = (x + 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        found = x ^ (x >> 31)
    return found


@given(st.lists(st.text(min_size=1, max_size=40), unique=True, min_size=1), st.integers(1, 1000))
@settings(max_examples=50, deadline=None)
def test_the_shard_of_a_text_is_that_of_the_definition(texts, n_shards):
    texts = sorted(t for t in texts if t.isprintable()) or ["a"]
    ids = np.array([*texts, None], dtype=object)[:-1]
    wanted = [(hash_of(text) >> 32) * n_shards >> 32 for text in texts]
    assert shard_of(ids, n_shards).tolist() == wanted


def test_an_integer_lies_in_the_shard_of_its_spelling():
    numbers = [-(2**63), -7, 0, 7, 2**62]
    texts = sorted(map(str, numbers))
    of_text = dict(zip(texts, shard_of(np.array(texts, object), 97), strict=True))
    of_numbers = shard_of(np.array(numbers), 97)
    assert of_numbers.tolist() == [of_text[str(n)] for n in numbers]
    assert [f"{hash_of(t):016x}" for t in ("7", "ann")] == ["bc46b610e9d3f375", "6cd3912f7806b415"]


IDS = st.one_of(
    st.just(lambda n: n - 3),
    st.just(lambda n: n + 2**63),
    st.just(lambda n: f"é{n}" if n % 2 else f"{n:03}"),
)


@st.composite
def data_sets(draw) -> sdgar.Interactions:
    """Small data of any ids, with or without weights, times, dislikes and what is neither."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), min_size=1))
    user, item = draw(IDS), draw(IDS)
    column = st.lists(st.integers(1, 50), min_size=len(pairs), max_size=len(pairs))
    made = sdgar.Interactions.from_arrays(
        [user(u) for u, _ in pairs],
        [item(i) for _, i in pairs],
        weight=draw(st.none() | column),
        time=draw(st.none() | column),
        duplicates="last",
    )
    low = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9))))
    if not low:
        return made
    times = None if made.time_E is None else np.arange(len(low))
    neutral = draw(st.none() | st.lists(st.booleans(), min_size=len(low), max_size=len(low)))
    return made.with_seen(
        np.array([user(u) for u, _ in low]),
        np.array([item(i) for _, i in low]),
        times,
        None if neutral is None else np.array(neutral),
    )


@given(data_sets(), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_what_is_written_comes_back(tmp_path_factory, data, n_shards):
    folder = tmp_path_factory.mktemp("any") / "s"
    shards = Shards.write(data, folder, n_shards)
    again = Shards.open(folder, verify=True).interactions()
    assert again.fingerprint() == data.fingerprint()
    assert again.account == data.account
    assert (len(shards), shards.n_users, shards.n_items) == (len(data), data.n_users, data.n_items)
    for shard in shards:
        history = History(shard.indptr_U1, shard.items_E)
        assert shard.users.values.tolist() == data.users.at(shard.rank_U).tolist()
        for user, rank in enumerate(shard.rank_U):
            assert history.of(user).tolist() == data.history.of(rank).tolist()
    assert shards.items.values.tolist() == data.items.values.tolist()
    shutil.rmtree(folder.parent)


@pytest.fixture
def folder(tmp_path):
    """Three shards of text ids with weights and times."""
    n = np.arange(40)
    data = sdgar.Interactions.from_arrays(
        [f"u{u}" for u in n % 11], n % 7, weight=1.0 + n, time=n, duplicates="last"
    )
    Shards.write(data, tmp_path / "s", 3)
    return tmp_path / "s"


def test_the_arrays_of_a_shard_are_mapped_and_cannot_be_written_to(folder):
    shards = Shards.open(folder)
    assert shards.start_S1[-1] == shards.n_users
    assert shards.rows_S.sum() == len(shards)
    shard = next(s for s in shards if len(s))
    for array in (shard.indptr_U1, shard.items_E, shard.weight_E, shard.time_E, shard.rank_U):
        assert isinstance(array, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def _refused(folder, code: str, **how) -> str:
    with pytest.raises(SdgarError) as caught:
        Shards.open(folder, **how)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize("name", ["indptr.npy", "items.npy", "users.bytes.npy", "manifest.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / "shard-00001" / name).unlink()
    assert f"shard-00001/{name} is damaged: the file is missing" in _refused(folder, "damaged")


@pytest.mark.parametrize("name", ["time.npy", "rank.npy"])
def test_a_truncated_file_is_named(folder, name):
    path = folder / "shard-00002" / name
    path.write_bytes(path.read_bytes()[:-1])
    assert str(path) in _refused(folder, "damaged")


def test_an_altered_file_is_named_when_it_is_verified(folder):
    path = folder / "shard-00000" / "items.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(bytes(raw))
    Shards.open(folder)
    assert str(path) in _refused(folder, "damaged", verify=True)


def test_an_altered_manifest_is_refused(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"kept": 40', '"kept": 41'))
    assert str(path) in _refused(folder, "damaged")


def test_another_version_is_refused(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 2'))
    assert "format version" in _refused(folder, "format_version")


def test_a_shard_of_another_set_is_named(folder, tmp_path):
    Shards.write(Shards.open(folder).interactions()[:30], tmp_path / "other", 3)
    shutil.rmtree(folder / "shard-00001")
    shutil.copytree(tmp_path / "other" / "shard-00001", folder / "shard-00001")
    said = _refused(folder, "mixed_shards")
    assert "shard-00001 belongs to another set of shards" in said


def test_two_shards_in_each_others_place_are_refused(folder):
    (folder / "shard-00000").rename(folder / "x")
    (folder / "shard-00001").rename(folder / "shard-00000")
    (folder / "x").rename(folder / "shard-00001")
    _refused(folder, "mixed_shards")


def test_another_folder_is_not_taken_for_shards(tmp_path):
    (tmp_path / "m").mkdir()
    _refused(tmp_path / "m", "not_shards")
    (tmp_path / "m" / "manifest.json").write_text(json.dumps({"format": "x"}))
    with pytest.raises(ArtifactError):
        Shards.open(tmp_path / "m")


def test_what_is_there_is_replaced_only_on_request(folder, tmp_path):
    data = Shards.open(folder).interactions()
    with pytest.raises(UsageError, match="exists"):
        Shards.write(data, folder, 2)
    assert Shards.write(data, folder, 2, overwrite=True).n_shards == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="not part of a folder of shards"):
        Shards.write(data, tmp_path / "mine", 2, overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("n_shards", [0, -1, 1.5, True, 10**9])
def test_a_wrong_number_of_shards_is_refused(folder, tmp_path, n_shards):
    with pytest.raises(UsageError, match="shards must be"):
        Shards.write(Shards.open(folder).interactions(), tmp_path / "t", n_shards)
    assert not (tmp_path / "t").exists()
