"""The data room: it reads files and frames into interactions, and splits them."""
