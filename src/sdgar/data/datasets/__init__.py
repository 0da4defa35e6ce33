"""The data sets of the SD-GAR paper."""

from sdgar.data.datasets.catalogue import DATASETS, Dataset, find

__all__ = ["DATASETS", "Dataset", "find"]
