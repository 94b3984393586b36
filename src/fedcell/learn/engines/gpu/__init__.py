"""All clients of a cohort at once."""
