"""Chains of known layers, trained without autograd: a step is a list of kernel calls that was made once.

Buffers, views and the order of the kernels depend on the network and the size of a batch alone. A worker makes them
once for all its clients, whose parameters it copies into a row of its own. Otherwise small networks spend a good part
of a step on overhead between kernels.
"""

from collections.abc import Iterator, Sequence
from math import prod

import torch
from torch import Tensor, nn

from ...architecture import Architecture
from ..common import Job
from . import dense_layers
from .kernels import Back, Calls, Slot, convolution, dense, flatten, relu
from .native import chain as native_chain
from .native import gathered, lanes
from .native.pools import pair
from .row_client import RowClient, spans_without
from .steps import RowLayout

WIDE = 100_000  # weights of a layer from which on its kernels take nearly all the time
GRAIN = 8  # sizes of plans for batches of distinct inputs are multiples of this


def chain_of(job: Job) -> list[nn.Module] | None:
    """Return the layers of a job's network in the order they run; None if a plan cannot train the job."""
    plain = job.device.type == "cpu" and job.work.objective is None and job.tail is None
    return layers_of(job.architecture, len(job.samples.shape)) if plain else None


def layers_of(architecture: Architecture, n_axes: int) -> list[nn.Module] | None:
    """Return a network's layers in the order they run; None unless it is a chain of known layers for `n_axes` axes."""
    if type(architecture.module) is not nn.Sequential or altered(architecture.module):
        return None
    chain = list(_parts(architecture.module))
    n_used = sum(len(list(part.parameters())) for part in chain)
    if n_used != len(architecture.names) or not _follows(chain, n_axes):  # frozen, or used twice
        return None
    for place in range(1, len(chain)):  # the ReLU gives the same behind the pool, with fewer values
        if type(chain[place]) is nn.MaxPool2d and type(chain[place - 1]) is nn.ReLU:
            chain[place - 1 : place + 1] = chain[place], chain[place - 1]
    return chain


def altered(module: nn.Module) -> str:
    """Say which layer of a network does other things than its class does (hooks, a script); empty if none."""
    for name, part in module.named_modules():
        hooks = part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks
        if any(hooks) or "forward" in vars(part):
            return f"the layer {name or 'network'!r} has hooks or a forward of its own"
        if isinstance(part, torch.jit.ScriptModule):
            return f"the layer {name or 'network'!r} is a script"
    return ""


def _parts(module: nn.Sequential) -> Iterator[nn.Module]:
    for part in module:
        if type(part) is nn.Sequential:
            yield from _parts(part)
        elif type(part) is not nn.Identity:
            yield part


def _follows(chain: list[nn.Module], n_axes: int) -> bool:
    """Whether plans support every layer with its settings, and each gets the images or rows that it needs."""
    images = n_axes == 3
    for part in chain:
        if type(part) is nn.Flatten:
            known = (part.start_dim, part.end_dim) == (1, -1)
            images = False
        elif type(part) is nn.Conv2d:
            known = images and part.padding_mode == "zeros" and not isinstance(part.padding, str)
            known = known and part.weight.numel() < WIDE  # a plan saves little time with large ones
        elif type(part) is nn.MaxPool2d:
            known = images and _simple(part)
        elif type(part) is nn.Linear:
            known = not images and n_axes in (1, 3)
        else:
            known = type(part) is nn.ReLU
        if not known:
            return False
    return bool(chain) and type(chain[-1]) is nn.Linear


def _simple(pool: nn.MaxPool2d) -> bool:
    """Whether the windows of a pool lie side by side and cover no padding."""
    kernel = pair(pool.kernel_size)
    return (
        kernel == pair(pool.stride)
        and pair(pool.padding) == (0, 0)
        and pair(pool.dilation) == (1, 1)
        and not (pool.ceil_mode or pool.return_indices)
    )


