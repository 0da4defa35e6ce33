"""Find the k best items of each user."""
