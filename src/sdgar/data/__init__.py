"""From files and frames to interactions, and from interactions to splits."""
