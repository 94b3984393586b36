"""The memory layout of a row of parameters while it trains on a CPU, and its update step."""

from collections.abc import Callable
from math import prod

from torch import Tensor

from ...architecture import Architecture
from ...work import Work
from ..update import Parts, Rule, Terms, direction, move


class RowLayout:
    """Moves 4-D weights between canonical order and channels-last order inside flat rows."""

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self._segments = [
            (start, shape)
            for start, shape in zip(architecture.offsets, architecture.shapes, strict=True)
            if len(shape) == 4 and shape[1] > 1 and prod(shape[2:]) > 1
        ]

    def pack(self, rows: Tensor) -> Tensor:
        """Return a channels-last copy of canonical rows; the rows themselves if both orders are the same."""
        rows = rows.clone() if self._segments else rows
        for start, (out, channels, height, width) in self._segments:
            part = rows[:, start : start + out * channels * height * width]
            part.copy_(part.reshape(-1, out, channels, height, width).permute(0, 1, 3, 4, 2).reshape(part.shape))
        return rows

    def unpack(self, rows: Tensor) -> None:
        """Channels-last to canonical, in place, row by row to stay small."""
        for start, (out, channels, height, width) in self._segments:
            for part in rows[:, start : start + out * channels * height * width]:
                part.copy_(part.reshape(out, height, width, channels).permute(0, 3, 1, 2).reshape(-1))

    def views(self, row: Tensor) -> list[Tensor]:
        """The parameters as views into a packed row."""
        packed = {start for start, _ in self._segments}
        views = self.architecture.views(row)
        for position, (start, view) in enumerate(zip(self.architecture.offsets, views, strict=True)):
            if start in packed:
                out, channels, height, width = view.shape
                views[position] = view.view(out, height, width, channels).permute(0, 3, 1, 2)
        return views


class Step:
    """The update rule on the packed row of a client.

    Args:
        work: what to train, with the mask and the shift of every row.
        row: the row of this client.
        cut: splits a packed row into the parts that the rule moves.
        weights: the packed row that moves.
        start: the packed row that training starts from.
        layout: packs the mask and the shift.
    """

    def __init__(
        self,
        work: Work,
        row: int,
        cut: Callable[[Tensor], list[Tensor]],
        weights: Tensor,
        start: Tensor,
        layout: RowLayout,
    ) -> None:
        self.rule, self.lr, self.parts = Rule.of(work), work.lr, cut(weights)

        def packed(values: Tensor | None) -> list[Tensor]:
            if values is None:
                return []
            chosen = values if values.dim() == 1 else values[row]
            return cut(layout.pack(chosen.to(start)[None])[0])

        self.terms = Terms(cut(start) if work.prox else [], packed(work.shift), packed(work.mask))
        self.memory, self.done = self.rule.memory(self.parts), 0

    def apply(self, gradients: Parts) -> None:
        """Take one step, given the gradients of the parts."""
        if self.parts:
            against, self.memory = direction(
                self.rule, gradients, self.parts, self.terms, self.memory, self.done, by_row=False
            )
            move(self.parts, against, self.lr)
            self.done += 1
