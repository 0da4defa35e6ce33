"""The discriminators: models that score (context, item) pairs."""
