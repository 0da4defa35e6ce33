"""Read files and frames of interactions, and account for every row.

    loaded = read_files(["plays.csv.gz"], ReadOptions(weight="plays", weights="log"))
    loaded.interactions.account.sentence()   # 1,000 rows read = 990 kept + 10 duplicates

Ids come out as they went in. Text has no types: a column of ids is held as integers if all of
them are written as integers are (``7``, not ``007`` or ``7.0``), and as text otherwise. Typed
sources (Parquet, JSON Lines, frames) say themselves what they hold.
"""

from sdgar.data.read_options import ReadOptions
from sdgar.data.readers.columns import Columns
from sdgar.data.readers.load import LoadedRows, read, read_files, read_frame, read_options
from sdgar.data.readers.problems import BadRows, Problem, RowPlace

__all__ = [
    "BadRows",
    "Columns",
    "LoadedRows",
    "Problem",
    "ReadOptions",
    "RowPlace",
    "read",
    "read_files",
    "read_frame",
    "read_options",
]
