"""Models out and in: exports for other programs, and factors that other libraries learned."""
