"""Width-pruned sub-models: which entries of a flat vector belong to a unit, and what is left when units are dropped.

A *unit* is a filter of a convolution or a neuron of a dense layer: a row of weights, its bias, and its entries of a
batch norm behind the layer. Dropping it also takes away what it feeds, a block of columns of the next layer. The inputs
of the first layer and the class outputs are never dropped. An entry is kept if its row and its column are, so the
kept entries of the flat vector, in their order, are the flat vector of the small dense network.

Reference: chen-ch6, sections 2.1 and 2.2
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from ...errors import BadInput
from ...learn.architecture import Architecture
from ...learn.norms import BatchNorm
from ...types import Bools, Floats, Ints

PASSING = (nn.ReLU, nn.MaxPool2d, nn.Flatten)  # map a unit that is all zero to zero
MIXING = (nn.GroupNorm, nn.LayerNorm)  # their statistics are over the units of a layer


class Layer(NamedTuple):
    """One layer with weights, seen as `[n_out, n_in, block]`: what each unit takes from each unit before it."""

    place: int  # in the sequence
    weight: int  # where its weights begin in the flat vector
    vectors: tuple[int, ...]  # where its bias, and scale and shift of a norm, begin: a number for each unit
    n_out: int
    n_in: int
    block: int  # pixels of a kernel, or of an image that was flattened
    positions: int  # outputs of a unit per sample: pixels of its map, 1 for a neuron
    norm: int | None = None  # place of the batch norm behind it

    @property
    def weights(self) -> slice:
        """Where its weights lie in the flat vector."""
        return slice(self.weight, self.weight + self.n_out * self.n_in * self.block)


@dataclass(frozen=True)
class Units:
    """The layers of a network; all but the last have units that can be dropped."""

    architecture: Architecture
    layers: tuple[Layer, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of every layer that can be cut."""
        return tuple(layer.n_out for layer in self.layers[:-1])

    @property
    def n_units(self) -> int:
        """Units of all layers that can be cut."""
        return sum(self.sizes)

    @property
    def last_norm(self) -> int:
        """The last layer with a norm, by number, or 0: its norm hides how far the layers before it are cut."""
        return max((number for number, layer in enumerate(self.layers) if layer.norm is not None), default=0)

    def split(self, per_unit: np.ndarray) -> list[np.ndarray]:
        """`[..., n_units]` cut into one array per layer."""
        return np.split(per_unit, np.cumsum(self.sizes)[:-1], axis=-1) if self.sizes else []

    def counts(self, keep: Bools) -> Ints:
        """Kept units of every layer, `[n_rows, n_layers]`, from unit masks `[n_rows, n_units]`."""
        parts = [part.sum(axis=-1) for part in self.split(keep)]
        return np.stack(parts, axis=-1) if parts else np.zeros((len(keep), 0), dtype=np.int64)


# ---------------------------------------------------------------- the units of a network


@lru_cache(maxsize=16)
def units_of(architecture: Architecture, input_shape: tuple[int, ...]) -> Units:
    """The units of a plain sequence of dense and convolutional layers.

    Args:
        architecture: an `nn.Sequential` of Linear, Conv2d, BatchNorm, ReLU, MaxPool2d and Flatten, each used once.
        input_shape: of one sample, channels first.

    Raises:
        BadInput: for any other network, whose units are not rows of one layer and columns of the next.
    """
    parts = _sequence(architecture)
    positions = _positions(architecture, input_shape)
    where = dict(zip(architecture.names, architecture.offsets, strict=True))
    layers: list[Layer] = []
    for place, part in enumerate(parts):
        if isinstance(part, PASSING):
            continue
        vectors = tuple(where[name] for name in (f"{place}.weight", f"{place}.bias") if name in where)
        if isinstance(part, BatchNorm):
            layers[-1] = _normed(layers, part, place, vectors)
            continue
        shape = part.weight.shape
        n_in = layers[-1].n_out if layers else shape[1]
        n_out, block = shape[0], prod(shape[1:]) // n_in
        layers.append(Layer(place, vectors[0], vectors[1:], n_out, n_in, block, positions[place]))
    return Units(architecture, tuple(layers))


