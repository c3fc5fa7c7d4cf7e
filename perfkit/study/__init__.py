"""Spaces of micro-benchmarks: `Study`, its measured `StudyRuns`, and the expressions of derived columns."""
