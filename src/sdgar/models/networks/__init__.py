"""The networks that are saved whole, as far as they are needed once training is over."""
