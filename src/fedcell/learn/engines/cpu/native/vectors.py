"""What kernels of rows need from the processor and from tensors."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from . import SEQUENCES, library

# kernels of our own, which traces may hold beside PyTorch's
OWN: Any = torch.library.Library("fedcell", "FRAGMENT")  # type: ignore[no-untyped-call]
ROOM = 65536 + 512 * 16  # numbers in the room of a product, as products.h has it
WIDE_VECTORS = 16  # numbers in the vectors of processors on which these products were quicker than PyTorch's


@cache
def widest(file: str = SEQUENCES) -> int:
    """Numbers in the longest vectors of the processor, as the kernels of a file have them."""
    found = library(file)
    assert found is not None
    return int(found.widest())


def are_floats(*tensors: Tensor | None) -> bool:
    return all(one is None or (one.dtype == torch.float32 and one.device.type == "cpu") for one in tensors)


def are_whole(*tensors: Tensor | None) -> bool:
    """Whether tensors are float32 numbers that lie one after another."""
    return are_floats(*tensors) and all(one is None or one.is_contiguous() for one in tensors)


def lie_alike(*tensors: Tensor) -> bool:
    """Whether tensors are float32 numbers without gaps, each number in the same place of all of them."""
    first, steps = tensors[0], tensors[0].stride()
    order = sorted(range(first.dim()), key=lambda axis: -steps[axis])
    alike = all(one.shape == first.shape and one.stride() == steps for one in tensors)
    return alike and are_floats(*tensors) and first.permute(order).is_contiguous()
