"""Running statistics of a network: a tail of its flat vector that forward passes change, not gradients.

The tail holds every float32 buffer of `state_dict()`, in the order of `named_buffers()`, behind the parameters. Devices
send it with their updates (`model.buffers=average`), or keep it together with the scale and shift of norm layers
(`local`, as in FedBN). What belongs to a device is one *own row*: the values of those parameters, then the
tail. If the tail is sent, an own row is the tail alone.

Reference: Li, Jiang, Zhang, Kamp, Dou, FedBN: Federated Learning on Non-IID Features via Local Batch Normalization,
2021.
"""

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from ..errors import BadInput, ContractError
from ..types import Ints


class Tail(NamedTuple):
    """The layout of running statistics, and the parameters that stay with them; empty for most networks."""

    names: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    kept: tuple[int, ...] = ()  # entries of the flat vector that stay on the device with the tail; none if it is sent
    sent: bool = True  # whether devices send it

    @property
    def n(self) -> int:
        """Length of the tail."""
        return sum(map(prod, self.shapes))

    def split(self, rows: Tensor) -> list[Tensor]:
        """Split rows of tails `[..., n]` into buffers `[..., *shape]`."""
        parts = torch.split(rows, [prod(shape) for shape in self.shapes], dim=-1)
        return [part.reshape(*rows.shape[:-1], *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def put(self, module: nn.Module, row: Tensor) -> None:
        """Copy the statistics of a row `[n]` into a module that nobody else uses."""
        for name, value in zip(self.names, self.split(row), strict=True):
            owner, _, last = name.rpartition(".")
            module.get_submodule(owner)._buffers[last] = value.detach().clone()

    def take(self, module: nn.Module, row: Tensor) -> None:
        """Copy the statistics of a module into a row `[n]`; layers may have replaced their buffers by new tensors."""
        if self.names:
            row.copy_(self.of(module))

    def of(self, module: nn.Module) -> Tensor:
        """The statistics of a module, `[n]`."""
        found = dict(module.named_buffers())
        return torch.cat([torch.zeros(0), *(found[name].detach().reshape(-1).cpu() for name in self.names)])


NO_TAIL = Tail()


@lru_cache(maxsize=8)
def places(entries: tuple[int, ...], device: torch.device) -> Tensor:
    """Indices of vector entries as a tensor, cached."""
    return torch.tensor(entries, dtype=torch.int64, device=device)


def tail_of(module: nn.Module, buffers: str, offsets: dict[str, tuple[int, int]]) -> Tail:
    """The tail of a module, by the setting `model.buffers`.

    Args:
        module: a network whose buffers `refuse_unusable_buffers` accepted.
        buffers: average, local or frozen.
        offsets: first entry of every parameter, and the one behind its last.
    """
    if buffers == "frozen" or not (names := statistics(module)):
        return NO_TAIL
    known = dict(module.named_buffers())
    shapes = tuple(tuple(known[name].shape) for name in names)
    if buffers == "average":
        return Tail(names, shapes)
    kept = [offsets[name] for name in norm_parameters(module) if name in offsets]
    return Tail(names, shapes, tuple(entry for first, end in kept for entry in range(first, end)), sent=False)


def statistics(module: nn.Module) -> tuple[str, ...]:
    """The names of the buffers that form the tail: those of `state_dict()`, without the counters of batch norms."""
    saved = module.state_dict()
    return tuple(name for name, _ in module.named_buffers() if name in saved and not _is_counter(module, name))


def norm_parameters(module: nn.Module) -> list[str]:
    """The names of scale and shift of the norm layers that keep statistics."""
    norms = [(name, part) for name, part in module.named_modules() if is_tracking(part)]
    return [f"{name}.{own}".lstrip(".") for name, part in norms for own, _ in part.named_parameters(recurse=False)]


def freeze(module: nn.Module) -> None:
    """Have norm layers use their running statistics and never move them, in training too."""
    for part in module.modules():
        if is_tracking(part):
            part.training = False


def refuse_unusable_buffers(module: nn.Module) -> None:
    """Raise BadInput for buffers that cannot be averaged, in one sentence each."""
    for name, part in module.named_modules():
        if is_tracking(part) and getattr(part, "momentum", 0.0) is None:
            raise BadInput(
                f"model layer {name!r} ({type(part).__name__}) has momentum=None, whose statistics depend on a count "
                "of batches that does not federate: give it a momentum, such as 0.1"
            )
    for name in statistics(module):
        kind = module.get_buffer(name).dtype
        if kind != torch.float32:
            raise BadInput(
                f"model buffer {name!r} is {kind}, which cannot be averaged: make it float32, or register it with "
                "persistent=False if it never changes"
            )


def is_tracking(part: nn.Module) -> bool:
    """Whether a layer is a norm of PyTorch, or derived from one, that keeps running statistics."""
    return isinstance(part, _NormBase) and part.running_mean is not None


def _is_counter(module: nn.Module, name: str) -> bool:
    """Whether a buffer counts the batches of a norm, which matters only with momentum=None."""
    owner, _, last = name.rpartition(".")
    return last == "num_batches_tracked" and isinstance(module.get_submodule(owner), _NormBase)


class Carried:
    """The own rows of the models of a round: training starts from them and leaves new ones here.

    Args:
        common: `[n_own]`, the own row of the shared model.
        rows: `[n_rows, n_own]` of the devices that train; None: they all have the common one. A second training
            continues from the rows that the first left.
        device: `[n_rows]`, numbers of those devices, ascending; None: rows are in the order of the work.
        of_device: maps a device number to the row that the device predicts with; None: its row in `rows`, or `common`.
    """

    def __init__(
        self,
        common: Tensor,
        rows: Tensor | None = None,
        device: Ints | None = None,
        of_device: Callable[[int], Tensor] | None = None,
    ) -> None:
        self.common, self.device = common, device
        self.rows = None if rows is None else rows.clone()
        self.of_device = of_device or self._of_device
        self.left: Tensor | None = None  # rows that the last training left, if `rows` is None

    def begin(self, device: Ints) -> "OwnRows":
        """The own rows from which devices start, and the place for those that training leaves, now or later."""
        if self.rows is None:
            self.left = self.common.repeat(len(device), 1)
            return OwnRows(self.left.clone(), self.left, np.arange(len(device)))
        at = self.at(device)
        return OwnRows(self.rows[torch.from_numpy(at).to(self.rows.device)], self.rows, at)

    def _of_device(self, device: int) -> Tensor:
        if self.rows is None or self.device is None or device not in self.device:
            return self.common
        return self.rows[int(np.searchsorted(self.device, device))]

    def at(self, device: Ints) -> Ints:
        """The indices of devices in `rows`."""
        assert self.rows is not None
        at = np.arange(len(device)) if self.device is None else np.searchsorted(self.device, device)
        if len(at) > len(self.rows) or (self.device is not None and not np.isin(device, self.device).all()):
            raise ContractError(f"{len(device)} devices train and {len(self.rows)} were selected: train those alone")
        return at


class OwnRows(NamedTuple):
    """Own rows before training, `[n_rows, n_own]`, and where those after it go: `left[at]`."""

    before: Tensor
    left: Tensor
    at: Ints

    def some(self, rows: Ints) -> "OwnRows":
        """The same for some rows."""
        return OwnRows(self.before[torch.from_numpy(rows).to(self.before.device)], self.left, self.at[rows])

    def leave(self, after: Tensor) -> None:
        """Store the rows after training."""
        self.left[torch.from_numpy(self.at).to(self.left.device)] = after

    def after(self) -> Tensor:
        """The rows after training, `[n_rows, n_own]`."""
        return self.left[torch.from_numpy(self.at).to(self.left.device)]
