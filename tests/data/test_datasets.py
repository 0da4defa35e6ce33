"""The five data sets: what a raw file of the published format becomes."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.data.tables import events
from sdgar.errors import DataError, ResourceError, UsageError
from sdgar.lab import prepare as preparing
from sdgar.lab.datasets import DATASETS, find
from sdgar.lab.prepare import Prepared, at_least, prepare, write_prepared

MEMBER = "ml-10M100K/ratings.dat"


def rows_of(prepared: Prepared) -> list[tuple[object, ...]]:
    return events(prepared.interactions).rows()


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), newline="")
    return path


def movielens(user: int, items: range, rating: str = "5", time: int = 838985046) -> list[str]:
    return [f"{user}::{item}::{rating}::{time + item}" for item in items]


def check_in(user: int, item: int, day: int = 19) -> str:
    return f"{user}\t2010-10-{day:02}T23:55:27Z\t30.2359091167\t-97.7951395833\t{item}"


# Lookup


def test_the_five_data_sets_of_the_paper_are_known():
    assert list(DATASETS) == ["citeulike", "gowalla", "movielens", "amazon", "echonest"]


# CiteULike


def test_citeulike_raw_gives_the_papers_users_and_interactions(shared_data):
    raw = shared_data / "citeulike-t/raw/users.dat"
    prepared = prepare("citeulike", raw)
    assert (prepared.interactions.n_users, len(prepared.interactions)) == (7_947, 134_860)
    assert prepared.interactions.account.as_dict() == {
        "read": 134_860,
        "kept": 134_860,
        "duplicates": 0,
        "filtered": {},
        "rejected": {},
    }
    assert prepared.sha256 == find("citeulike").sha256
    published = pl.read_parquet(shared_data / "citeulike-t/interactions.parquet")
    assert events(prepared.interactions).equals(published.cast(pl.Int64))
    assert "7,947 users, equal to the paper's Table 1." in prepared.notes
    assert "25,584 items, differs by -391 from the paper's 25,975." in prepared.notes


def test_a_citeulike_user_is_a_line_number_and_an_article_of_a_library_counts_once(tmp_path):
    prepared = prepare("citeulike", write(tmp_path, "users.dat", "3 7 7 5", "0", "1 7"))
    assert rows_of(prepared) == [(0, 5), (0, 7), (2, 7)]
    assert prepared.interactions.account.duplicates == 1
    assert any("not the one we know" in note for note in prepared.notes)


# Gowalla


def gowalla_core(days: int = 1) -> list[str]:
    """Ten users at ten places, on each of some days."""
    return [
        check_in(user, 22847 + place, day)
        for day in range(1, days + 1)
        for user in range(10)
        for place in range(10)
    ]


def test_gowalla_keeps_the_ten_core_and_the_last_time_of_a_pair(tmp_path):
    lines = [*gowalla_core(days=3), check_in(99, 22847), *(check_in(u, 5) for u in range(9))]
    prepared = prepare("gowalla", write(tmp_path, "checkins.txt", *lines))
    frame = events(prepared.interactions)
    assert (prepared.interactions.n_users, prepared.interactions.n_items) == (10, 10)
    assert frame["timestamp"].dt.day().unique().to_list() == [3]
    account = prepared.interactions.account
    assert (account.read, account.kept, account.duplicates) == (310, 100, 200)
    assert account.filtered == {"user_below_10": 1, "item_below_10": 9}


def test_gowalla_is_read_from_gzip_as_published(tmp_path):
    raw = tmp_path / "loc-gowalla_totalCheckins.txt.gz"
    raw.write_bytes(gzip.compress("\n".join(gowalla_core()).encode()))
    frame = events(prepare("gowalla", raw).interactions)
    assert frame.columns == ["user", "item", "timestamp"]
    assert str(frame["timestamp"][0]) == "2010-10-01 23:55:27+00:00"


def test_an_odd_coordinate_is_no_reason_to_refuse_a_check_in(tmp_path):
    odd = "0\t2010-10-20T23:55:27Z\t4.05E-4\t\t22847"
    prepared = prepare("gowalla", write(tmp_path, "checkins.txt", *gowalla_core(), odd))
    assert prepared.interactions.account.read == 101


def test_the_published_gowalla_is_a_ten_core(shared_data):
    """The filter that we apply to the raw check-ins leaves the paper's own matrix as it is."""
    both = pl.concat(
        pl.read_parquet(shared_data / f"gowalla/{part}.parquet") for part in ("train", "test")
    )
    published = Interactions.from_arrays(both["user"].to_numpy(), both["item"].to_numpy())
    core = at_least(published, users=10, items=10)
    wanted = find("gowalla")
    assert (core.n_users, core.n_items, len(core)) == (
        wanted.shape.users,
        wanted.shape.items,
        wanted.shape.interactions,
    )


