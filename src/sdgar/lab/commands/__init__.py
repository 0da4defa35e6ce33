"""The commands for experiments."""
