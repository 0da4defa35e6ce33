"""Downloads against servers on this machine, of which most do something wrong."""

from __future__ import annotations

import hashlib
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import pytest

from sdgar.errors import ResourceError, UsageError
from sdgar.lab.datasets import DATASETS, Dataset, web
from sdgar.lab.datasets import download as module
from sdgar.lab.datasets.download import Downloaded, DownloadInterruptedError, download

BODY = b"".join(b"%d 7 11 13\n" % n for n in range(20_000))
SHA256 = hashlib.sha256(BODY).hexdigest()
MD5 = hashlib.md5(BODY).hexdigest()

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers as the test says, and remembers what it was asked."""

    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(dict(self.headers))
        self.server.answer(self)

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def send(self, body: bytes, status: int = 200, **headers: object) -> None:
        """Send a whole answer; ``Content_Length=None`` leaves that header out."""
        self.send_response(status)
        for name, value in {"Content_Length": len(body), **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def send_rest(self, body: bytes = BODY, **headers: object) -> None:
        """Honour Range, as a good server does."""
        wanted = self.headers.get("Range")
        if not wanted:
            return self.send(body, **headers)
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(body):
            return self.send(b"", 416, Content_Range=f"bytes */{len(body)}")
        span = f"bytes {start}-{len(body) - 1}/{len(body)}"
        return self.send(body[start:], 206, Content_Range=span, **headers)


class Server(ThreadingHTTPServer):
    answer: Answer
    asked: list[dict[str, str]]
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

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/users.dat"

    @property
    def part(self) -> Path:
        return self.folder / "users.dat.part"

    def fetch(self, answer: Answer, **options: object) -> Downloaded:
        self.server.answer = answer
        settings: dict[str, object] = {"url": self.url, "timeout": 5.0, **options}
        return download(
            self.dataset,
            self.folder,
            progress=lambda received, total: self.seen.append((received, total)),
            **settings,  # type: ignore[arg-type]
        )

    def refuse(self, answer: Answer, code: str, match: str, **options: object) -> None:
        """The download fails, and nothing is left in the folder."""
        with pytest.raises(ResourceError, match=match) as caught:
            self.fetch(answer, **options)
        assert caught.value.code == code
        assert [*self.folder.iterdir()] == []

    def break_off(self, answer: Answer, **options: object) -> None:
        """The download fails in a way that can be resumed, and the final file is not there."""
        with pytest.raises(DownloadInterruptedError, match="again to go on"):
            self.fetch(answer, **options)
        assert not (self.folder / "users.dat").exists()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    dataset = replace(DATASETS["citeulike"], size=len(BODY), sha256=SHA256)
    (tmp_path / "raw").mkdir()
    yield Site(server, tmp_path / "raw", dataset)
    server.shutdown()
    thread.join()
    server.server_close()


def unpinned(site: Site) -> Site:
    """The same site for a file of which nothing is published."""
    site.dataset = replace(site.dataset, size=None, sha256=None)
    return site


def half(handler: Handler, **headers: object) -> None:
    """Declare the whole body, send half of it, and hang up."""
    handler.send(BODY[: len(BODY) // 2], **{"Content_Length": len(BODY), **headers})


# What works


def test_a_good_body_gets_its_name_and_nothing_else_is_left(site):
    got = site.fetch(Handler.send_rest)
    assert got == Downloaded(site.folder / "users.dat", len(BODY), SHA256, "sha256")
    assert got.path.read_bytes() == BODY
    assert [*site.folder.iterdir()] == [got.path]
    assert "SHA256 as published" in got.note()


def test_progress_ends_at_the_total(site):
    site.fetch(Handler.send_rest)
    assert site.seen[-1] == (len(BODY), len(BODY))
    assert site.seen == sorted(site.seen)


def test_a_missing_folder_is_made(site):
    site.folder = site.folder / "new/folder"
    assert site.fetch(Handler.send_rest).path.exists()


def test_an_md5_is_checked_where_nothing_better_is_published(site):
    site.dataset = replace(site.dataset, sha256=None, md5=MD5)
    assert site.fetch(Handler.send_rest).checked == "md5"


def test_a_wrong_md5_is_refused(site):
    site.dataset = replace(site.dataset, sha256=None, md5="0" * 32)
    site.refuse(Handler.send_rest, "wrong_digest", f"MD5 is {MD5}")


def test_without_a_published_digest_the_received_one_is_reported(site):
    got = unpinned(site).fetch(Handler.send_rest)
    assert got.checked is None
    assert "No digest is published" in got.note()
    assert f"--sha256 {SHA256}" in got.note()


def test_the_callers_digest_takes_the_place_of_ours(site):
    other = b"2 1 2\n"
    got = site.fetch(lambda h: h.send(other), sha256=hashlib.sha256(other).hexdigest().upper())
    assert got.path.read_bytes() == other


def test_a_body_without_a_declared_length_is_accepted_if_it_is_the_published_one(site):
    assert site.fetch(lambda h: h.send(BODY, Content_Length=None)).size == len(BODY)


def test_a_redirect_within_the_web_is_followed(site):
    def answer(handler: Handler) -> None:
        if handler.path == "/there":
            return handler.send_rest()
        return handler.send(b"", 302, Location="/there")

    assert site.fetch(answer).size == len(BODY)


def test_a_file_that_is_there_is_checked_and_not_fetched_again(site):
    site.fetch(Handler.send_rest)
    site.fetch(Handler.send_rest)
    assert len(site.server.asked) == 1


def test_another_file_of_that_name_is_left_as_it_is(site):
    mine = site.folder / "users.dat"
    mine.write_bytes(b"mine")
    with pytest.raises(ResourceError, match="there already, but is another file"):
        site.fetch(Handler.send_rest)
    assert mine.read_bytes() == b"mine"


# What is refused


def test_wrong_bytes_of_the_right_length_are_refused(site):
    site.refuse(lambda h: h.send(BODY[:-1] + b"!"), "wrong_digest", "not the published file")


def test_a_body_declared_shorter_than_published_is_refused(site):
    site.refuse(lambda h: h.send(BODY[:-1]), "wrong_size", "offers 2")


def test_a_body_declared_longer_than_published_is_refused(site):
    site.refuse(lambda h: h.send(BODY + b"1 1\n"), "wrong_size", "offers 2")


def test_an_endless_body_without_a_length_is_stopped_at_the_published_size(site):
    def answer(handler: Handler) -> None:
        handler.send(BODY, Content_Length=None)
        for _ in range(100):
            handler.wfile.write(BODY)

    site.refuse(answer, "wrong_size", "sends more than")
    assert site.seen[-1][0] <= len(BODY)


def test_an_endless_body_of_unknown_size_is_stopped_at_the_cap(site, monkeypatch):
    monkeypatch.setattr(module, "MAX_DOWNLOAD_BYTES", 1000)
    unpinned(site).refuse(
        lambda h: h.send(BODY, Content_Length=None), "wrong_size", "more than 1,000"
    )


def test_bytes_after_the_declared_length_are_not_part_of_the_file(site):
    got = site.fetch(lambda h: h.send(BODY + b"smuggled", Content_Length=len(BODY)))
    assert got.path.read_bytes() == BODY


@pytest.mark.parametrize("kind", ["text/html", "text/html; charset=utf-8", "application/xhtml+xml"])
def test_a_web_page_with_status_200_is_refused_by_its_type(site, kind):
    unpinned(site).refuse(
        lambda h: h.send(b"sign in", Content_Type=kind), "web_page", "a web page instead"
    )


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><p>", b"\n  <HTML lang=en>", b"<html>"])
def test_a_web_page_in_disguise_is_refused_by_its_first_bytes(site, page):
    unpinned(site).refuse(
        lambda h: h.send(page, Content_Type="text/plain"), "web_page", "a web page instead"
    )


def test_a_web_page_that_comes_byte_by_byte_is_still_seen(site):
    def answer(handler: Handler) -> None:
        handler.send(b"", Content_Length=None)
        for byte in b"<!doctype html>":
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()

    unpinned(site).refuse(answer, "web_page", "a web page instead")


@pytest.mark.parametrize(
    ("status", "advice"), [(403, "may have moved"), (404, "may have moved"), (500, "later")]
)
def test_an_http_error_says_its_number_and_what_to_do(site, status, advice):
    site.refuse(lambda h: h.send(b"no", status), "http_error", f"answered {status} .*{advice}")


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/users.dat", "data:,x"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_out_of_the_web_is_refused(site, place, status):
    site.refuse(
        lambda h: h.send(b"", status, Location=place), "bad_redirect", f"redirects to '{place}'"
    )


def test_a_redirect_that_goes_in_circles_is_refused(site):
    site.refuse(lambda h: h.send(b"", 302, Location="/users.dat"), "bad_redirect", "redirects to")


def test_a_redirect_from_https_to_http_is_refused():
    from urllib.error import HTTPError
    from urllib.request import Request

    with pytest.raises(HTTPError, match="redirect refused"):
        web._Redirects().redirect_request(
            Request("https://example.org/a"),
            None,  # type: ignore[arg-type]
            302,
            "",
            {},  # type: ignore[arg-type]
            "http://example.org/a",
        )


def test_an_encoded_body_is_refused(site):
    site.refuse(lambda h: h.send(BODY, Content_Encoding="gzip"), "bad_encoding", "encoded as gzip")


def test_an_unasked_partial_answer_is_refused(site):
    site.refuse(lambda h: h.send(BODY, 206), "http_error", "answered 206 where 200")


def test_a_server_that_is_not_there_is_a_resource_error(site):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site.refuse(
        Handler.send_rest, "unreachable", "cannot be reached", url=f"http://127.0.0.1:{port}/x"
    )


def test_a_server_that_never_answers_is_given_up(site):
    done = threading.Event()
    site.refuse(lambda _: done.wait(5) and None, "unreachable", "timed out", timeout=0.2)
    done.set()


def test_a_full_disk_is_noticed_before_the_transfer(site, monkeypatch):
    usage = shutil.disk_usage(site.folder)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    site.refuse(Handler.send_rest, "disk_full", "10 bytes free")


def test_a_disk_that_fills_up_on_the_way_leaves_no_part(site, monkeypatch):
    def full(_: object, __: object, out: IO[bytes], *___: object) -> None:
        out.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_receive", full)
    site.refuse(Handler.send_rest, "disk_full", "disk is full")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "users.dat", "http://", ""])
def test_only_web_addresses_are_fetched(site, url):
    site.dataset = replace(site.dataset, url=url)
    with pytest.raises(UsageError, match="https://") as caught:
        site.fetch(Handler.send_rest, url=url)
    assert caught.value.code == "bad_url"


def test_a_digest_that_is_none_is_refused_before_the_transfer(site):
    with pytest.raises(UsageError, match="64 hexadecimal digits, got 'abc'"):
        site.fetch(Handler.send_rest, sha256="abc")
    assert site.server.asked == []


# What is resumed


def test_a_short_body_is_resumed_from_where_it_broke_off(site):
    site.break_off(half)
    assert site.part.read_bytes() == BODY[: len(BODY) // 2]
    assert site.fetch(Handler.send_rest).path.read_bytes() == BODY
    assert site.server.asked[1]["Range"] == f"bytes={len(BODY) // 2}-"
    assert [path.name for path in site.folder.iterdir()] == ["users.dat"]


def test_a_server_that_ignores_ranges_starts_over(site):
    site.break_off(half)
    assert site.fetch(lambda h: h.send(BODY)).path.read_bytes() == BODY


def test_a_range_that_begins_elsewhere_starts_over(site):
    def answer(handler: Handler) -> None:
        if "Range" in handler.headers:
            return handler.send(BODY[1:], 206, Content_Range=f"bytes 1-{len(BODY) - 1}/{len(BODY)}")
        return handler.send(BODY)

    site.break_off(half)
    assert site.fetch(answer).path.read_bytes() == BODY


def test_a_part_longer_than_the_file_starts_over(site):
    site.part.write_bytes(BODY + b"more")
    assert site.fetch(Handler.send_rest).path.read_bytes() == BODY


def test_a_part_with_wrong_bytes_is_refused_and_removed(site):
    site.part.write_bytes(b"X" * 100)
    site.refuse(Handler.send_rest, "wrong_digest", "not the published file")


def test_a_part_outlives_a_server_that_is_down(site):
    site.break_off(half)
    with pytest.raises(ResourceError, match="answered 500"):
        site.fetch(lambda h: h.send(b"", 500))
    assert site.part.exists()
    assert site.fetch(Handler.send_rest).size == len(BODY)


def test_without_a_digest_a_resume_asks_for_the_same_version(site):
    unpinned(site).break_off(lambda h: half(h, ETag='"one"'))
    assert site.fetch(lambda h: h.send_rest(ETag='"one"')).sha256 == SHA256
    assert site.server.asked[1]["If-Range"] == '"one"'


def test_without_a_digest_a_new_version_starts_over(site):
    """A server that honours If-Range sends all of a file that has changed."""
    unpinned(site).break_off(lambda h: half(h, Last_Modified="Sun, 15 Nov 2026 10:00:00 GMT"))
    changed = BODY.replace(b"7", b"8")
    assert site.fetch(lambda h: h.send(changed)).path.read_bytes() == changed
    assert site.server.asked[1]["If-Range"] == "Sun, 15 Nov 2026 10:00:00 GMT"


def test_without_a_digest_or_a_version_nothing_is_resumed(site):
    unpinned(site).break_off(lambda h: half(h, ETag='W/"weak"'))
    assert site.fetch(Handler.send_rest).sha256 == SHA256
    assert "Range" not in site.server.asked[1]


def test_a_connection_that_is_reset_can_be_resumed(site):
    def reset(handler: Handler) -> None:
        half(handler)
        handler.wfile.flush()
        no_linger = b"\1\0\0\0\0\0\0\0"
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)

    site.break_off(reset)
    assert site.fetch(Handler.send_rest).size == len(BODY)


def test_a_body_that_stops_is_given_up_and_can_be_resumed(site):
    done = threading.Event()

    def stall(handler: Handler) -> None:
        half(handler)
        handler.wfile.flush()
        done.wait(5)

    site.break_off(stall, timeout=0.2)
    done.set()
    assert site.fetch(Handler.send_rest).size == len(BODY)


def test_a_body_that_drips_is_given_up_although_no_read_times_out(site):
    done = threading.Event()

    def drip(handler: Handler) -> None:
        handler.send(b"", Content_Length=len(BODY))
        for byte in BODY:
            handler.wfile.write(bytes([byte]))
            if done.wait(0.02):
                return

    with pytest.raises(DownloadInterruptedError, match="bytes in"):
        site.fetch(drip, timeout=0.3)
    done.set()


def test_a_connection_that_breaks_before_the_first_byte_leaves_no_part(site):
    site.break_off(lambda h: h.send(b"", Content_Length=len(BODY)))
    assert [*site.folder.iterdir()] == []


def test_a_chunked_body_that_breaks_off_is_not_taken_for_the_whole(site):
    def answer(handler: Handler) -> None:
        handler.send(b"", Content_Length=None, Transfer_Encoding="chunked")
        handler.wfile.write(b"5\r\n12345\r\n5\r\n12")

    unpinned(site).break_off(answer)


def test_a_download_stopped_by_hand_keeps_its_part(site):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    site.server.answer = Handler.send_rest
    with pytest.raises(KeyboardInterrupt):
        download(site.dataset, site.folder, url=site.url, progress=stop)
    assert site.part.exists()
    assert site.fetch(Handler.send_rest).size == len(BODY)
