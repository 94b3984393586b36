"""Batches of test samples, and metrics: Top-M accuracy, and the spread of accuracy over devices."""

from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..rng import SETUP, stream
from ..types import Floats, Ints
from . import streams
from .samples import Samples

MIXED = 512  # most samples of a batch if the scores of each depend on the others
MOST = 2048  # most samples that a network evaluates at a time on a GPU
MOST_ON_CORE = 512  # the same on a CPU: small enough that every core gets some batches
LAYER_BYTES = 4 << 20  # most bytes of a layer's output on a CPU: larger outputs do not fit into the caches of a core


@torch.no_grad()
def samples_at_once(module: nn.Module, sample: Tensor) -> int:
    """How many samples to evaluate at a time; on a CPU a power of two, so that no layer has a very large output.

    Args:
        module: the network, on the device of the sample.
        sample: one sample, `[1, ...]`.
    """
    if not sample.is_cpu:
        return MOST
    largest = [1]

    def look(part: nn.Module, inputs: Any, output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        largest.extend(one.nbytes for one in outputs if isinstance(one, Tensor))

    hooks = [part.register_forward_hook(look) for part in module.modules()]
    with streams.lent():
        module(sample)
    for hook in hooks:
        hook.remove()
    return min(MOST_ON_CORE, 1 << max(LAYER_BYTES // max(largest), 1).bit_length() - 1)


@torch.no_grad()
def leaves_no_trace(module: nn.Module, sample: Tensor) -> bool:
    """Whether threads can share a network: a call changes neither the network nor a stream of random numbers.

    Args:
        module: the network.
        sample: one sample that the network takes, `[1, ...]`.
    """
    with streams.lent():
        held, counts = _held(module), _counts(module)
        module(sample)
        now = _held(module)
        return len(held) == len(now) and all(map(is_, held, now)) and counts == _counts(module)


def _held(module: nn.Module) -> list[Any]:
    """The attributes and buffers of all parts of a network."""
    return [value for part in module.modules() for value in (*vars(part).values(), *part._buffers.values())]


def _counts(module: nn.Module) -> list[Any]:
    """How often each buffer was written to, and the states of the random streams."""
    return [*(buffer._version for buffer in module.buffers()), *streams.stand(torch.device("cpu"))]


def mixed_batches(n_samples: int, seed: int) -> list[Ints]:
    """Split the sample numbers, in a random order fixed by the seed, into batches of about equal size.

    For networks whose scores of a sample depend on its batch. The order is random because test sets may be sorted by
    label. The batch size is fixed because results must not depend on how many samples fit into memory.
    """
    order = stream(seed, SETUP, "evaluation order").permutation(n_samples)
    return np.array_split(order, -(-n_samples // MIXED))


def places(scores: Tensor, y: Tensor) -> Tensor:
    """How many classes rank before the right one, `[n]`: 0 is a hit. Among equal scores the lower class ranks first.

    >>> places(torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0]]), torch.tensor([2, 1])).tolist()
    [1, 1]
    """
    own = scores.gather(1, y[:, None])
    lower = torch.arange(scores.shape[1], device=y.device) < y[:, None]
    return ((scores > own) | ((scores == own) & lower)).sum(1)


def top_columns(place: Ints, top: tuple[int, ...]) -> dict[str, float]:
    """Columns `top<M>`: how often the right class is among the M first.

    >>> top_columns(np.array([0, 0, 1, 7]), (1, 2, 8))
    {'top1': 0.5, 'top2': 0.75, 'top8': 1.0}
    """
    return {f"top{m}": float((place < m).mean()) for m in top}


def spread_columns(right: Floats, samples: Samples) -> dict[str, float]:
    """Column `accuracy_std`: standard deviation of accuracy over devices; none unless two devices own test samples.

    Args:
        right: 1 or 0 for every sample, in order.
        samples: the test samples, which know their owners.
    """
    owner = samples.user(np.arange(len(samples)))
    if owner is None:
        return {}
    known = owner >= 0
    devices, index = np.unique(owner[known], return_inverse=True)
    share = np.bincount(index, weights=right[known]) / np.bincount(index)
    return {"accuracy_std": float(share.std())} if len(devices) > 1 else {}
