"""One network as one flat vector: the layout every engine, method and checkpoint agrees on.

The canonical order is that of `module.parameters()`, each parameter flattened row by row; running statistics follow as
a tail (`statistics`). Methods and engines see only the parameters; snapshots and messages hold the whole vector.
"""

import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from ..errors import BadInput
from .norms import NORMS, RunningNorm, adopt, batch_norms
from .statistics import NO_TAIL, Tail, freeze, is_tracking, places, refuse_unusable_buffers, tail_of

DRAWING = nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d  # draw random numbers whatever their settings
KNOWN = "torch.nn.", "fedcell.learn."  # where layers come from whose behaviour is known


@dataclass(frozen=True)
class Architecture:
    """A template module and where each of its parameters lies in the flat vector."""

    module: nn.Module
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    n_params: int
    tail: Tail = NO_TAIL

    @staticmethod
    def of(module: nn.Module, buffers: str = "average") -> "Architecture":
        """Lay out a module; refuses parameters and buffers that are not float32. `buffers` is `model.buffers`."""
        _refuse_unusable(module)
        template = deepcopy(module).cpu().train()
        adopt(template)
        if buffers == "frozen":
            freeze(template)
        return Architecture.around(template, buffers)

    @staticmethod
    def around(template: nn.Module, buffers: str = "average") -> "Architecture":
        """Lay out a module that nobody else uses, without a copy."""
        named = [(name, parameter) for name, parameter in template.named_parameters() if parameter.requires_grad]
        shapes = tuple(tuple(parameter.shape) for _, parameter in named)
        ends = [0]
        for shape in shapes:
            ends.append(ends[-1] + prod(shape))
        names = tuple(name for name, _ in named)
        tail = tail_of(template, buffers, dict(zip(names, pairwise(ends), strict=True)))
        return Architecture(template, names, shapes, tuple(ends[:-1]), ends[-1], tail)

    @property
    def n_own(self) -> int:
        """Length of a device's own row: its statistics, and the parameters that stay with them."""
        return len(self.tail.kept) + self.tail.n

    @property
    def stochastic(self) -> bool:
        """Whether layers of PyTorch draw random numbers in training (dropout)."""
        chances = {
            part.p if isinstance(part, _DropoutNd) else part.dropout
            for part in self.module.modules()
            if isinstance(part, _DropoutNd | nn.RNNBase | nn.MultiheadAttention)
        }
        return any(chance > 0 for chance in chances) or any(isinstance(part, DRAWING) for part in self.module.modules())

    @property
    def known(self) -> bool:
        """Whether all layers are PyTorch's or ours, so that what they do is known."""
        return all(type(part).__module__.startswith(KNOWN) for part in self.module.modules())

    @property
    def mixes_samples(self) -> bool:
        """Whether the scores of a sample depend on the batch that it is in (batch norm)."""
        return bool(batch_norms(self.module))

    @property
    def trains_on_batches(self) -> bool:
        """Whether training on a sample depends on its batch: by batch norm, or because running statistics move."""
        return self.mixes_samples or self.tail.n > 0

    @property
    def batchable(self) -> bool:
        """Whether running statistics can be moved for many models at once; not in norm classes of a user's own."""
        return all(isinstance(part, RunningNorm) for part in self.module.modules() if is_tracking(part))

    def replica(self, device: torch.device) -> nn.Module:
        """A private copy of the module on a device."""
        return deepcopy(self.module).to(device)

    def flat(self, module: nn.Module) -> Tensor:
        """The flat vector of a module's parameters, on the CPU."""
        return torch.cat([parameter.detach().reshape(-1).cpu() for parameter in trainable(module)])

    def whole(self, module: nn.Module) -> Tensor:
        """The flat vector of a module with its tail of statistics, on the CPU."""
        return torch.cat([self.flat(module), self.tail.of(module)]) if self.tail.n else self.flat(module)

    @torch.no_grad()
    def load(self, module: nn.Module, vector: Tensor, own: Tensor | None = None) -> None:
        """Copy the parameters and statistics of a vector into a private copy of the module.

        Args:
            module: of this architecture.
            vector: `[n_params]`, or whole, `[n_params + tail.n]`; a longer one is cut if the network has no tail.
            own: the own row of a device, `[n_own]`, which replaces those entries of the vector. If it is None and the
                vector has no tail, statistics are those that the network came with.
        """
        if self.tail.n and own is not None:
            vector = self.with_own(vector[: self.n_params], own)
        elif self.tail.n and len(vector) == self.n_params:
            vector = torch.cat([vector, self.tail.of(self.module).to(vector)])
        for parameter, value in zip(trainable(module), self.views(vector), strict=True):
            parameter.copy_(value)
        if self.tail.n:
            self.tail.put(module, vector[self.n_params :])

    def with_own(self, params: Tensor, own: Tensor) -> Tensor:
        """The whole vector made of parameters `[n_params]` and an own row."""
        kept = places(self.tail.kept, params.device)
        return torch.cat([params.index_copy(0, kept, own[: len(kept)]), own[len(kept) :]])

    def own_of(self, whole: Tensor) -> Tensor:
        """The own row that a whole vector contains, `[n_own]`."""
        kept = whole[places(self.tail.kept, whole.device)]
        return torch.cat([kept, whole[self.n_params :]])

    def frozen(self) -> list[Tensor]:
        """The parameters that nothing trains or sends."""
        return [parameter.detach() for parameter in self.module.parameters() if not parameter.requires_grad]

    def views(self, vector: Tensor) -> list[Tensor]:
        """The parameters as views into one flat vector in canonical order."""
        return [
            vector[start : start + prod(shape)].view(shape)
            for start, shape in zip(self.offsets, self.shapes, strict=True)
        ]

    def flops_per_sample(self, sample: Tensor, count: str = "products") -> float:
        """Floating-point operations of one forward pass, counted as `model.flops` says."""
        module = self.replica(torch.device("cpu")).eval()
        unroll(module)
        dense = _watch_dense(module) if count == "parameters" else {}
        total = _counted_by_layer(module, sample) if _is_plain(module) else _counted_by_torch(module, sample)
        for layer, counted in dense.items():  # products of a dense layer, once per token, become its parameters
            total -= counted - sum(p.numel() for p in layer.parameters())
        return total


