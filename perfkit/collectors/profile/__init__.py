"""Where a run of a program spends its time: by samples where the system allows them, else by valgrind's counts."""
