"""The simulated PMU: event counts of simulated runs with their exact truth."""