def _is_plain(module: nn.Module) -> bool:
    """Whether all products are in dense layers and convolutions of PyTorch, in containers that only chain them."""
    whole = (nn.Sequential, nn.Linear, nn.Conv2d, *NORMS)  # norms have no products
    return all(
        type(part) in whole or (type(part).__module__.startswith("torch.nn.") and not [*part.parameters()])
        for part in module.modules()
    )


def _watch_dense(module: nn.Module) -> Counter[nn.Module]:
    """The operations of each dense layer, `2 n_in n_out` whenever it runs, filled as the module is called."""
    found: Counter[nn.Module] = Counter()

    def add(layer: nn.Linear, given: tuple[Tensor, ...], out: Tensor) -> None:
        found[layer] += 2 * out.numel() * layer.in_features

    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.register_forward_hook(add)
    return found


@torch.no_grad()
def _counted_by_layer(module: nn.Module, sample: Tensor) -> float:
    total = 0.0

    def add(layer: nn.Module, given: tuple[Tensor, ...], found: Tensor) -> None:
        nonlocal total
        assert isinstance(layer.weight, Tensor)
        total += 2.0 * found.numel() * layer.weight[0].numel()

    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            part.register_forward_hook(add)
    module(sample[None])
    return total


@torch.no_grad()
def _counted_by_torch(module: nn.Module, sample: Tensor) -> float:
    from torch.utils.flop_counter import FlopCounterMode  # takes a second to import

    with FlopCounterMode(display=False) as counter:
        module(sample[None])
    return float(counter.get_total_flops())


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that training moves, in canonical order."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def choose(module: nn.Module, names: str) -> nn.Module:
    """Freeze every parameter whose name does not match, as `model.train` says; `all` leaves the module as it is.

    Args:
        module: changed in place.
        names: `all`, or a regular expression that is searched for in names such as `0.weight`.
    """
    if names == "all":
        return module
    try:
        pattern = re.compile(names)
    except re.error as error:
        raise BadInput(f"model.train = {names!r} is no regular expression ({error}): write one, or all") from None
    found = dict(module.named_parameters())
    for name, parameter in found.items():
        parameter.requires_grad_(parameter.requires_grad and pattern.search(name) is not None)
    if not any(parameter.requires_grad for parameter in found.values()):
        some = ", ".join([*found][:6]) + ", ..." * (len(found) > 6)
        raise BadInput(f"model.train = {names!r} matches no parameter that could be trained: names are {some}")
    return module


def unroll(module: nn.Module) -> None:
    """Have built-in recurrent models compute by plain matrix products."""
    for part in module.modules():
        if hasattr(part, "unrolled"):
            part.unrolled = True  # type: ignore[assignment]


def _refuse_unusable(module: nn.Module) -> None:
    parameters = trainable(module)
    if not parameters:
        raise BadInput("the model has no trainable parameters: nothing could be learned")
    if any(is_lazy(part) for part in (*module.parameters(), *module.buffers())):
        raise BadInput("the model has lazy layers, whose sizes are not known yet: call it once on a sample first")
    for parameter in parameters:
        if parameter.dtype != torch.float32:
            raise BadInput(f"the model has {parameter.dtype} parameters: call model.float() first")
    refuse_unusable_buffers(module)
