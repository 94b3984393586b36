"""Products of many small matrices at once, in the way that was measured to be quickest on a CPU.

If a side of the result is short, as with few classes or small batches, PyTorch's kernels take up to four times as
long as NumPy's. NumPy's are no match elsewhere, and spread large products over threads that the workers already use.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SHORT = 16  # rows or columns of a result up to which NumPy won
SMALL = 1 << 18  # multiplications of one product up to which NumPy stays in the calling thread


def product(left: Tensor, right: Tensor, plus: Tensor | None = None) -> Tensor:
    """`left @ right + plus` of float32 `[n, rows, inner]` and `[n, inner, columns]`, for each of the `n`."""
    if left.is_cpu:
        a, b = left.numpy(), right.numpy()
        rows, columns = a.shape[1], b.shape[2]
        if _is_small(a, b) and min(rows, columns) <= SHORT:
            found = torch.from_numpy(np.matmul(a, b))
            return found if plus is None else found.add_(plus)
        if columns < rows:  # PyTorch is quicker with the longer side last
            return product(right.mT, left.mT, None if plus is None else plus.mT).mT
    return torch.bmm(left, right) if plus is None else torch.baddbmm(plus, left, right)


def subtract_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    """`into -= left @ right`, in place."""
    if left.is_cpu:
        a, b = left.numpy(), right.numpy()
        if _is_small(a, b) and a.shape[1] <= SHORT and b.strides[2] == b.itemsize:
            into.sub_(torch.from_numpy(np.matmul(a, b)))
            return
    into.baddbmm_(left, right, alpha=-1.0)


def _is_small(a: NDArray[np.float32], b: NDArray[np.float32]) -> bool:
    _, inner, columns = b.shape
    return inner > 1 and a.shape[1] * inner * columns <= SMALL
