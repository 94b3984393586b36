"""Engines for GPUs: train all clients of a cohort at once."""
