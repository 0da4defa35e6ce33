"""Arithmetic that knows no recommender."""
