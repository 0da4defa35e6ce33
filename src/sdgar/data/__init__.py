"""Read files and frames into interactions, and split them."""
