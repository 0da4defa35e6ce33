"""Experiments: the paper, public data sets, comparisons and searches of settings."""
