"""Static pictures (matplotlib) of results; the widgets draw the same results interactively."""