def _normed(layers: list[Layer], norm: BatchNorm, place: int, vectors: tuple[int, ...]) -> Layer:
    """The last layer with the norm added; raises BadInput if the norm does not scale the units of that layer."""
    if not layers or layers[-1].norm is not None or norm.num_features != layers[-1].n_out or not vectors:
        raise _cannot_cut("has a BatchNorm that does not scale the units of the one layer before it")
    return layers[-1]._replace(vectors=layers[-1].vectors + vectors, norm=place)


def _sequence(architecture: Architecture) -> list[Any]:
    """The parts of the network in the order of their use; raises BadInput if it cannot be cut."""
    module = architecture.module
    if not isinstance(module, nn.Sequential):
        raise _cannot_cut(f"is a {type(module).__name__}")
    parts = list(module)
    for part in parts:
        if isinstance(part, MIXING):
            raise BadInput(
                f"the model has a {type(part).__name__}, whose statistics mix kept and pruned units, so its units "
                "cannot be pruned: use model.norm=batch or none"
            )
        if not isinstance(part, (nn.Linear, nn.Conv2d, BatchNorm, *PASSING)):
            raise _cannot_cut(f"has a {type(part).__name__}")
        if isinstance(part, nn.Conv2d) and part.groups != 1:
            raise _cannot_cut(f"has a convolution in {part.groups} groups")
        if isinstance(part, nn.Flatten) and (part.start_dim, part.end_dim) != (1, -1):
            raise _cannot_cut("flattens some axes alone")
    weighted = [part for part in parts if not isinstance(part, PASSING)]
    n_params = sum(parameter.numel() for part in weighted for parameter in part.parameters())
    if n_params != architecture.n_params:
        raise _cannot_cut("uses a layer twice or holds some weights fixed")
    return parts


def _cannot_cut(why: str) -> BadInput:
    return BadInput(
        f"the model {why}, so its units cannot be pruned: use mlp, cnn or vgg11, "
        "or a Sequential of Linear, Conv2d, BatchNorm without running statistics, ReLU, MaxPool2d and Flatten"
    )


def _positions(architecture: Architecture, input_shape: tuple[int, ...]) -> list[int]:
    """Outputs of one unit of every part for one sample."""
    found, x = [], torch.zeros(1, *input_shape)
    with torch.no_grad():
        for part in architecture.module.children():
            x = part(x)
            found.append(prod(x.shape[2:]))
    return found


# ---------------------------------------------------------------- masks and counts


def entry_masks(units: Units, keep: Bools, device: torch.device, whole_rows: bool = False) -> Tensor:
    """Entries of the sub-models, bool `[n_rows, n_params]`: kept row and kept column.

    Args:
        units: of the network.
        keep: `[n_rows, n_units]`, units that stay.
        device: where the masks are made.
        whole_rows: take every column of a kept row, those of dropped inputs too.
    """
    n_rows = len(keep)
    masks = torch.empty(n_rows, units.architecture.n_params, dtype=torch.bool, device=device)
    kept = [torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in units.split(keep)]
    for number, layer in enumerate(units.layers):
        rows = kept[number] if number < len(kept) else torch.ones(n_rows, layer.n_out, dtype=torch.bool, device=device)
        entries = rows[:, :, None, None].expand(n_rows, layer.n_out, layer.n_in, layer.block)
        if number and not whole_rows:
            entries = entries & kept[number - 1][:, None, :, None]
        masks[:, layer.weights] = entries.flatten(1)
        for start in layer.vectors:
            masks[:, start : start + layer.n_out] = rows
    return masks


