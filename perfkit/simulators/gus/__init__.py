"""Gus: a traced binary on a resource-centric core; sensitivity and causality."""
