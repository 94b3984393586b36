"""Answers without training: rounds of any method, who can take part, forecasts, and parameters from closed forms."""
