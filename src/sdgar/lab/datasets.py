"""The five data sets of the SD-GAR paper: where they come from, and how they are downloaded.

Section 3.1 of the paper: scores higher than 4 are positive, and every user has at least 5
items. Where the published sizes say otherwise, the entry says so and follows the sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from sdgar.data.read_options import ReadOptions
from sdgar.data.synthetic import PRESETS, Shape
from sdgar.errors import ResourceError, UsageError, unknown_name
from sdgar.storage.files import digest, disk_error

_RATINGS = ("user", "item", "rating", "time")
_ABOVE_4 = 4.5
"""The lowest rating above 4, as ratings are whole or half numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A data set: where it comes from, how it is read, and what the paper says of its size."""

    name: str
    """The name of the data set, and of its synthetic counterpart, in commands."""
    paper_name: str
    """The name that the paper's tables give it."""
    title: str
    """The name and contents of the data set, for people."""
    homepage: str
    """The address of the publisher's page about it."""
    url: str
    """The address of the raw file."""
    filename: str
    """The name of the raw file on this machine; it is never taken from a URL or a header."""
    reading: ReadOptions | None = None
    """The columns of the raw file, and the rows that are positive; None for lines of one user each:
    the number of items, then the items."""
    integer_ids: bool = True
    """Whether all ids are integers."""
    member: str | None = None
    """The one file to read where the raw file is a zip archive."""
    size: int | None = None
    """The size of the raw file in bytes, if it is known."""
    sha256: str | None = None
    """The SHA-256 of the raw file; None if nobody published it and we have not seen the file."""
    md5: str | None = None
    """The MD5 of the raw file, for publishers who give no better digest."""
    min_user_interactions: int = 5
    """Users with fewer interactions are left out."""
    min_item_interactions: int = 1
    """Items with fewer interactions are left out."""
    notes: tuple[str, ...] = ()
    """Remarks for people who prepare the data set."""
    citation: str
    """The publication to cite."""
    terms: str
    """The terms of use."""

    @property
    def shape(self) -> Shape:
        """The numbers of users, items and interactions in the paper's Table 1."""
        return PRESETS[self.name]


_ALL = (
    Dataset(
        name="citeulike",
        paper_name="CiteULike",
        title="CiteULike-t: articles in users' libraries",
        homepage="https://github.com/js05212/citeulike-t",
        url="https://raw.githubusercontent.com/js05212/citeulike-t/master/users.dat",
        filename="users.dat",
        size=770_649,
        sha256="02d5d429b2c0362e0ed79f6ef204666b4092563d21493abf4dfb521e8a7078bf",
        # The paper says 5, but its 134,860 interactions of 7,947 users are the whole file, and
        # the authors' own split has users with 3.
        min_user_interactions=1,
        notes=("The paper counts the catalogue; 391 of its articles are in no library.",),
        citation="Wang, Chen and Li: Collaborative Topic Regression with Social Regularization "
        "for Tag Recommendation, IJCAI 2013.",
        terms="No licence is stated.",
    ),
    Dataset(
        name="gowalla",
        paper_name="Gowalla",
        title="Gowalla: places where users checked in",
        homepage="https://snap.stanford.edu/data/loc-gowalla.html",
        url="https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
        filename="loc-gowalla_totalCheckins.txt.gz",
        reading=ReadOptions(
            header_columns=("user", "time", "latitude", "longitude", "item"), delimiter="\t"
        ),
        # The paper says users with 5; its published size is that of the 10-core.
        min_user_interactions=10,
        min_item_interactions=10,
        notes=(
            "The paper says users with at least 5 items, but the size it publishes is that of "
            "the 10-core: users and places with at least 10.",
        ),
        citation="Cho, Myers and Leskovec: Friendship and Mobility, KDD 2011.",
        terms="No licence is stated.",
    ),
    Dataset(
        name="movielens",
        paper_name="MovieLens-10M",
        title="MovieLens 10M: films rated above 4",
        homepage="https://grouplens.org/datasets/movielens/10m/",
        url="https://files.grouplens.org/datasets/movielens/ml-10m.zip",
        filename="ml-10m.zip",
        member="ml-10M100K/ratings.dat",
        reading=ReadOptions(header_columns=_RATINGS, delimiter="::", min_rating=_ABOVE_4),
        size=65_566_137,
        md5="ce571fd55effeba0271552578f2648bd",
        notes=("298 of the paper's 8,939 films have no interaction in the authors' matrix.",),
        citation="Harper and Konstan: The MovieLens Datasets, ACM TiiS 5(4), 2015.",
        terms="GroupLens: research use; no redistribution and no commercial use without "
        "permission.",
    ),
    Dataset(
        name="amazon",
        paper_name="Amazon",
        title="Amazon books (2014): books rated above 4",
        homepage="https://jmcauley.ucsd.edu/data/amazon",
        url="https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/ratings_Books.csv",
        filename="ratings_Books.csv",
        reading=ReadOptions(header_columns=_RATINGS, delimiter=",", min_rating=_ABOVE_4),
        integer_ids=False,
        notes=("The paper uses a subset of these ratings that its authors did not publish.",),
        citation="He and McAuley: Ups and Downs, WWW 2016.",
        terms="No licence is stated; provided for research.",
    ),
    Dataset(
        name="echonest",
        paper_name="Echonest",
        title="Echo Nest Taste Profile: songs that users played",
        homepage="http://millionsongdataset.com/tasteprofile/",
        url="http://millionsongdataset.com/sites/default/files/challenge/train_triplets.txt.zip",
        filename="train_triplets.txt.zip",
        member="train_triplets.txt",
        reading=ReadOptions(
            header_columns=("user", "item", "weight"),
            delimiter="\t",
            weights="raw",
            duplicates="sum",
        ),
        integer_ids=False,
        notes=("The paper uses a part of these triplets and does not say which.",),
        citation="Bertin-Mahieux, Ellis, Whitman and Lamere: The Million Song Dataset, ISMIR 2011.",
        terms="Provided for research; read the terms on the home page.",
    ),
)
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}


