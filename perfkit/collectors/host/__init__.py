"""What this machine is and how fast it runs: clocks, calibration, compilers, frequency."""
