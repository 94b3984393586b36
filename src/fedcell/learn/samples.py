"""Training samples on the device that trains, gathered by index.

On a CPU they stay in their original array: a data set is often the largest thing in memory, and rearranging the images
of a batch takes far less time than training on them.
"""

import warnings
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..types import Ints


class Samples:
    """`x` and `y` of a data set; batches of images are channels-last in memory, which convolutions prefer."""

    owner: Ints | None = None  # [n_samples], the device that owns each, -1 for none; None: no sample has an owner
    inputs: NDArray[np.integer] | None = None  # [n_samples], equal numbers for equal x; None: all may differ

    def __init__(self, x: np.ndarray, y: np.ndarray, device: torch.device) -> None:
        self._images = x.ndim == 4
        self._turned = self._images and (device.type != "cpu" or x.shape[1] == 1)  # copied anyway, or in both orders
        rows = np.moveaxis(x, 1, -1) if self._turned else x
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of read-only arrays, such as mapped files: nobody writes
            self._rows = torch.from_numpy(np.ascontiguousarray(rows)).to(device)
        self.y = torch.from_numpy(np.ascontiguousarray(y)).to(device)
        self.labels = y  # or the targets of another task, as they came

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def n_labels(self) -> int:
        """One more than the largest label."""
        return int(self.labels.max()) + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, channels first."""
        shape = tuple(self._rows.shape[1:])
        return (shape[-1], *shape[:-1]) if self._turned else shape

    @cached_property
    def dtype(self) -> torch.dtype:
        """Type of the numbers that a network gets."""
        return self.take(np.zeros(1, dtype=np.int64))[0].dtype

    @property
    def rows(self) -> Tensor:
        """x of all samples, one after another; images lie channels-last on a GPU."""
        return self._rows

    @cached_property
    def flat(self) -> Tensor | None:
        """All x as a view, `[n_samples, n_in]`, channels first; None unless x is float32 on a CPU and y labels."""
        lies = type(self) is Samples and self._rows.is_cpu and self._rows.dtype == torch.float32
        return self._rows.view(len(self), -1) if lies and not self.y.is_floating_point() and self.y.dim() == 1 else None

    def take(self, index: Ints | Tensor) -> tuple[Tensor, Tensor]:
        """(x, y) of the samples at a flat index array; images come as channels-last views."""
        at = torch.as_tensor(index, device=self._rows.device)
        return self.at(at), self.y_at(at)

    def y_at(self, index: Tensor) -> Tensor:
        """y of the samples at an index tensor."""
        return self.y.index_select(0, index.reshape(-1)).reshape(*index.shape, *self.y.shape[1:])

    def user(self, index: Ints) -> Ints | None:
        """The owner of each sample of an index array, -1 for none; None if no sample has an owner."""
        return None if self.owner is None else self.owner[index]

    def at(self, index: Tensor) -> Tensor:
        """x of the samples at a flat index tensor."""
        rows = self._rows.index_select(0, index)
        if self._turned:
            return rows.movedim(-1, 1)
        return rows.contiguous(memory_format=torch.channels_last) if self._images else rows
