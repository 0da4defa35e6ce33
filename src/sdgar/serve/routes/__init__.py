"""The routes of the API, by topic: each module adds its routers to ``ROUTERS`` of ``common``."""

from sdgar.serve.routes import catalogue, feedback, recommendations, status

__all__ = ["catalogue", "feedback", "recommendations", "status"]
