"""SPIRE: one learned roofline per event, and the ranking they give."""
