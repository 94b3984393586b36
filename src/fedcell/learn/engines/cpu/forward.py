"""Evaluate a network by lists of kernels on fixed buffers, those of training.

Chains with few channels work on blocks of samples. Any other network is traced once for every shape of batch. Both are
checked against the module on another batch.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ....machine import one_thread
from ...architecture import Architecture, trainable
from . import dense_layers, planned
from .autograd import quickest
from .kernels import Calls, Slot
from .native import gathered, lanes, sequences
from .replay import Replay, WorkerRows
from .trace import CannotTraceError, Trace, record
from .traced import alike

APART = 1e-3  # distance over the norm from which on scores differ by more than rounding


class Prepared(NamedTuple):
    """Kernels with their buffers, for one worker."""

    x: Tensor
    calls: Calls
    scores: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            self.x.copy_(x)
            self.calls.run()
        return self.scores.clone()


Maker = Callable[[], Prepared]


class Forward:
    """The forward pass of a network, for shapes of batches that were prepared."""

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self._module = quickest(architecture.replica(torch.device("cpu")).eval())
        for parameter in self._module.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        self._statistics = {name: self._module.get_buffer(name) for name in architecture.tail.names}
        self._makers: dict[torch.Size, Maker | None] = {}
        self._waiting: dict[torch.Size, list[Prepared]] = {}  # lists that no thread uses

    @property
    def wins(self) -> bool:
        """Whether lists of kernels may stand for the network, and it is large enough to be worth compiling kernels."""
        return sequences.win(self.architecture.n_params) and not planned.altered(self.architecture.module)

    def load(self, params: Tensor, own: Tensor | None) -> None:
        """Copy parameters and statistics, given as to `Architecture.load`, into the memory that the lists read."""
        self.architecture.load(self._module, params, own)
        for name, home in self._statistics.items():
            owner, _, last = name.rpartition(".")
            layer = self._module.get_submodule(owner)
            layer._buffers[last] = home.copy_(layer.get_buffer(last))

    @torch.no_grad()
    def prepare(self, shape: torch.Size, batches: Callable[[], tuple[Tensor, Tensor]]) -> None:
        """Prepare lists of kernels for batches of a shape, if the network can be one.

        Args:
            shape: the shape of a batch.
            batches: gives two batches, called when a shape comes first: one makes the list, the other checks it.
        """
        if shape not in self._makers:
            self._makers[shape] = self._maker(*batches())
        if self._makers[shape] is not None:
            self._waiting.setdefault(shape, [])

    def knows(self, x: Tensor) -> bool:
        """Whether batches like this one were prepared."""
        return x.shape in self._waiting

    def __call__(self, x: Tensor) -> Tensor:
        """The scores of a batch; several threads may call."""
        waiting, make = self._waiting[x.shape], self._makers[x.shape]
        assert make is not None
        try:
            listed = waiting.pop()
        except IndexError:
            listed = make()
        found = listed(x)
        waiting.append(listed)
        return found

    def rest(self) -> None:
        """Release the memory of all lists."""
        self._waiting.clear()

    def _maker(self, x: Tensor, other: Tensor) -> Maker | None:
        """Return what makes lists for batches like `x`; None if they would not give the scores of the network."""
        try:
            with one_thread():  # as workers have it
                make = self._by_blocks(x.shape) or partial(_replayed, self._traced(x))
                wanted, found = self._module(other), make()(other)
        except (CannotTraceError, RuntimeError, TypeError, ValueError, NotImplementedError):
            return None
        return make if alike(wanted, found, APART) else None

    def _by_blocks(self, shape: torch.Size) -> Maker | None:
        layers = planned.layers_of(self.architecture, len(shape) - 1)
        if layers is None or not lanes.stages(layers, shape):
            return None
        return partial(_chained, layers, [one.detach() for one in trainable(self._module)], shape)

    def _traced(self, x: Tensor) -> Trace:
        def scores(x: Tensor, y: Tensor) -> tuple[Tensor]:
            return (self._module(x),)

        nothing = torch.zeros(1)
        return record(scores, self._module, trainable(self._module), x, nothing, torch.zeros(1), {})


@torch.inference_mode()
def _chained(layers: list[nn.Module], parameters: list[Tensor], shape: torch.Size) -> Prepared:
    """Make the list of a chain of known layers."""
    n, *sample = shape
    calls, x = Calls(), planned.room(layers[0], tuple(sample), n).zero_()
    slots = [Slot(one, None, 0.0) for one in parameters]
    scores, _ = planned.forward(calls, x, layers, slots, dense_layers.wins(layers, n))
    return Prepared(x, gathered(calls), scores)


@torch.inference_mode()
def _replayed(trace: Trace) -> Prepared:
    """Make the list of a traced forward pass."""
    scores = torch.zeros(trace.gradients[0].size)
    rows = WorkerRows(torch.zeros(1), scores.view(-1), [scores], torch.zeros(0), True)
    replay = Replay(trace, rows, [])
    return Prepared(replay.x, replay.calls, scores)
