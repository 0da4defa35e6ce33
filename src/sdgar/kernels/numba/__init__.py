"""Kernels for the CPU, compiled by Numba."""
