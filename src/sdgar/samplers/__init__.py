"""The samplers, which propose negatives."""