def find(name: str) -> Dataset:
    """Look up a data set by its name."""
    if name not in DATASETS:
        raise unknown_name("dataset", name, DATASETS)
    return DATASETS[name]


Progress = Callable[[int, int | None], None]
"""A function that is called with the bytes received so far and the total, None if unknown."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A raw file on this machine, and the digest that it was checked against."""

    path: Path
    """The place of the file."""
    size: int
    """The size in bytes."""
    sha256: str
    """The SHA-256 of the file."""
    checked: Literal["sha256", "md5"] | None
    """The kind of digest it was checked against; None if none is published."""

    def note(self) -> str:
        """Return one line for people."""
        if self.checked:
            return f"{self.path}: {self.size:,} bytes, {self.checked.upper()} as published."
        return (
            f"{self.path}: {self.size:,} bytes. No digest is published for this file, so it was "
            f"not checked. To pin it from now on, pass --sha256 {self.sha256}."
        )


def download(
    dataset: Dataset,
    folder: Path,
    *,
    progress: Progress | None = None,
    url: str | None = None,
    sha256: str | None = None,
    timeout: float = 30.0,
) -> Downloaded:
    """Download the raw file of a data set into a folder, or check the one that is there.

    A mirror (``url``) must deliver the published bytes. ``sha256`` replaces the published digest.
    """
    source = _web_address(url or dataset.url)
    kind, published = _digest_of(dataset, sha256)
    target = folder / dataset.filename
    try:
        if target.exists() and not target.is_file():
            raise UsageError(
                f"{target} is in the way: it is not a file. Remove it, or choose another folder.",
                code="not_a_file",
            )
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _retrieve(source, target, kind and f"{kind}:{published}", progress, timeout)
        elif kind and digest(target, kind) != published:
            raise ResourceError(
                f"{target} is there already, but is another file: its {kind.upper()} is not "
                f"{published}. Move it away, or choose another folder.",
                code="wrong_digest",
            )
        return Downloaded(target, target.stat().st_size, digest(target, "sha256"), kind)
    except OSError as error:
        raise disk_error(target, error) from error


def _digest_of(dataset: Dataset, sha256: str | None) -> tuple[Literal["sha256", "md5"] | None, str]:
    """Return the kind and the digits of the digest that the file must have, if one is known."""
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise UsageError(f"a SHA-256 has 64 hexadecimal digits, got {sha256!r}.", code="bad_digest")
    if sha256 or dataset.sha256:
        return "sha256", (sha256 or dataset.sha256 or "").lower()
    return ("md5", dataset.md5) if dataset.md5 else (None, "")


def _retrieve(
    source: str, target: Path, known_hash: str | None, progress: Progress | None, timeout: float
) -> None:
    """Download a file under a temporary name, check its digest, and rename it."""
    try:
        import pooch
        import requests
    except ImportError as error:
        raise UsageError(
            "downloads need the package pooch. Install it with: pip install 'sdgar[data]'",
            code="missing_package",
        ) from error

    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(
        progressbar=_ProgressBar(progress) if progress else False,
        timeout=timeout,
        # A packed transfer would hide the length of the file.
        headers={"User-Agent": "sdgar", "Accept-Encoding": "identity"},
    )
    try:
        pooch.retrieve(source, known_hash, target.name, target.parent, downloader=downloader)
    except requests.HTTPError as error:
        found: Any = error.response
        advice = "The file may have moved: find it on the home page and name it with --url"
        if found.status_code >= 500:
            advice = "The server has a problem; try again later"
        raise ResourceError(
            f"{source}: the server answered {found.status_code} {found.reason}. {advice}.",
            code="http_error",
        ) from error
    except requests.RequestException as error:
        raise ResourceError(
            f"{source} cannot be downloaded: {error}. Check the network and try again, or name a "
            "mirror with --url.",
            code="unreachable",
        ) from error
    except ValueError as error:  # how pooch reports another digest
        raise ResourceError(
            f"{source} is not the published file: its digest is not {known_hash}. It is not used. "
            "Try again later, or name a mirror with --url.",
            code="wrong_digest",
        ) from error


class _ProgressBar:
    """What pooch needs of a progress bar, for a function that takes bytes and their total."""

    def __init__(self, report: Progress) -> None:
        self._report = report
        self._received = 0
        self.total: int | None = None

    def update(self, n_bytes: int) -> None:
        self._received += n_bytes
        if self.total:
            self._received = min(self._received, self.total)
        self._report(self._received, self.total or None)

    def reset(self) -> None:
        self._received = 0

    def close(self) -> None:
        """Do nothing: the caller closes its own display."""


def _web_address(url: str) -> str:
    """Return an address if it is one of the web and has no password; raise otherwise."""
    wrong = "it names no server of the web"
    try:
        parts: Any = urlsplit(url)
        parts.netloc.encode("idna")
        if "@" in parts.netloc:
            wrong = "it holds a user name, and none is ever sent. Leave out what is before the @"
        elif parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return url
    except ValueError as error:
        wrong = str(error)
    shown = re.sub("//[^/]*@", "//…@", url)  # passwords are not repeated
    raise UsageError(
        f"a download needs a URL that starts with https:// or http://, got {shown!r}: {wrong}.",
        code="bad_url",
    )
