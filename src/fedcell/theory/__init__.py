"""Closed forms and convergence bounds of the papers as computable diagnostics."""
