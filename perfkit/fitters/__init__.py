"""Inference from tables: settings objects whose ``fit`` returns a new result."""
