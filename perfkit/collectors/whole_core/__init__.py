"""Measure a core file of this machine: what instruction forms cost, on which ports, and the core's own figures."""
