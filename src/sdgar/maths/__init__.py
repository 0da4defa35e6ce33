"""Arithmetic that would be the same outside of a recommender."""
