"""Compiled code for the CPU and the GPU; it imports nothing of the other rooms."""
