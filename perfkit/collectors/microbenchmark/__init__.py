"""Microbenchmark studies: write the variants' sources, compile them, time them, and keep every repetition."""

from perfkit.collectors.microbenchmark.collector import Microbenchmark, Plan

__all__ = ["Microbenchmark", "Plan"]
