"""Dependence graphs recorded from numba functions, C sources and traces."""
