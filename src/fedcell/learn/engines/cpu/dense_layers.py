"""Dense layers with kernels of our own.

On an AMD processor PyTorch's products took about twice as long (`benchmarks/products.py`). With 10 samples, the
overhead between two kernels took as long as some of the kernels. Here consecutive kernels are one call.
"""

import torch
from torch import Tensor, nn

from .kernels import Calls, Made, Slot
from .native import DENSE, Native, floats, library
from .native.vectors import WIDE_VECTORS, widest

MOST = 16  # samples up to which these kernels were quicker on processors with shorter vectors, too
WORTH = 100_000  # weights of dense layers from which on they are worth a compiler's time


def wins(chain: list[nn.Module], size: int) -> bool:
    """Whether a chain should use these dense layers in this thread, for batches of `size` samples.

    These kernels use one core. PyTorch computes the large batches of a single client, which may use every core.
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
    """Apply a ReLU to rows of numbers, in place."""
    calls.append(_native("relu", [x.numel()], x))

    def back(towards: Tensor) -> Tensor:
        calls.append(_native("relu_back", [x.numel()], towards, x))
        return towards

    return x, back


def error(calls: Calls, scores: Tensor, labels: Tensor, towards: Tensor) -> None:
    """Append the kernel that writes the gradient of the mean cross-entropy by the scores to `towards`."""
    calls.append(_native("class_error", list(scores.shape), scores, labels, towards))


def _native(kernel: str, numbers: list[int], *tensors: Tensor | None) -> Native:
    return Native(DENSE, kernel, numbers, *tensors)
