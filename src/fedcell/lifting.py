"""Wrap a method as a problem needs it: for vectors with running statistics, and for base stations with edge models."""

from .air import suited
from .methods.parts.statistics import with_statistics
from .tiers.hierarchy import over_edges
from .types import Method, Problem


def lifted(problem: Problem, method: Method) -> Method:
    """Return the method for vectors with running statistics and for edge models; lifting it again changes nothing."""
    return over_edges(problem, with_statistics(problem, suited(problem, method)))
