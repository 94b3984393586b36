"""Planners that need no training: parameters from closed forms and measured times alone."""
