"""Ways to execute an epoch."""
