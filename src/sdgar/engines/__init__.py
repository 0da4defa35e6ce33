"""The engines: three ways to run an epoch of a system."""
