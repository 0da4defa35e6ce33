"""Models that score (context, item) pairs."""
