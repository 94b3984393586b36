"""Dense layers with kernels of our own.

PyTorch's products took about twice as long on a processor of AMD's (`benchmarks/products.py`), and with 10 samples
finding out what to do next took as long as some of them. Here all kernels that follow each other are one call.
"""

import torch
from torch import Tensor, nn

from .kernels import Calls, Made, Slot
from .native import DENSE, Native, floats, library
from .native.vectors import WIDE_VECTORS, widest

MOST = 16  # samples up to which these kernels were quicker on processors with shorter vectors, too
WORTH = 100_000  # weights of dense layers from which on they are worth a compiler's time


def wins(chain: list[nn.Module], size: int) -> bool:
    """Whether the dense layers of a chain should be these, in this thread and for batches of a size.

    They have one core. PyTorch's kernels are left the large batches of a single client, which has every core.
    """
    n_weights = sum(part.weight.numel() for part in chain if isinstance(part, nn.Linear))
    if n_weights < WORTH or library(DENSE) is None:
        return False
    return size <= MOST or (torch.get_num_threads() == 1 and widest(DENSE) >= WIDE_VECTORS)


def dense(calls: Calls, x: Tensor, weight: Slot, bias: Slot | None, first: bool) -> Made:
    numbers = [len(x), weight.value.shape[1], weight.value.shape[0]]
    y = torch.empty(len(x), len(weight.value))
    calls.append(_native("dense", numbers, x, weight.value, None if bias is None else bias.value, y))

    def back(towards: Tensor) -> Tensor:
        found = torch.empty_like(x)
        if not first:
            calls.append(_native("dense_by_input", numbers, towards, weight.value, found))  # before the weight moves
        if weight.gradient is None:
            calls.append(_native("dense_moved", numbers, towards, x, weight.value, floats(-weight.lr)))
        else:
            calls.append(_native("dense_by_weight", numbers, towards, x, weight.gradient))
        if bias is not None:
            calls.append(_native("dense_by_bias", numbers, towards, bias.gradient))
        return found

    return y, back


def relu(calls: Calls, x: Tensor) -> Made:
    """In place, of rows of numbers."""
    calls.append(_native("relu", [x.numel()], x))

    def back(towards: Tensor) -> Tensor:
        calls.append(_native("relu_back", [x.numel()], towards, x))
        return towards

    return x, back


def error(calls: Calls, scores: Tensor, labels: Tensor, towards: Tensor) -> None:
    """The gradient of the mean cross-entropy by the scores."""
    calls.append(_native("class_error", list(scores.shape), scores, labels, towards))


def _native(kernel: str, numbers: list[int], *tensors: Tensor | None) -> Native:
    return Native(DENSE, kernel, numbers, *tensors)