def kept_units(units: Units, masks: Tensor) -> Bools:
    """The unit masks `[n_rows, n_units]` behind entry masks: a unit stays if any entry of its row does."""
    parts = [torch.zeros(len(masks), 0, dtype=torch.bool)]
    for layer in units.layers[:-1]:
        if layer.vectors:
            parts.append(masks[:, layer.vectors[0] : layer.vectors[0] + layer.n_out])
        else:
            parts.append(masks[:, layer.weights].view(-1, layer.n_out, layer.n_in * layer.block).any(dim=2))
    return torch.cat([part.cpu() for part in parts], dim=1).numpy()


def load(units: Units, counts: Ints) -> tuple[Ints, Ints]:
    """Exact parameters, and floating-point operations of one forward pass, of sub-models.

    `sum_l rows x columns x block + biases`, scales and shifts, and two operations per multiply-add.

    Args:
        units: of the network.
        counts: `[..., n_layers]`, kept units of the layers that can be cut.

    Returns: `[...]` each.
    """
    n_params: Ints = np.zeros(counts.shape[:-1], dtype=np.int64)
    flops: Ints = np.zeros(counts.shape[:-1], dtype=np.int64)
    for number, layer in enumerate(units.layers):
        rows = counts[..., number] if number < counts.shape[-1] else np.int64(layer.n_out)
        columns = counts[..., number - 1] if number else np.int64(layer.n_in)
        weights = rows * columns * layer.block
        n_params += weights + rows * len(layer.vectors)
        flops += 2 * weights * layer.positions
    return n_params, flops


def importance(units: Units, params: Tensor, absolute: bool = True) -> Floats:
    """Score of every unit `[n_units]`: the sum of its weights, or of their magnitudes. Reference: chen-ch6, 5.1"""
    scores = [torch.zeros(0)]
    for layer in units.layers[:-1]:
        weights = params[layer.weights].view(layer.n_out, -1)
        scores.append((weights.abs() if absolute else weights).sum(dim=1).cpu())
    return torch.cat(scores).double().numpy()


# ---------------------------------------------------------------- small networks


def cut(units: Units, counts: Sequence[int], device: torch.device | None = None) -> Architecture:
    """Build the small dense network with `counts` units in its layers; its weights are not set.

    Args:
        units: of the full network.
        counts: kept units of the layers that can be cut, at least 1 each.
        device: where it is made; None: on the CPU.
    """
    if min(counts, default=1) < 1:
        raise ValueError(f"a layer of a sub-model keeps none of its units: {tuple(counts)}")
    parts: list[Any] = list(units.architecture.module.children())
    place = device or torch.device("cpu")
    for number, layer in enumerate(units.layers):
        n_out = int(counts[number]) if number < len(counts) else layer.n_out
        n_in = int(counts[number - 1]) if number else layer.n_in
        parts[layer.place] = _narrow(parts[layer.place], n_in * layer.block, n_in, n_out, place)
        if layer.norm is not None:
            parts[layer.norm] = _without_start(BatchNorm, n_out, eps=parts[layer.norm].eps, device=place)
    return Architecture.around(nn.Sequential(*parts))


def _narrow(part: nn.Module, n_inputs: int, n_in: int, n_out: int, device: torch.device) -> nn.Module:
    if isinstance(part, nn.Linear):
        return _without_start(nn.Linear, n_inputs, n_out, bias=part.bias is not None, device=device)
    assert isinstance(part, nn.Conv2d)
    return _without_start(
        nn.Conv2d,
        n_in,
        n_out,
        part.kernel_size,
        stride=part.stride,
        padding=part.padding,
        dilation=part.dilation,
        bias=part.bias is not None,
        padding_mode=part.padding_mode,
        device=device,
    )


def _without_start(kind: type[nn.Module], *sizes: Any, **settings: Any) -> nn.Module:
    """A layer whose weights are not set: quick, and no random numbers are drawn."""
    layer: nn.Module = skip_init(kind, *sizes, **settings)  # type: ignore[no-untyped-call]
    return layer
