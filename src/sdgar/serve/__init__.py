"""A saved model as a service: answers over HTTP, feedback that comes back, models that swap."""
