"""Alembic's environment for the store's tables."""
