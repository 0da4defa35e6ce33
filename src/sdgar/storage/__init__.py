"""Files and folders that are written whole or not at all, and locks on them."""
