"""Bottlenecks from counters: utilisation rules and a model learnt on simulated runs."""
