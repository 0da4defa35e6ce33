"""Raw files of data sets are downloaded once, and checked by the published digest."""

from __future__ import annotations

import functools
import gc
import hashlib
import sys
import threading
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sdgar.errors import ResourceError, UsageError
from sdgar.lab.datasets import DATASETS, download

BODY = b"".join(b"%d 7 11 13\n" % n for n in range(2_000))

# pooch leaves the connection of a failed download to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def published(tmp_path):
    """Return the entry of a data set whose raw file a server of this machine has."""
    pytest.importorskip("pooch")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "users.dat").write_bytes(BODY)
    handler = functools.partial(Quiet, directory=tmp_path / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/users.dat"
        yield replace(DATASETS["citeulike"], url=url, sha256=hashlib.sha256(BODY).hexdigest())
        server.shutdown()
    gc.collect()


@pytest.mark.parametrize("known", ["sha256", "md5", None])
def test_a_file_is_downloaded_and_checked(published, known, tmp_path):
    digests = {"sha256": None, "md5": None}
    if known:
        digests[known] = hashlib.new(known, BODY).hexdigest()
    file = download(replace(published, **digests), tmp_path / "raw")
    assert file == tmp_path / "raw" / "users.dat"
    assert file.read_bytes() == BODY


def test_a_file_that_is_there_is_not_downloaded_again(published, tmp_path):
    download(published, tmp_path)
    nowhere = replace(published, url="http://127.0.0.1:9/users.dat")
    assert download(nowhere, tmp_path).read_bytes() == BODY


def test_a_file_of_another_digest_is_refused_and_not_kept(published, tmp_path):
    with pytest.raises(ResourceError, match="cannot be downloaded"):
        download(replace(published, sha256="0" * 64), tmp_path / "raw")
    assert not list((tmp_path / "raw").iterdir())


@pytest.mark.parametrize("url", ["missing", "refused"])
def test_an_error_names_the_address_and_the_home_page(published, url, tmp_path):
    url = {"missing": f"{published.url}.old", "refused": "http://127.0.0.1:9/users.dat"}[url]
    with pytest.raises(ResourceError, match="citeulike-t") as caught:
        download(replace(published, url=url), tmp_path)
    assert url in str(caught.value)
    assert caught.value.code == "download_failed"


def test_without_pooch_the_error_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(UsageError, match="pip install"):
        download(DATASETS["citeulike"], tmp_path)
