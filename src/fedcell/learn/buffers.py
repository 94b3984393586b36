"""Large float32 matrices that are reused instead of being allocated every round.

Touching fresh memory can cost more than training on it: the updates of 100 clients of a 2-million
parameter model are 850 MiB a round. If memory is short they lie in a mapped file.
"""

import sys

import numpy as np
import torch
from torch import Tensor

from .memory import numbers

FREE = 2  # references to an array that no tensor holds: the attribute, and the argument of getrefcount()


class Buffers:
    """Hands out matrices over one kept array, unless somebody still holds a tensor over it.

    A tensor made from an array keeps the array referenced for as long as any view of the tensor lives,
    so a caller that keeps rows of an update is never overwritten; it just makes the next call allocate.
    """

    def __init__(self) -> None:
        self._kept = np.empty(0, dtype=np.float32)

    def matrix(self, rows: int, columns: int) -> Tensor:
        """An uninitialised `[rows, columns]` tensor on the CPU."""
        if self._kept.size < rows * columns or sys.getrefcount(self._kept) > FREE:
            self._kept = np.empty(0, dtype=np.float32)  # freed before the next is allocated
            self._kept = numbers(rows * columns, f"the updates of {rows} devices ({rows} x {columns} parameters x 4)")
        return torch.from_numpy(self._kept)[: rows * columns].view(rows, columns)
