"""Measured or generated inputs: tables of samples, studies and traces. Collectors never analyse."""
