"""Runs, comparisons, searches and figures; a figure is drawn from kept data alone."""
