"""Small solvers over arrays of independent problems; nothing here knows what the numbers mean."""
