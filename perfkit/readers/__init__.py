"""Readers of counter dumps: one format a file, each recognised by its content."""
