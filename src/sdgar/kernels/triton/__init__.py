"""Kernels for a GPU, compiled by Triton."""
