"""Cells and tiers: any method at every base station, with edge models that are averaged every few rounds."""
