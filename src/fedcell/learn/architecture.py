"""One network as one flat vector: the layout every engine, method and checkpoint agrees on.

The canonical order is that of `module.parameters()`, each parameter flattened row by row.
"""

import re
from copy import deepcopy
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from ..errors import BadInput
from .norms import NORMS, adopt, batch_norms


@dataclass(frozen=True)
class Architecture:
    """A template module and where each of its parameters lies in the flat vector."""

    module: nn.Module
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    n_params: int

    @staticmethod
    def of(module: nn.Module) -> "Architecture":
        """Lay out a module; refuses running statistics and parameters that are not float32."""
        _refuse_unusable(module)
        template = deepcopy(module).cpu().train()
        adopt(template)
        return Architecture.around(template)

    @staticmethod
    def around(template: nn.Module) -> "Architecture":
        """Lay out a module that nobody else uses, without a copy."""
        named = [(name, parameter) for name, parameter in template.named_parameters() if parameter.requires_grad]
        shapes = tuple(tuple(parameter.shape) for _, parameter in named)
        ends = [0]
        for shape in shapes:
            ends.append(ends[-1] + prod(shape))
        return Architecture(template, tuple(name for name, _ in named), shapes, tuple(ends[:-1]), ends[-1])

    @property
    def stochastic(self) -> bool:
        """Whether the forward pass itself draws random numbers (dropout)."""
        return any(isinstance(part, _DropoutNd) and part.p > 0 for part in self.module.modules())

    @property
    def mixes_samples(self) -> bool:
        """Whether what the network says of a sample depends on the batch that it is in (batch norm)."""
        return bool(batch_norms(self.module))

    def replica(self, device: torch.device) -> nn.Module:
        """A private copy of the module on a device."""
        return deepcopy(self.module).to(device)

    def flat(self, module: nn.Module) -> Tensor:
        """The flat vector of a module's parameters, on the CPU."""
        return torch.cat([parameter.detach().reshape(-1).cpu() for parameter in trainable(module)])

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
        total = _counted_by_layer(module, sample) if _is_plain(module) else _counted_by_torch(module, sample)
        if count == "parameters":  # 2 n_in n_out of a dense layer become its parameters
            dense = [part for part in module.modules() if isinstance(part, nn.Linear)]
            total -= sum(2 * part.weight.numel() - sum(p.numel() for p in part.parameters()) for part in dense)
        return total


def _is_plain(module: nn.Module) -> bool:
    """Whether dense layers and convolutions in sequence, each used as PyTorch has it, do all the products."""
    whole = (nn.Sequential, nn.Linear, nn.Conv2d, *NORMS)  # norms have no products
    return all(
        type(part) in whole or (type(part).__module__.startswith("torch.nn.") and not [*part.parameters()])
        for part in module.modules()
    )


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
    """Write recurrences out as matrix products where a built-in model can."""
    for part in module.modules():
        if hasattr(part, "unrolled"):
            part.unrolled = True  # type: ignore[assignment]


def _refuse_unusable(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if getattr(part, "track_running_stats", False) and getattr(part, "running_mean", None) is not None:
            raise BadInput(
                f"model layer {name!r} ({type(part).__name__}) keeps running statistics, which do not federate: "
                "use GroupNorm, or track_running_stats=False"
            )
    parameters = trainable(module)
    if not parameters:
        raise BadInput("the model has no trainable parameters: nothing could be learned")
    for parameter in parameters:
        if parameter.dtype != torch.float32:
            raise BadInput(f"the model has {parameter.dtype} parameters: call model.float() first")
