"""Servers that keep a download waiting, send without end, or lead astray; and raw files that do."""

from __future__ import annotations

import gzip
import io
import os
import socket
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sdgar.errors import SdgarError
from sdgar.lab.datasets import DATASETS
from sdgar.lab.datasets import download as module
from sdgar.lab.datasets.download import DownloadInterruptedError, download

from ..cli.test_cli import Done, sdgar
from .cases import Case, check, table

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ANY_FILE = replace(DATASETS["citeulike"], size=None, sha256=None)

Speech = Callable[[socket.socket], None]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def serve(speech: Speech, stack: ExitStack) -> str:
    """The address of a server that hears a request out and then says its speech."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def talk(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(65536)
            speech(client)

    def listen() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/users.dat"


def fetch(speech: Speech, folder: Path, timeout: float) -> object:
    """Download from such a server, and see that it is kept short."""
    start = time.monotonic()
    with ExitStack() as stack:
        try:
            return download(ANY_FILE, folder, url=serve(speech, stack), timeout=timeout)
        finally:
            assert time.monotonic() - start < 3 * timeout + 5


def once(data: bytes) -> Speech:
    return lambda client: client.sendall(data)


def drip(first: bytes, then: bytes) -> Speech:
    """Say something at once, and then something else byte by byte, over and over."""

    def speech(client: socket.socket) -> None:
        client.sendall(first)
        while True:
            for byte in then:
                client.sendall(bytes([byte]))
                time.sleep(0.03)

    return speech


def flood(first: bytes, then: bytes) -> Speech:
    """Say something once, and then something else without end, as fast as it goes."""

    def speech(client: socket.socket) -> None:
        client.sendall(first)
        while True:
            client.sendall(then)

    return speech


def elsewhere(status: int, address: bytes) -> Speech:
    head = b"HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
    return once(head % (status, address))


def ever_further(client: socket.socket) -> None:
    elsewhere(302, b"/%d" % time.monotonic_ns())(client)


def served(name: str, says: str, speech: Speech, timeout: float = 5.0) -> Case:
    return Case(name, 5, (says,), lambda folder: fetch(speech, folder, timeout))


def waiting(name: str, says: str, speech: Speech) -> Case:
    """A server that would keep us, met with little patience."""
    return served(name, says, speech, timeout=0.3)


SERVERS = [
    waiting("the status line drips", "timed out", drip(b"", b"HTTP/1.1 2")),
    waiting("headers drip", "timed out", drip(OK, b"X-Slow: yes\r\n")),
    waiting("one header drips", "timed out", drip(OK + b"X-Slow: ", b"y")),
    waiting("100 Continue drips", "timed out", drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
    waiting("100 Continue never ends", "be reached", flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
    served("headers never end", "100 headers", flood(OK, b"X-More: yes\r\n")),
    served("a header never ends", "more than 65536", flood(OK + b"X: ", b"y" * 9999)),
    served("the status line never ends", "more than 65536", flood(b"", b"y" * 9999)),
    served("redirects go in circles", "redirects to", elsewhere(302, b"/users.dat")),
    served("redirects never end", "redirects to", ever_further),
    served(
        "the body of a redirect never ends",
        "without end",
        flood(b"HTTP/1.1 302 Moved\r\nLocation: /x\r\n\r\n", b"y" * 9999),
    ),
    waiting(
        "the body of a redirect drips",
        "timed out",
        drip(b"HTTP/1.1 302 Moved\r\nLocation: /x\r\n\r\n", b"y"),
    ),
    served("a redirect leads to port 99999", "redirects", elsewhere(302, b"http://x:99999/")),
    served("a redirect leads to a port in words", "redirects", elsewhere(302, b"http://x:many/")),
    served("a redirect leads to half an address", "redirects", elsewhere(302, b"http://[::1/")),
    served("a redirect leads to a bad host", "redirects", elsewhere(302, b"http://a..b/")),
    served("a redirect has a password", "redirects", elsewhere(302, b"http://a:b@127.0.0.1/")),
    served("a redirect leads to a file", "redirects", elsewhere(302, b"file:///etc/passwd")),
    waiting("the size of a chunk drips", "timed out", drip(CHUNKED, b"0")),
    waiting("the extension of a chunk drips", "timed out", drip(CHUNKED + b"5;", b"x")),
    served("the size of a chunk is no number", "broke off", once(CHUNKED + b"many\r\n")),
    served("the size of a chunk is negative", "broke off", once(CHUNKED + b"-5\r\nabcde")),
    served("trailers never end", "without end", flood(CHUNKED + b"0\r\n", b"X-More: yes\r\n")),
    waiting("trailers drip", "timed out", drip(CHUNKED + b"1\r\nx\r\n0\r\n", b"X-Slow: y\r\n")),
    waiting("chunks of one byte drip", "broke off", drip(CHUNKED, b"1\r\nx\r\n")),
    waiting("a body without a length drips", "bytes in", drip(OK + b"\r\n", b"x")),
    waiting("nothing is said at all", "timed out", lambda client: time.sleep(1)),
    served("the connection is closed at once", "cannot be reached", lambda _: None),
    served("the answer is not HTTP", "cannot be reached", once(b"SSH-2.0-OpenSSH_9.6\r\n")),
    served(
        "the file is larger than the disk",
        "bytes free",
        once(OK + b"Content-Length: 99999999999999999\r\n\r\nx"),
    ),
]


@table(SERVERS)
def test_a_server_cannot_keep_a_download_and_leaves_no_file(case, tmp_path):
    check(case, tmp_path)
    assert not (tmp_path / "users.dat").exists()


def address(name: str, url: str, *says: str) -> Case:
    return Case(
        name,
        2,
        ("https://", *says),
        lambda folder: sdgar("data", "download", "citeulike", "--out", folder, "--url", url),
    )


ADDRESSES = [
    address("a file is named as a URL", "file:///etc/passwd", "'file:///etc/passwd'", "file:"),
    address("ftp is named as a URL", "ftp://example.org/x", "ftp:"),
    address("a URL has no protocol", "example.org/users.dat", "no protocol"),
    address("a URL names no server", "http://", "names no server"),
    address("a URL has a port that is too high", "http://example.org:65536/x", "0-65535"),
    address("a URL has a negative port", "http://example.org:-1/x", "-1"),
    address("a URL has a port in words", "http://example.org:many/x", "many"),
    address("a URL has port 0", "http://example.org:0/x", "port 0"),
    address("a URL has an open bracket", "http://[::1/x", "IPv6"),
    address("a host has an empty part", "http://a..b/x", "a..b"),
    address("a host is too long", f"http://{'a' * 64}.org/x", "too long"),
    address("a path is not ASCII", "http://example.org/schön", "//example.org/sch%C3%B6n"),
    address("a host is not ASCII", "http://schön.org/x", "//xn--schn-7qa.org/x"),
    address("a URL holds a blank", "http://example.org/a b", "//example.org/a%20b"),
    address("a URL holds a line feed", "http://example.org/a\nb", "has to be written otherwise"),
]


@table(ADDRESSES)
def test_an_address_that_cannot_be_asked_for_is_named(case, tmp_path):
    check(case, tmp_path)


def test_a_password_in_a_url_is_refused_and_not_repeated(tmp_path):
    done = sdgar("data", "download", "citeulike", "--url", "http://me:secret@example.org/x")
    assert done.returncode == 2
    assert "user name" in done.stderr
    assert "secret" not in done.stderr


def test_a_body_in_chunks_with_a_trailer_is_read_whole(tmp_path):
    body = b"6\r\n1 2 3\n\r\n4\r\n1 2\n\r\n0\r\nX-Sum: 1\r\n\r\n"
    with ExitStack() as stack:
        got = download(ANY_FILE, tmp_path, url=serve(once(CHUNKED + body), stack), timeout=2)
    assert got.path.read_bytes() == b"1 2 3\n1 2\n"


def test_a_slow_body_that_keeps_to_the_least_speed_may_take_longer_than_the_timeout(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "MIN_BYTES_PER_SECOND", 10)

    def speech(client: socket.socket) -> None:
        client.sendall(OK + b"Content-Length: 120\r\n\r\n")
        for _ in range(60):
            client.sendall(b"1\n")
            time.sleep(0.02)

    with ExitStack() as stack:
        got = download(ANY_FILE, tmp_path, url=serve(speech, stack), timeout=0.8)
    assert got.size == 120


@pytest.mark.parametrize("mark", ["", "two\nlines", "caf\xe9", '"tab\t"'])
def test_a_damaged_mark_of_a_part_means_starting_over(tmp_path, mark):
    (tmp_path / "users.dat.part").write_bytes(b"old")
    (tmp_path / "users.dat.part.mark").write_text(mark, "latin-1")
    with ExitStack() as stack:
        url = serve(once(OK + b"Content-Length: 4\r\n\r\nnew\n"), stack)
        assert download(ANY_FILE, tmp_path, url=url, timeout=2).path.read_bytes() == b"new\n"


def test_what_came_before_a_drip_is_kept_for_the_next_call(tmp_path):
    head = OK + b'ETag: "one"\r\nContent-Length: 5000\r\n\r\n'
    with pytest.raises(DownloadInterruptedError):
        fetch(drip(head + b"x" * 2000, b"x"), tmp_path, 0.3)
    assert (tmp_path / "users.dat.part").stat().st_size >= 2000


# Raw files


def prepare(raw: Path, folder: Path, name: str = "citeulike") -> Done:
    return sdgar("data", "prepare", name, "--raw", raw, "--out", folder / "out")


def raw_case(
    name: str, exit_code: int, says: str, make: Callable[[Path], None], dataset: str = "citeulike"
) -> Case:
    def act(folder: Path) -> Done:
        make(folder / "raw")
        return prepare(folder / "raw", folder, dataset)

    return Case(name, exit_code, ("raw", says), act)


def zipped(members: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def tarred(*infos: tarfile.TarInfo) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for info in infos:
            archive.addfile(info)
    return data.getvalue()


def a_link() -> tarfile.TarInfo:
    info = tarfile.TarInfo("users.dat")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


def holds(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


MEMBER = DATASETS["movielens-10m"].member or ""
LINES = b"1 5\n" * 100

RAW_FILES = [
    raw_case("a pipe is named as a raw file", 2, "it is a pipe", os.mkfifo),
    raw_case("a folder is named as a raw file", 2, "it is a folder", Path.mkdir),
    raw_case("a device is a raw file", 2, "a device", lambda p: p.symlink_to("/dev/zero")),
    raw_case("a link leads nowhere", 2, "no such file", lambda p: p.symlink_to("nowhere")),
    raw_case("a link leads to itself", 5, "symbolic links", lambda p: p.symlink_to(p)),
    raw_case("a tar archive holds a link", 3, "a tar archive", holds(tarred(a_link()))),
    raw_case(
        "a tar archive holds an absolute name",
        3,
        "a tar archive",
        holds(tarred(tarfile.TarInfo("/etc/passwd"))),
    ),
    raw_case("a packed tar archive", 3, "a tar archive", holds(gzip.compress(tarred(a_link())))),
    raw_case("a gzip bomb", 3, "200 times", holds(gzip.compress(b"1 5\n" * (8 << 18)))),
    raw_case("gzip in gzip", 3, "a gzip file", holds(gzip.compress(gzip.compress(LINES)))),
    raw_case("zip in gzip", 3, "a zip archive", holds(gzip.compress(zipped({"users.dat": LINES})))),
    raw_case("a bzip2 file", 3, "a bzip2 file", holds(b"BZh91AY&SY")),
    raw_case("an xz file", 3, "an xz file", holds(b"\xfd7zXZ\0\0\4")),
    raw_case(
        "a zip bomb", 3, "200 times", holds(zipped({MEMBER: b"0" * (8 << 20)})), "movielens-10m"
    ),
    raw_case(
        "zip in zip",
        3,
        "a zip archive",
        holds(zipped({MEMBER: zipped({MEMBER: LINES})})),
        "movielens-10m",
    ),
    raw_case(
        "a zip archive with an absolute name",
        3,
        "outside the archive",
        holds(zipped({MEMBER: LINES, "/etc/passwd": b"x"})),
        "movielens-10m",
    ),
]


@table(RAW_FILES)
def test_a_raw_file_that_is_none_is_refused_and_leaves_nothing(case, tmp_path):
    check(case, tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["users.dat", "users.dat.part", "users.dat.part.mark"])
def test_a_pipe_where_a_download_goes_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(SdgarError, match="in the way: it is not a file") as caught:
        download(ANY_FILE, tmp_path, url="http://127.0.0.1:9/x")
    assert caught.value.exit_code == 2
