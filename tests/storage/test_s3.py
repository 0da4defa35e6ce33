"""Events, shards and runs in S3, against a server of this machine (moto, which is not installed by
default: it is large). The test is skipped where there is no command ``moto_server``, or no s3fs."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

import sdgar
from sdgar.errors import ResourceError, UsageError
from sdgar.scale.shards import Shards
from sdgar.storage import remote

from ..cli.test_cli import result_of
from ..cli.test_cli import sdgar as command

ROWS = "user,item\n" + "".join(f"u{n % 9},{n % 7}\n" for n in range(80) if n % 5)


@pytest.fixture(scope="module")
def server():
    """Start a server, and return where it is."""
    pytest.importorskip("s3fs", reason="s3fs is not installed (pip install 'sdgar[remote]')")
    program = shutil.which("moto_server")
    if program is None:
        pytest.skip("moto_server is not installed (pip install 'moto[server]')")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [program, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                urllib.request.urlopen(address, timeout=1).read()
                break
            except OSError:
                if process.poll() is not None:
                    pytest.skip(f"{program} does not start here")
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def bucket(server, tmp_path, monkeypatch):
    import s3fs

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv(remote.CACHE, str(tmp_path / "cache"))
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    if not files.exists("bucket"):
        files.mkdir("bucket")
    return files


def test_events_shards_and_runs_are_in_s3(bucket, tmp_path):
    bucket.pipe("bucket/logs/day=1/a.csv", ROWS.encode())
    (tmp_path / "a.csv").write_text(ROWS)
    assert (
        sdgar.read("s3://bucket/logs/day=1/a.csv").fingerprint()
        == sdgar.read(tmp_path / "a.csv").fingerprint()
    )
    words = ("data", "shard", "s3://bucket/logs", "--shards", 3, "--json", "--out")
    there = result_of(command(*words, "s3://bucket/events.shards"))
    assert bucket.exists("bucket/events.shards/manifest.json")
    assert command(*words, "s3://bucket/events.shards").returncode == 2
    report = result_of(command("data", "info", "s3://bucket/events.shards", "--verify", "--json"))
    assert report["digest"] == there["digest"]
    words = ("train", "s3://bucket/events.shards", "--system", "bpr", "--set", "dim=4", "--set")
    words += ("epochs=1", "--test-users", 3, "--out", "s3://bucket/run", "--json")
    assert result_of(command(*words))["out"] == "s3://bucket/run"
    done = command("recommend", "s3://bucket/run", "--user", "u3", "-k", 1, "--json")
    assert result_of(done)["recommendations"][0]["user"] == "u3"


def test_what_is_wrong_is_named(bucket, monkeypatch):
    with pytest.raises(UsageError, match=r"there is nothing at s3://nobody/a\.csv"):
        sdgar.read("s3://nobody/a.csv")
    with pytest.raises(UsageError, match=r"there is nothing at s3://bucket/none\.shards"):
        Shards.open("s3://bucket/none.shards")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    type(bucket).clear_instance_cache()
    with pytest.raises(ResourceError) as found:
        sdgar.read("s3://bucket/logs/day=1/a.csv")
    assert found.value.code == "unreachable"
    assert "hush" not in str(found.value)
