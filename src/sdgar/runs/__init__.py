"""Runs: folders with a trained model, how it was trained, and what it reached."""
