"""Measure a whole core file of this machine: what every instruction form costs, on which ports, and the core's figures."""
