"""Runs, tables and figures: data first, drawn from that data alone."""
