"""Basic blocks, measured on this machine without counters."""