# MovieLens


def test_movielens_keeps_scores_strictly_above_four(tmp_path):
    lines = [*movielens(1, range(5)), *movielens(1, range(5, 9), "4"), "1::9::4.5::838985046"]
    prepared = prepare("movielens", write(tmp_path, "ratings.dat", *lines))
    assert events(prepared.interactions)["item"].to_list() == [0, 1, 2, 3, 4, 9]
    assert prepared.interactions.account.filtered == {"rating_below_4.5": 4}


def test_a_user_needs_five_items_after_the_score_filter(tmp_path):
    short = [*movielens(2, range(4)), *movielens(2, range(4, 20), "3.5")]
    prepared = prepare("movielens", write(tmp_path, "ratings.dat", *movielens(1, range(5)), *short))
    assert prepared.interactions.users.values.tolist() == [1]
    assert prepared.interactions.account.as_dict() == {
        "read": 25,
        "kept": 5,
        "duplicates": 0,
        "filtered": {"rating_below_4.5": 16, "user_below_5": 4},
        "rejected": {},
    }


# Amazon


def amazon(user: str, items: list[str], rating: str = "5.0") -> list[str]:
    return [f"{user},{item},{rating},1369699200" for item in items]


def test_amazon_ids_stay_text_with_their_leading_zeros(tmp_path):
    books = ["0001473123", "000100039X", "0205616461", "1", "01"]
    raw = write(
        tmp_path, "ratings_Books.csv", *amazon("A39HTATAQ9V7YF", books), *amazon("B", books, "4.0")
    )
    prepared = prepare("amazon", raw)
    assert prepared.interactions.users.values.tolist() == ["A39HTATAQ9V7YF"]
    assert events(prepared.interactions)["item"].to_list() == sorted(books)
    assert any("did not publish" in note for note in prepared.notes)


def test_a_pair_rated_twice_above_four_counts_once(tmp_path):
    lines = [*amazon("A", list("abcde")), "A,a,5.0,1400000000"]
    prepared = prepare("amazon", write(tmp_path, "ratings_Books.csv", *lines))
    assert len(prepared.interactions) == 5
    assert prepared.interactions.account.duplicates == 1
    assert events(prepared.interactions)["timestamp"][0].timestamp() == 1_400_000_000


# Echonest


def plays(user: str, songs: int, count: int = 1) -> list[str]:
    return [f"{user}\tSOAKIMP12A8C1{song:05}\t{count + song}" for song in range(songs)]


USER = "b80344d063b5ccb3212f76538f3d9e43d87dca9e"


def test_echonest_adds_play_counts_up_and_keeps_them_as_weights(tmp_path):
    lines = [*plays(USER, 5), *plays("few", 4), *plays(USER, 5, count=10)]
    prepared = prepare("echonest", write(tmp_path, "train_triplets.txt", *lines))
    frame = events(prepared.interactions)
    assert frame.columns == ["user", "item", "weight"]
    assert frame["user"].unique().to_list() == [USER]
    assert frame["weight"].to_list() == [11, 13, 15, 17, 19]
    assert prepared.interactions.account.duplicates == 5


# Bad rows

