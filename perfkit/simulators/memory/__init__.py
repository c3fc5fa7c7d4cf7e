"""Caches and the level that serves each access."""
