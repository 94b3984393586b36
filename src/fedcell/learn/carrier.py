"""The part of a learner that holds the current running statistics of models."""

from collections.abc import Callable
from copy import copy
from typing import Self

import torch
from torch import Tensor

from ..types import Ints
from .architecture import Architecture
from .statistics import Carried


class Carrier:
    """Networks, and the current running statistics of the first one, if it keeps any."""

    architectures: tuple[Architecture, ...]
    n_params: int
    device: torch.device
    carried: Carried | None = None  # None: every model has the statistics that the network came with
    judged: Callable[[Tensor], dict[str, float]] | None = None  # replaces `evaluate`, if devices have own statistics

    def initial(self, architecture: int = 0) -> Tensor:
        """The start vector `[n_params]`."""
        raise NotImplementedError

    def carrying(self, carried: Carried, judged: Callable[[Tensor], dict[str, float]] | None = None) -> Self:
        """A copy of the learner for models with these statistics; `judged` replaces its `evaluate`."""
        other = copy(self)
        other.carried, other.judged = carried, judged
        return other

    @property
    def n_own(self) -> int:
        """Length of a device's own row: its running statistics, and what stays with them; 0 for most networks."""
        return self.architectures[0].n_own

    @property
    def n_sent(self) -> int:
        """How many numbers of an update a device sends."""
        tail = self.architectures[0].tail
        return self.n_params + tail.n if tail.sent else self.n_params - len(tail.kept)

    def whole(self) -> Tensor:
        """The start vector with its tail of statistics, `[n_params + n_tail]`."""
        layout = self.architectures[0]
        return torch.cat([self.initial(), layout.tail.of(layout.module).to(self.device)])

    def own_of(self, device: int | None = None) -> Tensor | None:
        """The own row of a device, or of the shared model if `device` is None; None for networks without statistics."""
        if not self.n_own:
            return None
        carried = self._carried()
        return carried.common if device is None else carried.of_device(device)

    def _carried(self) -> Carried:
        return self.carried or Carried(self.architectures[0].own_of(self.whole()))

    def _numbered(self, device: Ints) -> Ints:
        """The numbers by which the statistics identify devices."""
        return device