GOOD = {
    "citeulike": ["1 7"],
    "gowalla": gowalla_core(),
    "movielens": movielens(1, range(5)),
    "amazon": amazon("A", list("abcde")),
    "echonest": plays(USER, 5),
}
MALFORMED = {
    "citeulike": ["2 7", "1 7 5", "x", "", "1 07", "1  7", "1 7 ", "1 -7", "01 7"],
    "gowalla": [
        "0\t2010-13-19T23:55:27Z\t30.2\t-97.7\t22847",
        "0\t2010-02-30T23:55:27Z\t30.2\t-97.7\t22847",
        "0\t2010-10-19T23:55:27Z\t30.2\t22847",
        "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\t1",
        "0 2010-10-19T23:55:27Z 30.2 -97.7 22847",
    ],
    "movielens": [
        *("1::2::5", "1::2::5::8::9", "1:2:5:838985046", "1\t2\t5\t838985046"),
        *("1::2::nan::838985046", "1::2::5::-1", "1::2::5::838985046\0"),
        *("::2::5::838985046", "UserID::MovieID::Rating::Timestamp"),
    ],
    "amazon": ["A,,5.0,1", "A,b,5.0"],
    "echonest": [f"{USER}\tSOX\t{count}" for count in ("-1", "inf", "", "1 ")],
}


@pytest.mark.parametrize(
    ("name", "line"), [(name, line) for name, lines in MALFORMED.items() for line in lines]
)
def test_a_malformed_line_is_refused(tmp_path, name, line):
    good = GOOD[name]
    raw = write(tmp_path, "raw.txt", *good, line, *good[:1])
    with pytest.raises(DataError, match=f"line {len(good) + 1}"):
        prepare(name, raw)


def test_bad_lines_can_be_left_out_on_request_and_are_counted(tmp_path):
    raw = write(tmp_path, "ratings.dat", *movielens(1, range(5)), "oops", "1::2")
    account = prepare("movielens", raw, allow_bad_rows=True).interactions.account
    assert (account.read, account.kept) == (7, 5)
    assert account.rejected == {"field_count": 2}


def test_a_file_without_a_positive_row_is_refused_with_its_account(tmp_path):
    with pytest.raises(DataError, match="5 filtered") as caught:
        prepare("movielens", write(tmp_path, "r.dat", *movielens(1, range(5), "4")))
    assert caught.value.code == "no_rows"


# Filters


@given(
    pairs=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=60),
    k=st.integers(0, 4),
)
def test_every_user_and_item_of_a_k_core_has_k_and_none_is_missing(pairs, k):
    everything = Interactions.from_arrays(*np.array(pairs).T)
    left = set(pairs)
    while small := {
        pair
        for pair in left
        if min(sum(p[side] == pair[side] for p in left) for side in (0, 1)) < k
    }:
        left -= small
    if not left:
        with pytest.raises(DataError, match="nothing is left"):
            at_least(everything, users=k, items=k)
        return
    core = at_least(everything, users=k, items=k)
    assert events(core).rows() == sorted(left)
    assert core.account.read == len(pairs)


# Writing


@pytest.fixture
def prepared(tmp_path) -> Prepared:
    return prepare("movielens", write(tmp_path, "ratings.dat", *movielens(1, range(5))))


def test_what_is_written_reads_back_sorted_with_its_description(tmp_path, prepared):
    folder = write_prepared(prepared, tmp_path / "new/ml")
    frame = pl.read_parquet(folder / "interactions.parquet")
    assert frame.equals(events(prepared.interactions))
    assert frame.equals(frame.sort("user", "item"))
    description = json.loads((folder / "dataset.json").read_text("utf-8"))
    assert description["name"] == "movielens"
    assert description["source"]["file"] == "ratings.dat"
    assert description["source"]["sha256"] == prepared.sha256
    assert description["rows"] == prepared.interactions.account.as_dict()
    assert description["statistics"] == prepared.interactions.stats()
    assert sorted(path.name for path in folder.iterdir()) == [
        "dataset.json",
        "interactions.parquet",
    ]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, prepared):
    (tmp_path / "out").mkdir()
    mine = write(tmp_path / "out", "mine.txt", "keep")
    with pytest.raises(UsageError, match="is not empty") as caught:
        write_prepared(prepared, tmp_path / "out")
    assert caught.value.code == "out_exists"
    assert [*mine.parent.iterdir()] == [mine]


