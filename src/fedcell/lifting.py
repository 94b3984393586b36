"""A method as a problem needs it: for vectors with running statistics, and at every base station with an edge model."""

from .air import suited
from .methods.parts.statistics import with_statistics
from .tiers.hierarchy import over_edges
from .types import Method, Problem


def lifted(problem: Problem, method: Method) -> Method:
    """The method for whole vectors and over the edges; lifted once is enough."""
    return over_edges(problem, with_statistics(problem, suited(problem, method)))
