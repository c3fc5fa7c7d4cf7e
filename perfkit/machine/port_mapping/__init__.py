"""Which ports instruction forms use, from the times of their mixtures (after PALMED: Derumigny et al., CGO 2022)."""
