"""Randomised double greedy: one pass over all elements between the empty set and the full one.

Reference: Buchbinder, Feldman, Naor, Schwartz, A Tight Linear Time (1/2)-Approximation for Unconstrained Submodular
Maximization, 2012; chen-ch3, Algorithm 3
"""

from collections.abc import Sequence
from typing import Protocol

from ..types import Bools, Floats, Ints


class Tracked(Protocol):
    """The value of a set that changes by one element at a time."""

    @property
    def value(self) -> float: ...

    def flipped(self, element: int) -> float:
        """The value if the element joined, or left."""

    def flip(self, element: int) -> None:
        """Let the element join, or leave."""


class Sum:
    """A weighted sum of tracked values of one set."""

    def __init__(self, member: Bools, parts: Sequence[tuple[float, Tracked]]) -> None:
        self.member, self.parts = member.copy(), parts

    @property
    def value(self) -> float:
        return sum(weight * part.value for weight, part in self.parts)

    def flipped(self, element: int) -> float:
        return sum(weight * part.flipped(element) for weight, part in self.parts)

    def flip(self, element: int) -> None:
        self.member[element] = not self.member[element]
        for _, part in self.parts:
            part.flip(element)


def double_greedy(small: Sum, large: Sum, order: Ints, uniform: Floats) -> Bools:
    """A set with a small value; `small` begins empty and `large` full, and both end as the set that is returned.

    Each element in turn joins the small set or leaves the large one, with probabilities in the ratio of what either
    would save; an element joins if neither would save anything.

    Args:
        small, large: the same function, begun at the empty and at the full set.
        order: `[n]`, the elements in the order in which they are looked at.
        uniform: `[n]`, numbers in [0, 1).

    Reference: chen-ch3, Algorithm 3, with the gains as section 4.7 corrects them
    """
    for element, lot in zip(order.tolist(), uniform.tolist(), strict=True):
        adding = max(small.value - small.flipped(element), 0.0)
        dropping = max(large.value - large.flipped(element), 0.0)
        joins = adding + dropping == 0 or lot < adding / (adding + dropping)
        (small if joins else large).flip(element)
    return small.member
