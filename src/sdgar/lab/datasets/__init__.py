"""The data sets of the SD-GAR paper."""

from sdgar.lab.datasets.catalogue import DATASETS, Dataset, find

__all__ = ["DATASETS", "Dataset", "find"]
