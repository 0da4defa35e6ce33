"""Opening a store: addresses, files, servers, versions; errors name the cure and no password."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect, text

from sdgar.errors import ArtifactError, DataError, ResourceError, SdgarError, UsageError
from sdgar.serve.store import Address, Database, Event, database, schema


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_relative_and_absolute_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    absolute = f"sqlite:///{tmp_path}/own.db"
    with Database.open("sqlite:///own.db") as one, Database.open(absolute) as two:
        one.add_events([Event("a", "1")])
        assert two.count_events() == 1
    assert files_in(tmp_path) == ["own.db"]


@pytest.mark.parametrize("name", ["it's 100% ä.db", "a#b.db", "a%20b.db", "no suffix"])
def test_odd_names_of_files(tmp_path, name):
    Database.open(f"sqlite:///{tmp_path}/{name}").close()
    assert files_in(tmp_path) == [name]


def test_sqlite_waits_for_the_disk_and_checks_what_belongs_together(tmp_path):
    with Database.open(f"sqlite:///{tmp_path}/s.db") as store, store._reading() as connection:
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        found = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in pragmas]
    assert found == ["wal", 2, 1, 30_000]


def test_postgresql_waits_for_the_disk_whatever_its_options(postgresql_url):
    address = f"{postgresql_url}?options=-csynchronous_commit%3Doff"
    with Database.open(address) as store, store._reading() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"


@pytest.mark.parametrize(
    ("url", "code", "says"),
    [
        ("mysql://u:hush@h/db", "unknown_store", "postgresql://"),
        ("postgresql+psycopg2://u:hush@h/db", "unknown_store", "postgresql://"),
        ("store.db", "bad_store", "sqlite:///"),
        ("sqlite://store.db", "bad_store", "sqlite:///store.db"),
        ("sqlite://", "bad_store", "would be lost"),
        ("sqlite:///:memory:", "bad_store", "would be lost"),
        ("sqlite:///a.db?mode=ro", "bad_store", "question mark"),
        ("sqlite:///missing/folder/a.db", "no_such_store", "no folder missing/folder"),
        ("postgresql://u:hu@sh@h/db", "bad_store", "%40"),
        ("postgresql://u:hu/sh@h/db", "bad_store", "%2F"),
        ("postgresql://u:hush@h:port/db", "bad_store", "PORT"),
        ("postgresql://u:hush@127.0.0.1:1/db", "store_unreachable", "Check that the server runs"),
        ("postgresql://127.0.0.1:1/db?user=u&password=hush", "store_unreachable", r"d=\*\*\*"),
        ("postgresql://u:hush@no-such-host.invalid/db", "store_unreachable", "host"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_is_an_error_with_a_cure(url, code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SdgarError, match=says) as caught:
        Database.open(url)
    assert caught.value.code == code
    assert "hush" not in str(caught.value)
    assert files_in(tmp_path) == []


def test_a_wrong_password_and_a_missing_database_have_different_codes(postgresql_server):
    place = postgresql_server.partition("@")[2]
    with pytest.raises(ResourceError, match="password") as caught:
        Database.open(f"postgresql://sdgar:wr0ng@{place}postgres")
    assert "wr0ng" not in str(caught.value)
    with pytest.raises(ResourceError, match="does not exist"):
        Database.open(f"{postgresql_server}nothing")


def test_an_address_is_shown_without_its_password():
    shown = {
        "postgresql://u:p@h/db": "postgresql://u:***@h/db",
        "postgresql://u@h/db": "postgresql://u@h/db",
        "postgresql://u:p@h/db?sslpassword=x&a=b": "postgresql://u:***@h/db?sslpassword=***&a=b",
        "postgresql://h/db?password=x": "postgresql://h/db?password=***",
    }
    for url, safe in shown.items():
        address = Address.of(url)
        assert str(address) == repr(address) == address.name == safe
    both = Address.of("postgresql://u:p@h/db?password=x&a=b")
    assert both.absolute() == "postgresql://u@h/db?a=b"
    assert Address.of("postgresql://h/db?password=x").absolute() == "postgresql://h/db"


def test_an_address_may_say_which_event_is_the_last_to_read():
    for url in ("sqlite:////a/s.db", "postgresql://u@h/db", "postgresql://u@h/db?a=b"):
        address = Address.of(f"{url}#480")
        assert (address.last, address.url, address.absolute()) == (480, url, f"{url}#480")
        assert Address.of(address.absolute()) == address
    for name in ("a#b.db", "a#1b", "#", "a#", "a#-1"):
        address = Address.of(f"sqlite:///{name}")
        assert (address.last, str(address.path)) == (None, name)


def test_a_file_that_should_be_there_is_not_made(tmp_path):
    for options in ({"read_only": True}, {"must_exist": True}):
        with pytest.raises(UsageError, match="there is no store") as caught:
            Database.open(f"sqlite:///{tmp_path}/s.db", **options)
        assert caught.value.code == "no_such_store"
    with pytest.raises(UsageError, match="is a folder"):
        Database.open(f"sqlite:///{tmp_path}")
    assert files_in(tmp_path) == []


def test_a_file_that_is_no_database_stays_as_it_is(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,item\n" * 100)
    for read_only in (False, True):
        with pytest.raises(DataError, match="not a database") as caught:
            Database.open(f"sqlite:///{path}", read_only=read_only)
        assert caught.value.code == "not_a_store"
    assert path.read_text() == "user,item\n" * 100


def test_a_database_of_something_else_is_left_alone(url):
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as foreign:
        foreign.execute(text("CREATE TABLE events (x int)"))
    engine.dispose()
    with pytest.raises(DataError, match="another program") as caught:
        Database.open(url)
    assert caught.value.code == "not_a_store"


def test_other_tables_of_a_postgresql_database_are_no_obstacle(postgresql_url):
    import psycopg

    with psycopg.connect(postgresql_url) as other:
        other.execute("CREATE TABLE people (x int)")
    with pytest.raises(DataError, match="holds no store yet"):
        Database.open(postgresql_url, read_only=True)
    Database.open(postgresql_url).close()


def test_a_damaged_file_is_an_error_in_words(tmp_path):
    path = tmp_path / "s.db"
    with Database.open(f"sqlite:///{path}") as store:
        store.add_events([Event("a" * 200, str(n)) for n in range(500)])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="malformed") as caught:
        Database.open(f"sqlite:///{path}").events_after(0)
    assert caught.value.code == "damaged_store"


def test_a_newer_store_is_refused(url):
    with Database.open(url) as store, store._writing() as connection:
        connection.execute(schema.SCHEMA_VERSION.insert().values(version=99, applied=0))
    for read_only in (False, True):
        with pytest.raises(ArtifactError, match=r"version 99.*pip install --upgrade") as caught:
            Database.open(url, read_only=read_only)
        assert caught.value.code == "newer_store"


def steps() -> tuple[Callable[[Connection], None], ...]:
    def colour(connection) -> None:
        connection.execute(text("ALTER TABLE events ADD COLUMN colour TEXT"))

    def paint(connection) -> None:
        connection.execute(text("UPDATE events SET colour = 'red'"))

    return colour, paint


def test_an_older_store_takes_the_steps_that_it_lacks_once(url, monkeypatch):
    with Database.open(url) as store:
        store.add_events([Event("a", "1")])
    monkeypatch.setattr(database, "MIGRATIONS", steps())
    with pytest.raises(ArtifactError, match="Open it once for writing") as caught:
        Database.open(url, read_only=True)
    assert caught.value.code == "older_store"
    for _ in range(2):
        with Database.open(url) as store, store._reading() as connection:
            assert connection.execute(text("SELECT colour FROM events")).scalar() == "red"
            versions = connection.execute(text("SELECT version FROM schema_version ORDER BY 1"))
            assert versions.scalars().all() == [1, 2, 3]
    Database.open(url, read_only=True).close()


def test_a_step_that_fails_changes_nothing(url, monkeypatch):
    def fails(connection) -> None:
        connection.execute(text("UPDATE no_such_table SET x = 1"))

    Database.open(url).close()
    bad = (*steps(), fails)
    monkeypatch.setattr(database, "MIGRATIONS", bad)
    with pytest.raises(Exception, match="no_such_table"):
        Database.open(url)
    monkeypatch.setattr(database, "MIGRATIONS", ())
    with Database.open(url) as store, store._reading() as connection:
        assert "colour" not in [c["name"] for c in inspect(connection).get_columns("events")]


def test_a_new_store_has_the_tables_of_the_newest_version(store):
    with store._reading() as connection:
        assert set(inspect(connection).get_table_names()) >= set(schema.METADATA.tables)
        version = connection.execute(text("SELECT max(version) FROM schema_version")).scalar()
    assert version == database.supported_schema_version()


def test_many_open_a_new_store_at_once(url):
    def opened(_: int) -> None:
        with Database.open(url) as store:
            store.add_events([Event("a", "1")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(opened, range(8)))
    with Database.open(url) as store:
        assert store.count_events() == 8


def test_a_store_that_nobody_may_write_is_still_read(tmp_path, monkeypatch):
    path = tmp_path / "s.db"
    with Database.open(f"sqlite:///{path}") as store:
        store.add_events([Event("a", "1")])
    monkeypatch.setattr("os.access", lambda *_: False)
    with Database.open(f"sqlite:///{path}", read_only=True) as store:
        assert store.count_events() == 1
    assert files_in(tmp_path) == ["s.db"]


@pytest.mark.parametrize(
    ("missing", "url", "needed"),
    [("sqlalchemy", "sqlite:///s.db", "SQLAlchemy"), ("psycopg", "postgresql://h/db", "psycopg")],
)
def test_a_missing_driver_is_named_with_its_cure(missing, url, needed, tmp_path):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"import sdgar\ntry:\n sdgar.read({url!r})\n"
        "except sdgar.SdgarError as error: print(error.code, error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path
    ).stdout
    assert said.startswith("missing_driver")
    assert needed in said
    assert "pip install 'sdgar[serve]'" in said
