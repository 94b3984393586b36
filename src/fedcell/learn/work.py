"""The local training that a method asks an engine for."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..types import Ints, Store
from .optimiser import Optimiser

Objective = Callable[[nn.Module, Tensor, Tensor, Tensor | None], Tensor]
Report = Callable[[nn.Module, Tensor, Tensor], Tensor]  # a trained network, all samples of its device -> numbers
Rule = Callable[[int, nn.Module, Iterator[tuple[Tensor, Tensor]]], None]


class Work(NamedTuple):
    """Local training of a cohort, one row per trained device.

    Each step moves the entries whose `mask` is true by
    `-lr * v`, `v = momentum * v + gradient + shift + prox * (w - w_start)`, with `v = 0` at the start.
    The `optimiser` adds weight decay and clipping, or replaces momentum by AdamW.
    """

    device: Ints  # [n_rows], keys the mini-batch draws
    store: Store  # n_rows rows, none empty
    steps: Ints  # [n_rows], at least 1
    lr: float
    batch_size: int  # 0: the whole store in every step
    round: int
    momentum: float = 0.0
    prox: float = 0.0
    mask: Tensor | None = None  # bool, [n_params] or [n_rows, n_params]
    objective: Objective | None = None  # None: mean cross-entropy
    shift: Tensor | None = None  # [n_rows, n_params], a constant gradient of each row, added in every step
    rule: Rule | None = None  # trains a module instead of the step above: (device, module, its mini-batches)
    optimiser: Optimiser = Optimiser()
    augment: bool = False  # change samples at random as `train.augment` says, anew in every step
    report: Report | None = None  # devices send this of their models and keep the models; None: they send updates

    @property
    def plain(self) -> bool:
        """Whether a step is just `w -= lr * gradient` of the mean cross-entropy."""
        changed = self.mask is not None or self.shift is not None or self.objective is not None
        return self.momentum == 0 and self.prox == 0 and self.optimiser == Optimiser() and not changed


KNOWN: dict[str, Callable[..., Tensor]] = {}  # objectives and reports that real devices know, by full name
Function = TypeVar("Function", bound=Callable[..., Tensor])


def known_to_devices(function: Function) -> Function:
    """Let methods whose objective or report is a `partial` of this function train on real devices, too.

    Devices load the module of a method of fedcell by its name; a module of your own must be imported there.
    """
    KNOWN[full_name(function)] = function
    return function


def full_name(function: Callable[..., Tensor]) -> str:
    """The key of a function in `KNOWN`, its module and name; empty for an object that has neither."""
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}".strip(".")


def cross_entropy(module: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
    """Cross-entropy of a batch, averaged, or summed with `weight` if the batch is padded.

    An objective is any function with these arguments; `weight` sums to one and is zero on padding. Here `y` may also
    hold a row of label shares for every `x`; all shares of a batch together sum to one.
    """
    scores = module(x)
    if y.is_floating_point():
        return -(y * scores.log_softmax(1)[:, : y.shape[1]]).sum()
    if weight is None:
        return functional.cross_entropy(scores, y)
    return (functional.cross_entropy(scores, y, reduction="none") * weight).sum()


def rounded(objective: Objective | None, device: str) -> Objective:
    """The objective with products in bfloat16 on that kind of device (cpu, cuda); a `partial` stays a `partial`."""
    if objective is None:
        return partial(_in_bfloat16, device, cross_entropy)
    if isinstance(objective, partial) and not objective.keywords:
        return partial(_in_bfloat16, device, objective.func, *objective.args)
    return lambda *given: _in_bfloat16(device, objective, *given)


def _in_bfloat16(device: str, objective: Callable[..., Tensor], *given: Any) -> Tensor:
    with torch.autocast(device, torch.bfloat16, cache_enabled=False):
        return objective(*given)


def rows_of(work: Work, rows: Ints, n_params: int | None = None) -> Work:
    """The same work for some rows and the first `n_params` entries."""
    mask, shift, place = work.mask, work.shift, torch.from_numpy(rows)
    if mask is not None:
        mask = mask[:n_params] if mask.dim() == 1 else mask[place, :n_params]
    if shift is not None:
        shift = shift[place, :n_params]
    store = work.store._replace(items=work.store.items[rows], size=work.store.size[rows])
    return work._replace(device=work.device[rows], steps=work.steps[rows], store=store, mask=mask, shift=shift)
