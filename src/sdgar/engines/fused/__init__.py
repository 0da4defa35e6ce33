"""Engines that run an epoch in compiled code, for the parts that their plan has code for."""
