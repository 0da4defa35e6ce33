"""Compiled code for the CPU and the GPU; of the other packages it imports only ``machine``."""
