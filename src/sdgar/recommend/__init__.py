"""A trained model that answers: recommendations, similar items, measurement, saving and loading."""
