"""The part of a learner that knows which running statistics models have at the moment."""

from collections.abc import Callable
from copy import copy
from typing import Self

import torch
from torch import Tensor

from ..types import Ints
from .architecture import Architecture
from .statistics import Carried


class Carrier:
    """Networks, of which the first may keep statistics, and what is carried of them."""

    architectures: tuple[Architecture, ...]
    n_params: int
    device: torch.device
    carried: Carried | None = None  # None: every model has the statistics that the network came with
    judged: Callable[[Tensor], dict[str, float]] | None = None  # evaluates instead, if devices have statistics

    def initial(self, architecture: int = 0) -> Tensor:
        """The start vector `[n_params]`."""
        raise NotImplementedError

    def carrying(self, carried: Carried, judged: Callable[[Tensor], dict[str, float]] | None = None) -> Self:
        """The same learner for models with these statistics."""
        other = copy(self)
        other.carried, other.judged = carried, judged
        return other

    @property
    def n_own(self) -> int:
        """Numbers of a device's own row: its running statistics, and what stays with them; 0 for most networks."""
        return self.architectures[0].n_own

    @property
    def n_sent(self) -> int:
        """Numbers of an update on the air."""
        tail = self.architectures[0].tail
        return self.n_params + tail.n if tail.sent else self.n_params - len(tail.kept)

    def whole(self) -> Tensor:
        """The start vector with its tail of statistics, `[n_params + n_tail]`."""
        layout = self.architectures[0]
        return torch.cat([self.initial(), layout.tail.of(layout.module).to(self.device)])

    def own_of(self, device: int | None = None) -> Tensor | None:
        """The own row that a device predicts with, or that of the shared model; None without statistics."""
        if not self.n_own:
            return None
        carried = self._carried()
        return carried.common if device is None else carried.of_device(device)

    def _carried(self) -> Carried:
        return self.carried or Carried(self.architectures[0].own_of(self.whole()))

    def _numbered(self, device: Ints) -> Ints:
        """The numbers that statistics know devices by."""
        return device
