"""Trained models: scoring, folding in new users, saving."""
