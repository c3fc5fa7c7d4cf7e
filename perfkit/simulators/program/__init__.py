"""A trace's instructions, decoded against a core."""
