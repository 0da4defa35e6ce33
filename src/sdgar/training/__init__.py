"""The one training loop, and the protocols that use it."""
