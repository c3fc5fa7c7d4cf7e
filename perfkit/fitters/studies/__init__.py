"""Mining a study's results: categories, decision trees, importances."""
