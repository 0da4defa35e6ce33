"""The five data sets of the SD-GAR paper: where they come from, and how they are read.

Section 3.1 of the paper: scores higher than 4 are positive, and every user has at least 5
items. Where the published sizes say otherwise, the entry says so and follows the sizes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sdgar.arguments import one_of
from sdgar.data.read_options import ReadOptions
from sdgar.data.synthetic import PRESETS, Shape
from sdgar.errors import ResourceError, UsageError

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
    reading: ReadOptions | None = None
    """The columns of the raw file, and the rows that are positive; None for lines of one user each:
    the number of items, then the items."""
    member: str | None = None
    """The one file to read where the raw file is a zip archive."""
    sha256: str | None = None
    """The SHA-256 of the raw file; None if nobody published it and we have not seen the file."""
    md5: str | None = None
    """The MD5 of the raw file, if that is all that its publisher gives."""
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
        member="ml-10M100K/ratings.dat",
        md5="ce571fd55effeba0271552578f2648bd",
        reading=ReadOptions(header_columns=_RATINGS, delimiter="::", min_rating=_ABOVE_4),
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
        reading=ReadOptions(header_columns=_RATINGS, delimiter=",", min_rating=_ABOVE_4),
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
        member="train_triplets.txt",
        reading=ReadOptions(
            header_columns=("user", "item", "weight"),
            delimiter="\t",
            weights="raw",
            duplicates="sum",
        ),
        notes=("The paper uses a part of these triplets and does not say which.",),
        citation="Bertin-Mahieux, Ellis, Whitman and Lamere: The Million Song Dataset, ISMIR 2011.",
        terms="Provided for research; read the terms on the home page.",
    ),
)
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}


def find(name: str) -> Dataset:
    """Look up a data set by its name."""
    return DATASETS[one_of("dataset", name, tuple(DATASETS))]


def download(dataset: Dataset, folder: Path) -> Path:
    """Download the raw file of a data set into a folder, and check the digest that is published.

    A file that is there already is downloaded again only if its digest is another one.
    """
    try:
        import pooch
    except ImportError as error:
        raise UsageError(
            "downloads need the package pooch. Install it with: pip install 'sdgar[data]'",
            code="missing_package",
        ) from error
    known = f"sha256:{dataset.sha256}" if dataset.sha256 else dataset.md5 and f"md5:{dataset.md5}"
    name = PurePosixPath(dataset.url).name
    try:
        found = pooch.retrieve(dataset.url, known, name, folder, progressbar=sys.stderr.isatty())
    except (OSError, ValueError) as error:  # ValueError is another digest than the published one
        raise ResourceError(
            f"{dataset.url} cannot be downloaded: {error}. Check the network and the free disk "
            f"space and try again, or get the file from {dataset.homepage}.",
            code="download_failed",
        ) from error
    return Path(found)
