"""CPI stacks by regression on counters."""
