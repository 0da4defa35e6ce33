"""Compiled code for the CPU and the GPU; of the other packages it imports only ``machine``."""

MANY_ROWS = 1 << 22
"""The rows from which on kernels do faster what NumPy and Polars can do too, even if Numba has to
be imported first."""
