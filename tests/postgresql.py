"""A real PostgreSQL server in a temporary folder, where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_INSTALLED = Path("/usr/lib/postgresql")  # where Debian puts them, by version
_OWNER = "postgres"


def programs() -> Path:
    """The folder of initdb and postgres; the test skips where they are not installed."""
    for folder in sorted(_INSTALLED.glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    if found := shutil.which("initdb"):
        return Path(found).parent
    pytest.skip("no PostgreSQL server is installed (Debian's package postgresql)")


def as_owner() -> list[str]:
    """The words before a command that run it as a user who is not root, as initdb demands."""
    if os.getuid() != 0:
        return []
    try:
        pwd.getpwnam(_OWNER)
    except KeyError:
        pytest.skip(f"PostgreSQL does not run as root, and there is no user {_OWNER}")
    if shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no setpriv to become another")
    return ["setpriv", f"--reuid={_OWNER}", f"--regid={_OWNER}", "--clear-groups"]


@contextmanager
def server() -> Iterator[str]:
    """Start a server on a free port; yield its address, to which the name of a database is added.

    It has the password that its address has, and does not wait for the disk.
    """
    bin_, before = programs(), as_owner()
    folder = Path(tempfile.mkdtemp(prefix="sdgar-postgresql-"))
    try:
        if before:
            shutil.chown(folder, _OWNER)
        password = folder / "password"
        password.write_text("s3cret:/word")
        if before:
            shutil.chown(password, _OWNER)
        made = [*before, bin_ / "initdb", "-D", folder / "data", "-U", "sdgar", "-E", "UTF8", "-N",
                "--locale=C.UTF-8", "-A", "scram-sha-256", f"--pwfile={password}"]  # fmt: skip
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "cwd": folder}
        done = subprocess.run(made, check=False, text=True, **quiet)
        assert done.returncode == 0, done.stdout
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = f"-p {port} -k {folder} -h 127.0.0.1 -c fsync=off -c max_connections=100"
        control = [*before, bin_ / "pg_ctl", "-D", folder / "data", "-w", "-s"]
        log = ["-l", folder / "log"]
        done = subprocess.run([*control, *log, "-o", settings, "start"], check=False, cwd=folder)
        assert done.returncode == 0, (folder / "log").read_text()
        try:
            yield f"postgresql://sdgar:s3cret%3A%2Fword@127.0.0.1:{port}/"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=False, **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(address: str) -> Iterator[str]:
    """Make a new database on a server, and yield its address."""
    import psycopg

    name = f"store_{uuid.uuid4().hex}"
    with psycopg.connect(f"{address}postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield f"{address}{name}"
    with psycopg.connect(f"{address}postgres", autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
