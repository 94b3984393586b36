"""The first layers of a chain of images, on blocks of samples whose numbers lie side by side in a vector.

A convolution includes the max-pool and the ReLU behind it. In each pass, one block after another goes through
all layers, so that what a layer writes is still in the cache of a core when the next one reads it.
"""

from functools import cache
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..kernels import Calls, Made, Slot, convolved
from . import LANES, Native, library
from .norms import HALF
from .pools import pair

WASTE = 1.3  # lanes per channel, or sample, above which vectors count as too empty


class Stage(NamedTuple):
    """A convolution and what follows it, with how many parts of a chain that is."""

    layer: nn.Conv2d
    pool: tuple[int, int] | None
    relu: bool
    n_parts: int


class _Room(NamedTuple):
    """The buffers of a stage: what every block keeps for the backward pass, and what all blocks share."""

    numbers: list[int]
    y: Tensor  # [n_blocks, *out, WIDEST]
    places: Tensor | None
    rows: Tensor | None  # of the convolution that a max-pool looks at
    sent: Tensor  # gradient by the output of the convolution
    towards: Tensor  # gradient by y


def stages(chain: list[nn.Module], shape: torch.Size) -> list[Stage]:
    """Return the layers at the beginning of a chain that work on blocks, for images of a shape."""
    found: list[Stage] = []
    at = 0
    while at < len(chain) and isinstance(layer := chain[at], nn.Conv2d):
        stage = _stage(layer, chain[at + 1 : at + 3])
        known = layer.groups == 1 and layer.dilation == (1, 1) and library(LANES) is not None
        if not known or not _wins(layer, shape, not found):
            break
        found.append(stage)
        shape, at = torch.Size([shape[0], *_out(stage, shape)]), at + stage.n_parts
        if not shape.numel():
            return []
    return found


def _stage(layer: nn.Conv2d, after: list[nn.Module]) -> Stage:
    size = pair(after[0].kernel_size) if after and isinstance(after[0], nn.MaxPool2d) else None
    after = after[size is not None :]
    relu = bool(after) and isinstance(after[0], nn.ReLU)
    return Stage(layer, size, relu, 1 + (size is not None) + relu)


def _wins(layer: nn.Conv2d, shape: torch.Size, first: bool) -> bool:
    """Whether blocks were measured to be quicker than channels-last images.

    They were if numbers of channels leave many lanes of vectors empty, even with few samples in a block. Otherwise they
    were only as first layers, which have few input channels, if samples fill the blocks.
    """
    narrow = [_waste(layer.out_channels)] * 2 + [_waste(layer.in_channels)] * (not first)  # there, weight, and back
    few = first and layer.in_channels < HALF and _waste(shape[0]) < WASTE
    return few or sum(narrow) > WASTE * len(narrow)


def _waste(n: int) -> float:
    """Lanes of the vectors that hold `n` numbers, over `n`."""
    size = block_size()
    return -(-n // size) * size / n


def _out(stage: Stage, shape: torch.Size) -> tuple[int, int, int]:
    _, channels, height, width = convolved(stage.layer, shape)
    high, wide = stage.pool or (1, 1)
    return channels, height // high, width // wide


@cache
def block_size() -> int:
    """Samples of a block."""
    found = library(LANES)
    assert found is not None
    return int(found.samples_of_a_block())


def layers(calls: Calls, x: Tensor, parts: list[Stage], slots: list[tuple[Slot, Slot | None]], flat: bool) -> Made:
    """Append all stages: from images that lie channels-first to rows (`flat`), or to channels-last images."""
    size = block_size()
    starts = range(0, len(x), size)
    shapes = [x.shape[1:]]
    for stage in parts:
        shapes.append(torch.Size(_out(stage, torch.Size([1, *shapes[-1]]))))
    rooms = [
        _room(stage, weight.value, before, after, len(starts))
        for stage, (weight, _), before, after in zip(parts, slots, shapes, shapes[1:], strict=False)
    ]
    begin = torch.zeros(len(starts), *shapes[0], size)
    seen = [begin, *(room.y for room in rooms)]
    y = torch.empty(len(x), *shapes[-1], memory_format=torch.contiguous_format if flat else torch.channels_last)
    for block, first in enumerate(starts):
        calls.append(_turned("block_in", x[first : first + size], begin[block], flat=True))
        for room, (weight, bias), image in zip(rooms, slots, seen, strict=False):
            places = None if room.places is None else room.places[block]
            pointers = (
                image[block],
                weight.value,
                None if bias is None else bias.value,
                room.y[block],
                places,
                room.rows,
            )
            calls.append(Native(LANES, "block_layer", room.numbers, *pointers))
        calls.append(_turned("block_out", y[first : first + size], rooms[-1].y[block], flat))

    def back(towards: Tensor) -> Tensor:
        found = towards.view(y.shape)
        if not flat and not found.is_contiguous(memory_format=torch.channels_last):
            found = torch.empty_like(y)
            calls.add(found.copy_, towards)
        for weight, bias in slots:
            assert weight.gradient is not None
            calls.add(weight.gradient.zero_)
            if bias is not None and bias.gradient is not None:
                calls.add(bias.gradient.zero_)
        for block, first in enumerate(starts):
            calls.append(_turned("block_in", found[first : first + size], rooms[-1].towards, flat))
            for place in range(len(parts) - 1, -1, -1):
                room, (weight, bias) = rooms[place], slots[place]
                places = None if room.places is None else room.places[block]
                by_bias = None if bias is None else bias.gradient
                pointers = room.towards, room.y[block], places, room.sent, by_bias
                calls.append(Native(LANES, "block_sent", room.numbers, *pointers))
                image = seen[place][block], room.sent, weight.gradient
                calls.append(Native(LANES, "block_by_weight", room.numbers, *image))
                if place:
                    source = room.sent, weight.value, rooms[place - 1].towards
                    calls.append(Native(LANES, "block_by_input", room.numbers, *source))
        return towards

    return y.flatten(1) if flat else y, back


def _room(stage: Stage, weight: Tensor, before: torch.Size, after: torch.Size, n_blocks: int) -> _Room:
    layer, size, (n_out, height, width) = stage.layer, block_size(), after
    assert isinstance(layer.padding, tuple)
    high, wide = stage.pool or (1, 1)
    steps = [weight.stride(axis) for axis in range(4)]
    made = height * high, width * wide
    how = *layer.kernel_size, *layer.stride, *layer.padding
    numbers = [*before, n_out, *how, *steps, *made, high, wide, stage.relu]
    y = torch.empty(n_blocks, *after, size)
    pooled = stage.pool is not None
    rows = torch.empty(n_out * high * made[1] * size) if pooled else None
    places = torch.empty_like(y) if pooled else None
    return _Room(numbers, y, places, rows, torch.empty(n_out * prod(made) * size), torch.empty(*after, size))


def _turned(kernel: str, samples: Tensor, block: Tensor, flat: bool) -> Native:
    """Copy samples to a block, or back; `flat` samples lie channels-first, as a block does, others channels-last."""
    n, channels, size = len(samples), samples.shape[1], block.shape[-1]
    pixels = samples[0, 0].numel()
    shape = [1, channels * pixels, 0, size] if flat else [pixels, channels, size, pixels * size]
    ends = (samples, block) if kernel == "block_in" else (block, samples)
    return Native(LANES, kernel, [n, *shape], *ends)
