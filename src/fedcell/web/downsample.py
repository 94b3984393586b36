"""Downsample a series while it grows: keep every n-th round, with an n that grows with the series."""

from typing import Any


class Downsampled:
    """Values by the number of rounds done, at most `limit` of them.

    The first round, the last one of the run and every `stride`-th are kept. The stride grows from 1 to `unit` (rounds
    between two evaluations, so that scores stay) and doubles from there.

    >>> series = Downsampled(limit=4, last=100)
    >>> for done in range(1, 11):
    ...     series.put(done, done)
    >>> series.stride, [done for done, _ in series.items]
    (4, [1, 4, 8])
    """

    def __init__(self, limit: int, last: int, unit: int = 1) -> None:
        self.limit, self.last, self.unit = max(limit, 2), last, unit
        self.stride = 1
        self.items: list[tuple[int, Any]] = []

    def put(self, done: int, value: Any) -> None:
        """Add the value after `done` rounds if that round is kept."""
        if self._keeps(done):
            self.items.append((done, value))
        while len(self.items) > self.limit and self.stride < self.last:
            self.stride = self.unit if self.stride < self.unit else 2 * self.stride
            self.items = [item for item in self.items if self._keeps(item[0])]

    def _keeps(self, done: int) -> bool:
        return done in (1, self.last) or done % self.stride == 0