class PlannedClient(RowClient):
    """A worker that trains a chain of known layers by plans, one for each size of batch."""

    def __init__(self, job: Job, layout: RowLayout, chain: list[nn.Module]) -> None:
        super().__init__(job, layout)
        self.chain = chain
        self.weights, self.gradient = (torch.empty(job.architecture.n_params) for _ in range(2))
        shapes = job.architecture.shapes  # a wide weight moves in the backward pass of a plain step: no gradient of it
        wide = [at for at, shape in enumerate(shapes) if job.work.plain and len(shape) == 2 and prod(shape) >= WIDE]
        self.spans = spans_without(job.architecture, wide)
        every = zip(layout.views(self.weights), layout.views(self.gradient), strict=True)
        self.slots = [
            Slot(value, None if at in wide else gradient, job.work.lr) for at, (value, gradient) in enumerate(every)
        ]
        self._plans: dict[tuple[int, bool], _Plan] = {}

    def backward(self, x: Tensor, y: Tensor) -> None:
        self._planned(x, y).backward(x, y)

    def _planned(self, x: Tensor, y: Tensor) -> "_Plan":
        """The plan for a batch; batches of distinct inputs have many sizes, which share a few plans."""
        shared = y.is_floating_point()
        size = -(-len(x) // GRAIN) * GRAIN if shared else len(x)
        if (size, shared) not in self._plans:
            if not shared:
                self._plans.clear()  # one at a time: devices that train on whole stores have many sizes
            self._plans[size, shared] = _Plan(self.chain, self.slots, self.job.samples.shape, size, shared)
        return self._plans[size, shared]


class _Plan:
    """The kernels of one gradient of the mean cross-entropy of a batch.

    With `shared`, `y` holds a row of label shares for every input, and a batch may be smaller than `size`.
    """

    def __init__(
        self, chain: list[nn.Module], slots: list[Slot], shape: tuple[int, ...], size: int, shared: bool
    ) -> None:
        self._calls, self._shared, native = Calls(), shared, dense_layers.wins(chain, size)
        self.x = room(chain[0], shape, size).zero_()
        scores, backs = forward(self._calls, self.x, chain, slots, native)
        towards = torch.empty_like(scores)
        if shared or not native:
            self._calls.add(torch.softmax, scores, 1, out=towards)
        if shared:
            self._y, self._weight = torch.zeros_like(scores), torch.zeros(size, 1)
            self._calls.add(towards.mul_, self._weight)
            self._calls.add(towards.sub_, self._y)
        else:
            self._y = torch.empty(size, dtype=torch.int64)
        if native and not shared:
            dense_layers.error(self._calls, scores, self._y, towards)
        elif not shared:
            self._calls.add(towards.scatter_add_, 1, self._y[:, None], torch.full((size, 1), -1.0))
            self._calls.add(towards.div_, size)
        for back in reversed(backs):
            towards = back(towards)
        self._calls = gathered(self._calls)

    def backward(self, x: Tensor, y: Tensor) -> None:
        """Write the gradient to the slots; weights without room for one move at once."""
        self.x[: len(x)].copy_(x)
        if self._shared:
            self._y.zero_()[: len(y), : y.shape[1]].copy_(y)
            torch.sum(self._y, 1, keepdim=True, out=self._weight)
        else:
            self._y.copy_(y)
        self._calls.run()


def forward(
    calls: Calls, x: Tensor, chain: list[nn.Module], given: Sequence[Slot], native: bool
) -> tuple[Tensor, list[Back]]:
    """Append the kernels of a forward pass; return its scores and the backward passes of its layers, first layer first.

    Args:
        calls: the list that gets the kernels.
        x: the buffer of the inputs, as `room` makes it.
        chain: the layers.
        given: their parameters.
        native: whether to use the dense layers of `dense_layers`.
    """
    slots, first = iter(given), True
    backs: list[Back] = []
    if stages := lanes.stages(chain, x.shape):
        theirs = [(next(slots), None if stage.layer.bias is None else next(slots)) for stage in stages]
        chain, first = chain[sum(stage.n_parts for stage in stages) :], False
        x, back = lanes.layers(calls, x, stages, theirs, isinstance(chain[0], nn.Flatten))
        backs.append(back)
    for part in chain:
        if isinstance(part, nn.Conv2d | nn.Linear):
            own = next(slots), None if part.bias is None else next(slots), first
            first = False
        if isinstance(part, nn.Conv2d):
            way = native_chain.convolution if native_chain.wins(part, x, own[2]) else convolution
            x, back = way(calls, x, part, *own)
        elif isinstance(part, nn.Linear):
            x, back = (dense_layers.dense if native else dense)(calls, x, *own)
        elif isinstance(part, nn.MaxPool2d):
            x, back = native_chain.pool(calls, x, pair(part.kernel_size))
        elif isinstance(part, nn.Flatten):
            x, back = flatten(calls, x)
        else:
            x, back = (dense_layers.relu if native and x.dim() == 2 else relu)(calls, x)
        if not first:  # layers before the first parameters need no backward pass
            backs.append(back)
    return x, backs


def room(first: nn.Module, shape: tuple[int, ...], size: int) -> Tensor:
    """Make a buffer for the inputs of a batch, in the layout that the first layer is quickest with."""
    found = torch.empty(size, *shape)
    if len(shape) == 1 or isinstance(first, nn.Flatten) or lanes.stages([first], found.shape):
        return found
    return found.contiguous(memory_format=torch.channels_last)
