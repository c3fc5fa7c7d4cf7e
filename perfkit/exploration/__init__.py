"""An unknown dump explored: what it is, which methods it allows and why not the others, and what to measure next."""
