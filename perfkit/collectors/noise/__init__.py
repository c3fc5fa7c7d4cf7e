"""Noise: harmless instructions of one kind, added to the innermost loop of real code, and what they cost."""