def test_overwriting_replaces_a_prepared_data_set(tmp_path, prepared):
    folder = write_prepared(prepared, tmp_path / "out")
    old = json.loads((folder / "dataset.json").read_text("utf-8")) | {"name": "old"}
    (folder / "dataset.json").write_text(json.dumps(old))
    write_prepared(prepared, folder, overwrite=True)
    assert json.loads((folder / "dataset.json").read_text("utf-8"))["name"] == "movielens"


@pytest.mark.parametrize("name", ["dataset.json", "interactions.parquet", "mine.txt"])
def test_a_folder_with_other_files_is_not_replaced(tmp_path, prepared, name):
    (tmp_path / "out").mkdir()
    mine = write(tmp_path / "out", name, "mine")
    with pytest.raises(UsageError, match=f"holds '{name}', which is not part of a prepared data"):
        write_prepared(prepared, tmp_path / "out", overwrite=True)
    assert mine.read_text() == "mine\n"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_leaves_what_is_there(tmp_path, prepared, monkeypatch, is_there):
    def full(*_: object) -> None:
        raise pl.exceptions.ComputeError("No space left on device")

    folder = tmp_path / "out"
    if is_there:
        write_prepared(prepared, folder)
    before = {path.name: path.read_bytes() for path in folder.glob("*")}
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(ResourceError, match="No space left") as caught:
        write_prepared(prepared, folder, overwrite=is_there)
    assert caught.value.code == "disk_full"
    assert {path.name: path.read_bytes() for path in folder.glob("*")} == before
    assert folder.exists() == is_there


# Archives


def zipped(*members: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return packed.getvalue()


def directory_field(data: bytes, at: int, value: bytes) -> bytes:
    """Return an archive with another value in the entry of its directory."""
    at += data.index(b"PK\x01\x02")
    return data[:at] + value + data[at + len(value) :]


OTHER = MEMBER.replace("ratings", "Ratings")
PLAIN = zipped((MEMBER, b"1::1::5::1\n"))


def test_only_the_expected_member_is_unpacked_and_nothing_of_it_stays(tmp_path):
    lines = "\n".join(movielens(1, range(5))).encode()
    (tmp_path / "raw").write_bytes(zipped(("../../etc/passwd", b"x"), (MEMBER, lines)))
    assert len(prepare("movielens", tmp_path / "raw").interactions) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (zipped((MEMBER, b"1"), (OTHER, b"2")).replace(b"Ratings", b"ratings"), "not one"),
        (zipped(("other.dat", b"1")), "it has 'other.dat'"),
        (directory_field(PLAIN, 8, b"\x01"), "encrypted"),
        (directory_field(PLAIN, 16, bytes(4)), "CRC"),
        (directory_field(zipped((MEMBER, bytes(3 << 20))), 24, b"\n\0\0\0"), "CRC"),  # a bomb
        (directory_field(PLAIN, 24, b"\xff\xff\xff\xfe"), None),
        (PLAIN.replace(b"ratings", b"Ratings", 1), "differ"),
        (PLAIN[:-40], None),
    ],
)
def test_a_bad_archive_is_refused(tmp_path, monkeypatch, data, says):
    monkeypatch.setattr(preparing, "_MOST_UNPACKED", 4 << 20)
    (tmp_path / "raw.zip").write_bytes(data)
    with pytest.raises(DataError, match=says):
        prepare("movielens", tmp_path / "raw.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["raw.zip"]


def test_an_archive_beyond_the_size_cap_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "_MOST_UNPACKED", 10)
    (tmp_path / "raw.zip").write_bytes(PLAIN)
    with pytest.raises(DataError, match="more than 10 bytes"):
        prepare("movielens", tmp_path / "raw.zip")


def test_a_zip_where_a_plain_file_is_expected_is_refused(tmp_path):
    (tmp_path / "raw").write_bytes(PLAIN)
    with pytest.raises(DataError, match="a plain file is expected"):
        prepare("amazon", tmp_path / "raw")
