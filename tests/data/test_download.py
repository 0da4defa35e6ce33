"""Downloads from servers on this machine, of which most do something wrong."""

from __future__ import annotations

import gc
import hashlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sdgar.errors import ResourceError, UsageError
from sdgar.lab.datasets import DATASETS, Dataset, Downloaded, download

BODY = b"".join(b"%d 7 11 13\n" % n for n in range(20_000))
SHA256 = hashlib.sha256(BODY).hexdigest()
MD5 = hashlib.md5(BODY).hexdigest()

# pooch leaves the connection of a failed download to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers as the test says."""

    server: Server

    def do_GET(self) -> None:
        self.server.n_requests += 1
        self.server.answer(self)

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def send(self, body: bytes = BODY, status: int = 200, **headers: object) -> None:
        """Send a whole answer; ``Content_Length=None`` leaves that header out."""
        self.send_response(status)
        for name, value in {"Content_Length": len(body), **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    answer: Answer
    n_requests = 0
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is part of the test."""


@dataclass
class Site:
    """A server, a folder to download into, and the file as published."""

    server: Server
    folder: Path
    dataset: Dataset
    seen: list[tuple[int, int | None]] = field(default_factory=list)

    def fetch(self, answer: Answer = Handler.send, **options: object) -> Downloaded:
        self.server.answer = answer
        url = f"http://127.0.0.1:{self.server.server_address[1]}/users.dat"
        return download(
            self.dataset,
            self.folder,
            progress=lambda received, total: self.seen.append((received, total)),
            **{"url": url, "timeout": 5.0, **options},  # type: ignore[arg-type]
        )

    def refuse(self, answer: Answer, code: str, match: str, **options: object) -> None:
        """The download fails, and nothing is left in the folder."""
        with pytest.raises(ResourceError, match=match) as caught:
            self.fetch(answer, **options)
        assert caught.value.code == code
        assert [*self.folder.iterdir()] == []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    (tmp_path / "raw").mkdir()
    yield Site(server, tmp_path / "raw", replace(DATASETS["citeulike"], sha256=SHA256))
    server.shutdown()
    thread.join()
    server.server_close()
    gc.collect()


def unpinned(site: Site) -> Site:
    """The same site for a file of which no digest is published."""
    site.dataset = replace(site.dataset, sha256=None)
    return site


def test_a_good_file_gets_its_name_and_nothing_else_is_left(site):
    site.folder = site.folder / "new/folder"
    got = site.fetch()
    assert got == Downloaded(site.folder / "users.dat", len(BODY), SHA256, "sha256")
    assert got.path.read_bytes() == BODY
    assert [*site.folder.iterdir()] == [got.path]
    assert "SHA256 as published" in got.note()
    assert site.seen[-1] == (len(BODY), len(BODY))


def test_an_md5_is_checked_if_nothing_better_is_published(site):
    site.dataset = replace(site.dataset, sha256=None, md5=MD5)
    assert site.fetch().checked == "md5"


def test_without_a_published_digest_the_received_one_is_reported(site):
    got = unpinned(site).fetch(lambda h: h.send(Content_Length=None))
    assert got.checked is None
    assert f"--sha256 {SHA256}" in got.note()
    assert site.seen[-1][1] is None


def test_the_callers_digest_replaces_the_published_one(site):
    other = b"2 1 2\n"
    got = site.fetch(lambda h: h.send(other), sha256=hashlib.sha256(other).hexdigest().upper())
    assert got.path.read_bytes() == other


def test_a_redirect_within_the_web_is_followed(site):
    def answer(handler: Handler) -> None:
        if handler.path == "/there":
            return handler.send()
        return handler.send(b"", 302, Location="/there")

    assert site.fetch(answer).size == len(BODY)


def test_a_file_that_is_there_is_checked_and_not_downloaded_again(site):
    site.fetch()
    site.fetch()
    assert site.server.n_requests == 1


def test_another_file_of_that_name_is_left_as_it_is(site):
    mine = site.folder / "users.dat"
    mine.write_bytes(b"mine")
    with pytest.raises(ResourceError, match="there already, but is another file"):
        site.fetch()
    assert mine.read_bytes() == b"mine"


def test_a_folder_in_place_of_the_file_is_refused(site):
    (site.folder / "users.dat").mkdir()
    with pytest.raises(UsageError, match="in the way: it is not a file"):
        site.fetch()


@pytest.mark.parametrize("digests", [{"sha256": SHA256}, {"sha256": None, "md5": MD5}])
def test_a_file_with_another_digest_is_refused(site, digests):
    site.dataset = replace(site.dataset, **digests)
    site.refuse(lambda h: h.send(BODY[:-1] + b"!"), "wrong_digest", "is not the published file")


@pytest.mark.parametrize(
    ("status", "advice"), [(403, "may have moved"), (404, "may have moved"), (500, "later")]
)
def test_an_http_error_is_reported_with_its_number_and_what_to_do(site, status, advice):
    site.refuse(lambda h: h.send(b"no", status), "http_error", f"answered {status} .*{advice}")


def a_part(handler: Handler) -> None:
    handler.send(BODY[:1000], Content_Length=len(BODY))


def a_part_in_chunks(handler: Handler) -> None:
    handler.send(b"5\r\n12345\r\n5\r\n12", Content_Length=None, Transfer_Encoding="chunked")


def a_circle(handler: Handler) -> None:
    handler.send(b"", 302, Location="/users.dat")


def a_file_of_this_machine(handler: Handler) -> None:
    handler.send(b"", 302, Location="file:///etc/passwd")


@pytest.mark.parametrize("answer", [a_part, a_part_in_chunks, a_circle, a_file_of_this_machine])
def test_an_answer_without_a_whole_file_is_refused(site, answer):
    unpinned(site).refuse(answer, "unreachable", "cannot be downloaded: .*Check the network")


def test_a_server_that_never_answers_is_given_up(site):
    done = threading.Event()
    site.refuse(lambda _: done.wait(5) and None, "unreachable", "timed out", timeout=0.2)
    done.set()


def test_a_server_that_is_not_there_is_a_resource_error(site):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site.refuse(Handler.send, "unreachable", "cannot be", url=f"http://127.0.0.1:{port}/x")


def test_a_download_stopped_by_hand_leaves_nothing(site):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    site.server.answer = Handler.send
    url = f"http://127.0.0.1:{site.server.server_address[1]}/users.dat"
    with pytest.raises(KeyboardInterrupt):
        download(site.dataset, site.folder, url=url, progress=stop)
    assert [*site.folder.iterdir()] == []


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://x/y", "users.dat", "http://", "", "http://x:99999/y",
     "http://x:many/", "http://x:0/", "http://[::1/x", "http://a..b/x"],
)  # fmt: skip
def test_only_web_addresses_are_downloaded(site, url):
    with pytest.raises(UsageError, match="https://") as caught:
        site.fetch(url=url or " ")
    assert caught.value.code == "bad_url"


def test_a_password_in_an_address_is_refused_and_not_repeated(site):
    with pytest.raises(UsageError, match="user name") as caught:
        site.fetch(url="http://me:secret@example.org/x")
    assert "secret" not in str(caught.value)


def test_a_digest_that_is_none_is_refused_before_the_transfer(site):
    with pytest.raises(UsageError, match="64 hexadecimal digits, got 'abc'"):
        site.fetch(sha256="abc")
    assert site.server.n_requests == 0


def test_without_pooch_the_error_names_the_extra(site, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(UsageError, match=r"pip install 'sdgar\[data\]'"):
        site.fetch()
