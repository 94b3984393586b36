"""Which test samples are judged together, and metrics: Top-M accuracy, and the spread of accuracy over devices."""

from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..rng import SETUP, stream
from ..types import Floats, Ints
from . import streams
from .samples import Samples

MIXED = 512  # samples of a batch at most if each has a part in the scores of the others
MOST = 2048  # samples that are put to a network at a time on a GPU
MOST_ON_CORE = 512  # on a CPU, so that all cores have some
LAYER_BYTES = 4 << 20  # of the output of a layer on a CPU: larger ones leave the caches of a core


@torch.no_grad()
def samples_at_once(module: nn.Module, sample: Tensor) -> int:
    """How many samples to put to a network at a time: a power of two, so that the output of no layer is very large.

    Args:
        module: the network, on the device of the sample.
        sample: one of them, `[1, ...]`.
    """
    if not sample.is_cpu:
        return MOST
    largest = [1]

    def look(part: nn.Module, inputs: Any, output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        largest.extend(one.nbytes for one in outputs if isinstance(one, Tensor))

    hooks = [part.register_forward_hook(look) for part in module.modules()]
    module(sample)
    for hook in hooks:
        hook.remove()
    return min(MOST_ON_CORE, 1 << max(LAYER_BYTES // max(largest), 1).bit_length() - 1)


@torch.no_grad()
def leaves_no_trace(module: nn.Module, sample: Tensor) -> bool:
    """Whether threads can share a network: a call changes neither the network nor a stream of random numbers.

    Args:
        module: the network.
        sample: one of those that it takes, `[1, ...]`.
    """
    held, counts = _held(module), _counts(module)
    module(sample)
    now = _held(module)
    return len(held) == len(now) and all(map(is_, held, now)) and counts == _counts(module)


def _held(module: nn.Module) -> list[Any]:
    """What modules have as attributes and buffers."""
    return [value for part in module.modules() for value in (*vars(part).values(), *part._buffers.values())]


def _counts(module: nn.Module) -> list[Any]:
    """How often buffers were written to, and where streams of random numbers stand."""
    return [*(buffer._version for buffer in module.buffers()), *streams.stand(torch.device("cpu"))]


def mixed_batches(n_samples: int, seed: int) -> list[Ints]:
    """Sample numbers in a fixed random order, in batches of about equal size that depend on nothing else.

    For networks whose scores of a sample depend on the batch: test sets may be sorted by label, and how many samples
    fit into memory must not show in the results.
    """
    order = stream(seed, SETUP, "evaluation order").permutation(n_samples)
    return np.array_split(order, -(-n_samples // MIXED))


def places(scores: Tensor, y: Tensor) -> Tensor:
    """How many classes stand before the right one, `[n]`: 0 is a hit; of equal scores the lower class is first.

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
    """Column `accuracy_std`, the standard deviation over the devices, if test samples belong to devices.

    Args:
        right: 1 or 0 for every sample, in order.
        samples: whose they are.
    """
    owner = samples.user(np.arange(len(samples)))
    if owner is None:
        return {}
    known = owner >= 0
    devices, index = np.unique(owner[known], return_inverse=True)
    share = np.bincount(index, weights=right[known]) / np.bincount(index)
    return {"accuracy_std": float(share.std())} if len(devices) > 1 else {}
