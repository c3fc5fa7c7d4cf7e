"""Processor cores: `Microarchitecture`, instruction tables in layers, and the core files."""
