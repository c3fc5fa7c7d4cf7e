"""Dependence graphs of executed floating-point operations: `Dag`."""
