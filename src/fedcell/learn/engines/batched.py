"""All clients of a chunk in one batched matrix product per layer, for chains of dense layers.

This is by far the fastest engine for small models on a CPU and for any dense model on a GPU. The weights of a chunk are
views into its rows of the result. A layer moves as soon as its gradient is known, and clients that have done their
steps drop out of the batch. On a CPU with a compiler, plain SGD has a kernel that does
all steps of a client (`cpu.dense_clients`).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...machine import for_each
from ...types import Ints
from ..architecture import Architecture
from ..work import Work
from .common import Batch, Batches, Job
from .cpu import dense_clients
from .cpu.products import product, subtract_product
from .gpu.chunks import in_chunks
from .gpu.cuda_graphs import Kernel, train_rows
from .gpu.draws import batches_of
from .gpu.kernels import kernels
from .update import Rule, Terms, direction, move

CHUNK_BYTES = 2 << 20  # bytes of the weights of a chunk on a CPU: larger chunks were not faster
MOST_ROWS = 128
TOGETHER = "all devices of a chunk in one product per layer"
ONE_BY_ONE = "all steps of a device in one compiled kernel"

Views = list[tuple[Tensor, Tensor | None]]  # kernel and bias of every layer, for several clients


class DenseLayer(NamedTuple):
    """One dense layer of a chain: where its parameters lie in a flat row, and what follows it."""

    weight: int
    bias: int | None
    n_in: int
    n_out: int
    activation: type[nn.Module] | None


@lru_cache(maxsize=4)
def chain(architecture: Architecture) -> list[DenseLayer] | None:
    """The dense layers of a module, or None if it is not a plain chain of them."""
    module = architecture.module
    if not isinstance(module, nn.Sequential) or architecture.tail.n:
        return None
    where = dict(zip(architecture.names, architecture.offsets, strict=True))
    layers: list[DenseLayer] = []
    parts = [(name, part) for name, part in module.named_modules(remove_duplicate=False) if name and "." not in name]
    for name, part in parts:
        if isinstance(part, nn.Linear) and all(f"{name}.{own}" in where for own, _ in part.named_parameters()):
            layers.append(
                DenseLayer(
                    where[f"{name}.weight"], where.get(f"{name}.bias"), part.in_features, part.out_features, None
                )
            )
        elif isinstance(part, nn.ReLU | nn.Tanh) and layers and layers[-1].activation is None:
            layers[-1] = layers[-1]._replace(activation=type(part))
        elif not (isinstance(part, nn.Flatten) and not layers):
            return None
    used = sum(layer.n_in * layer.n_out + (layer.n_out if layer.bias is not None else 0) for layer in layers)
    return layers if layers and layers[-1].activation is None and used == architecture.n_params else None


def rows_per_chunk(architecture: Architecture) -> int:
    """How many clients are trained together on a CPU."""
    return min(max(CHUNK_BYTES // (4 * architecture.n_params), 1), MOST_ROWS)


def train(job: Job, workers: int = 0) -> None:
    """Fill `job.out` with the update of every row; the result does not depend on `workers`."""
    layers = chain(job.architecture)
    assert layers is not None
    order = np.argsort(-job.work.steps, kind="stable")  # so that finished clients leave at the end of a chunk
    if job.device.type != "cpu":
        whole = kernels("softmax_regression", job.device) if len(layers) == 1 else None
        if whole and whole.serves(job, layers[0].n_out):
            _tell(job, ONE_BY_ONE)
            return whole.train(job, order, layers[0].n_out, layers[0].weight, layers[0].bias)
        _tell(job, TOGETHER)
        drawn = batches_of(job)
        return in_chunks(job, order, lambda rows: train_rows(job, lambda: kernel(layers), drawn, rows))
    batches, size = Batches(job), rows_per_chunk(job.architecture)
    if dense_clients.wins(job, layers):
        _tell(job, ONE_BY_ONE)
        return dense_clients.train(job, layers, batches, workers)
    _tell(job, TOGETHER)
    parts = [order[first : first + size] for first in range(0, len(order), size)]

    for_each(lambda rows: _train_chunk(job, layers, batches, rows), parts, workers)


def _tell(job: Job, how: str) -> None:
    job.replays.trained_by[f"batched: a chain of dense layers, {how}"] = None


def kernel(layers: list[DenseLayer]) -> Kernel:
    """The gradients and plain steps of a chain, for cohorts on a GPU with one flat row of parameters per client."""
    n_out = layers[-1].n_out

    def gradients(parts: list[Tensor], x: Tensor, y: Tensor, weight: Tensor, tail: list[Tensor]) -> list[Tensor]:
        found = torch.empty_like(parts[0])
        _step(layers, _views(layers, parts[0]), x.flatten(2), *_labelled(y, weight, n_out), _views(layers, found))
        return [found]

    def move(parts: list[Tensor], x: Tensor, y: Tensor, weight: Tensor) -> None:
        _step(layers, _views(layers, parts[0]), x.flatten(2), *_labelled(y, weight, n_out), None)

    return Kernel(lambda rows: [rows], gradients, move)


@torch.inference_mode()  # makes launching every kernel cheaper
@np.errstate(over="ignore", invalid="ignore")  # the server refuses updates that are not finite
def _train_chunk(job: Job, layers: list[DenseLayer], batches: Batches, rows: Ints) -> None:
    work, place = job.work, torch.from_numpy(rows)
    one = len(job.points) == 1
    start = job.points.expand(len(rows), -1) if one else job.points.index_select(0, torch.from_numpy(job.of_row[rows]))
    steps, first, last = work.steps[rows], int(rows[0]), int(rows[-1])
    together = steps[0] == steps[-1] and last - first == len(rows) - 1  # then they train inside the result
    weights = job.out[first : last + 1] if together else torch.empty_like(job.out[: len(rows)])
    weights.copy_(start)
    gradient = None if work.plain else torch.empty_like(weights)
    rule, every = Rule.of(work), _terms(work, start, place)
    memory = rule.memory([weights])
    rate = work.lr if gradient is None else 1.0
    live, views, slopes, terms = 0, [], None, every
    for step, (x, labels, weight) in enumerate(_steps(batches, rows, steps, rate, layers[-1].n_out)):
        if len(x) != live:  # at first, and whenever clients have done their steps
            live = len(x)
            views = _views(layers, weights[:live])
            slopes = None if gradient is None else _views(layers, gradient[:live])
            terms = Terms(*([part[:live] for part in parts] for parts in every))
            memory = tuple([part[:live] for part in parts] for parts in memory)
        _step(layers, views, x, labels, weight, slopes)
        if gradient is not None:
            now = [weights[:live]]
            against, memory = direction(rule, [gradient[:live]], now, terms, memory, step, by_row=True)
            move(now, against, work.lr)
    weights.sub_(start)
    if not together:
        job.out.index_copy_(0, place, weights)


def _terms(work: Work, start: Tensor, rows: Tensor) -> Terms:
    """The terms that act on the gradients of some rows."""
    shift, mask = work.shift, work.mask
    return Terms(
        [start],
        [] if shift is None else [shift[rows].to(start)],
        [] if mask is None else [(mask if mask.dim() == 1 else mask[rows]).to(start).expand(len(rows), -1)],
    )


def _steps(batches: Batches, rows: Ints, steps: Ints, rate: float, n_out: int) -> Iterator[Batch]:
    """Yield (x as rows, `_labelled` labels and weights) for every step, of the rows that still have steps to do."""
    n_steps = int(steps[0])
    counts = np.searchsorted(-steps, -np.arange(n_steps), side="left").tolist()  # rows with more steps than that
    if drawn := batches.drawn(rows, n_steps):
        labels, weight = _labelled(*drawn[1:], n_out, rate)
        for live, index, known in zip(counts, drawn[0], labels, strict=True):
            if live < len(known):
                index, known, weight = index[:live], known[:live], weight[:live]
            yield batches.inputs(index), known, weight
        return
    for step, live in enumerate(counts):
        if not (step and batches.full):
            x, y, weight = batches.gather(rows[:live], step)
            labels, weight = _labelled(y, weight, n_out, rate)
        yield x[:live].flatten(2), labels[:live], weight[:live]


def _labelled(y: Tensor, weight: Tensor, n_out: int, rate: float = 1.0) -> tuple[Tensor, Tensor]:
    """Labels and weights of samples as columns, all times `rate`; `y` may have an axis of steps in front.

    Returns:
        (labels `[..., n_rows, n_out, width]`, weight `[n_rows, 1, width]`): a column of labels holds the weight of its
        sample at the right class, or its share at each class, and zeros.
    """
    weight = weight[:, None] * rate
    if y.is_floating_point():  # label shares of each input
        return functional.pad(y.mT * rate, (0, 0, 0, n_out - y.shape[-1])), weight
    index = y[..., None, :]
    labels = weight.new_zeros((*y.shape[:-1], n_out, y.shape[-1]))
    return labels.scatter_(-2, index, weight.expand(index.shape)), weight


def _step(
    layers: list[DenseLayer], views: Views, x: Tensor, labels: Tensor, weight: Tensor, gradient: Views | None
) -> None:
    """Compute one gradient of the weighted cross-entropy; subtract it at once, or write it to `gradient` if given.

    Between the layers a sample is a column, `[n_rows, n_out, width]`: a softmax over columns is many times as fast on a
    CPU as one over short rows.
    """
    inputs = [x.mT]
    for layer, (kernel, bias) in zip(layers, views, strict=True):
        inputs.append(_activate(layer.activation, product(kernel, inputs[-1], bias)))
    towards = torch.softmax(inputs.pop(), dim=1).mul_(weight).sub_(labels)
    for position in range(len(layers) - 1, -1, -1):
        entered, (kernel, bias) = inputs[position], views[position]
        back = product(kernel.mT, towards) if position else None  # before the weights move
        if gradient is None:
            subtract_product(kernel, towards, entered.mT)
            if bias is not None:
                bias.sub_(towards.sum(2, keepdim=True))
        else:
            kernel_gradient, bias_gradient = gradient[position]
            kernel_gradient.copy_(torch.bmm(towards, entered.mT))
            if bias_gradient is not None:
                bias_gradient.copy_(towards.sum(2, keepdim=True))
        if back is not None:
            towards = _back(layers[position - 1].activation, back, entered)


def _views(layers: list[DenseLayer], rows: Tensor) -> Views:
    """Kernel `[n_rows, n_out, n_in]` and bias `[n_rows, n_out, 1]` of every layer inside flat rows."""
    return [
        (
            rows[:, layer.weight : layer.weight + layer.n_in * layer.n_out].view(-1, layer.n_out, layer.n_in),
            None if layer.bias is None else rows[:, layer.bias : layer.bias + layer.n_out, None],
        )
        for layer in layers
    ]


def _activate(activation: type[nn.Module] | None, outputs: Tensor) -> Tensor:
    if activation is nn.ReLU:
        return outputs.relu_()
    return outputs.tanh_() if activation is nn.Tanh else outputs


def _back(activation: type[nn.Module] | None, gradient: Tensor, outputs: Tensor) -> Tensor:
    """Backward through an activation, given its output: ReLU' = [h > 0], tanh' = 1 - h^2."""
    if activation is nn.ReLU:
        return torch.ops.aten.threshold_backward(gradient, outputs, 0)
    return gradient.mul_(1 - outputs * outputs) if activation is nn.Tanh else gradient
