"""The extended roofline: a dependence graph scheduled on a parameterised core."""
