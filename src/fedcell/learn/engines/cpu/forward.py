"""What a network says of batches, as lists of kernels on fixed buffers: evaluation by the kernels of training.

A list is traced once for every shape of batch and held to the module on another batch, as in training.
"""


import torch
from torch import Tensor

from ...architecture import Architecture, trainable
from .autograd import quickest
from .native import sequences
from .planned import altered
from .replay import Replay, WorkerRows
from .trace import CannotTraceError, Trace, record

APART = 1e-3  # distance over the norm from which on scores differ by more than rounding


class Forward:
    """The forward pass of a network, for shapes of batches that were prepared."""

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self._module = quickest(architecture.replica(torch.device("cpu")).eval()).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._statistics = {name: self._module.get_buffer(name) for name in architecture.tail.names}
        self._traces: dict[torch.Size, Trace | None] = {}
        self._waiting: dict[torch.Size, list[Replay]] = {}  # for a worker

    @property
    def wins(self) -> bool:
        """Whether a list of kernels may serve, and is worth a compiler's time."""
        return sequences.win(self.architecture.n_params) and not altered(self.architecture.module)

    def load(self, params: Tensor, own: Tensor | None) -> None:
        """Take parameters and statistics, as `Architecture.load` does, into the memory that the lists read."""
        self.architecture.load(self._module, params, own)
        for name, home in self._statistics.items():
            owner, _, last = name.rpartition(".")
            buffers = self._module.get_submodule(owner)._buffers
            buffers[last] = home.copy_(buffers[last])

    @torch.no_grad()
    def prepare(self, x: Tensor, other: Tensor) -> None:
        """Be ready for batches of a shape, if such a network can be a list of kernels.

        Args:
            x: a batch.
            other: another one of its shape, on which the list is held to the network.
        """
        if x.shape not in self._traces:
            try:
                self._traces[x.shape] = self._traced(x, other)
            except (CannotTraceError, RuntimeError, TypeError, ValueError, NotImplementedError):
                self._traces[x.shape] = None
        if self._traces[x.shape] is not None:
            self._waiting.setdefault(x.shape, [])

    def knows(self, x: Tensor) -> bool:
        """Whether batches like this one were prepared."""
        return x.shape in self._waiting

    def __call__(self, x: Tensor) -> Tensor:
        """The scores of a batch; several threads may call."""
        waiting = self._waiting[x.shape]
        try:
            replay = waiting.pop()
        except IndexError:
            trace = self._traces[x.shape]
            assert trace is not None
            replay = _replay(trace)
        found = _scores(replay, x)
        waiting.append(replay)
        return found

    def rest(self) -> None:
        """Give the memory of the batches back."""
        self._waiting.clear()

    def _traced(self, x: Tensor, other: Tensor) -> Trace:
        nothing = torch.zeros(1)

        def scores(x: Tensor, y: Tensor) -> tuple[Tensor]:
            return (self._module(x),)

        trace = record(scores, self._module, trainable(self._module), x, nothing, torch.zeros(1), {})
        wanted, found = self._module(other), _scores(_replay(trace), other)
        if not float((wanted - found).norm()) <= APART * float(wanted.norm()) and wanted.isfinite().all():
            raise CannotTraceError("its forward pass is no fixed list of kernels")
        return trace


def _replay(trace: Trace) -> Replay:
    size = trace.gradients[0].size
    with torch.inference_mode():
        found = torch.zeros(size)
        return Replay(trace, WorkerRows(torch.zeros(1), found.view(-1), [found], torch.zeros(0), True), [])


def _scores(replay: Replay, x: Tensor) -> Tensor:
    with torch.inference_mode():
        replay.x.copy_(x)
        replay.calls.run()
    return replay.rows.gradients[0].clone()
