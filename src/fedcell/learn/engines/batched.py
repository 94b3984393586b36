"""All clients of a chunk in one batched matrix product per layer, for chains of dense layers.

Wins by far for small models on a CPU and for any dense model on a GPU. The weights of a chunk are
views into its rows of the result; the SGD step is fused into the weight-gradient product
(`baddbmm_`), and clients that have done their steps drop out of the batch.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...types import Ints
from ..architecture import Architecture
from .chunks import in_chunks
from .cohort import Kernel, train_rows
from .common import Batches, Job
from .pool import for_each

CHUNK_BYTES = 1 << 20  # weights of a chunk on a CPU: little memory, and larger chunks were not faster


class Layer(NamedTuple):
    """One dense layer of a chain: where its parameters lie in a flat row, and what follows it."""

    weight: int
    bias: int | None
    n_in: int
    n_out: int
    activation: type[nn.Module] | None


def chain(architecture: Architecture) -> list[Layer] | None:
    """The dense layers of a module, or None where it is not a plain chain of them."""
    module = architecture.module
    if not isinstance(module, nn.Sequential):
        return None
    where = dict(zip(architecture.names, architecture.offsets, strict=True))
    layers: list[Layer] = []
    parts = [(name, part) for name, part in module.named_modules(remove_duplicate=False) if name and "." not in name]
    for name, part in parts:
        if isinstance(part, nn.Linear) and f"{name}.weight" in where:
            layers.append(
                Layer(where[f"{name}.weight"], where.get(f"{name}.bias"), part.in_features, part.out_features, None)
            )
        elif isinstance(part, nn.ReLU | nn.Tanh) and layers and layers[-1].activation is None:
            layers[-1] = layers[-1]._replace(activation=type(part))
        elif not (isinstance(part, nn.Flatten) and not layers):
            return None
    used = sum(layer.n_in * layer.n_out + (layer.n_out if layer.bias is not None else 0) for layer in layers)
    return layers if layers and layers[-1].activation is None and used == architecture.n_params else None


def rows_per_chunk(architecture: Architecture) -> int:
    """Clients that are trained together on a CPU."""
    return int(np.clip(CHUNK_BYTES // (4 * architecture.n_params), 1, 128))


def train(job: Job, workers: int = 0) -> None:
    """Fill `job.out` with what every row's training moved; the result does not depend on `workers`."""
    layers = chain(job.architecture)
    assert layers is not None
    batches = Batches(job)
    order = np.argsort(-job.work.steps, kind="stable")  # so that finished clients leave at the end of a chunk
    if job.device.type != "cpu":
        in_chunks(job, order, lambda rows: train_rows(job, lambda: kernel(layers), batches, rows))
        return
    size = rows_per_chunk(job.architecture)
    parts = [order[first : first + size] for first in range(0, len(order), size)]

    for_each(lambda rows: _train_chunk(job, layers, batches, rows), parts, workers)


def kernel(layers: list[Layer]) -> Kernel:
    """The chain for cohorts on a GPU, whose parameters are one flat row per client."""

    def gradients(parts: list[Tensor], x: Tensor, y: Tensor, weight: Tensor) -> list[Tensor]:
        found = torch.empty_like(parts[0])
        _step(layers, parts[0], x.flatten(2), y, weight, 0.0, found)
        return [found]

    def move(parts: list[Tensor], x: Tensor, y: Tensor, weight: Tensor) -> None:
        _step(layers, parts[0], x.flatten(2), y, weight, 1.0, None)

    return Kernel(lambda rows: [rows], gradients, move)


def _train_chunk(job: Job, layers: list[Layer], batches: Batches, rows: Ints) -> None:
    work = job.work
    start = job.points[torch.from_numpy(job.of_row[rows]).to(job.device)]
    weights = start.clone()
    gradient = None if work.plain else torch.empty_like(start)
    velocity = torch.zeros_like(start) if work.momentum else None
    mask = None
    if work.mask is not None:
        mask = (work.mask if work.mask.dim() == 1 else work.mask[torch.from_numpy(rows)]).to(start)
    steps = work.steps[rows]
    n_steps = int(steps[0])
    counts = np.searchsorted(-steps, -np.arange(n_steps), side="left").tolist()  # rows with more steps than that
    fixed = batches.gather(rows, 0) if batches.full else None
    every = batches.gather_all(rows, n_steps)
    for step, live in enumerate(counts):
        given = [part[step] for part in every] if every else fixed or batches.gather(rows[:live], step)
        x, y, weight = (part[:live] for part in given)
        into = None if gradient is None else gradient[:live]
        _step(layers, weights[:live], x.flatten(2), y, weight, work.lr, into)
        if gradient is None:
            continue
        change = gradient[:live]
        if work.prox:
            change.add_(weights[:live] - start[:live], alpha=work.prox)
        if mask is not None:
            change.mul_(mask if mask.dim() == 1 else mask[:live])
        if velocity is not None:
            change = velocity[:live].mul_(work.momentum).add_(change)
        weights[:live].sub_(change, alpha=work.lr)
    job.out[torch.from_numpy(rows).to(job.device)] = weights.sub_(start)


def _step(
    layers: list[Layer], rows: Tensor, x: Tensor, y: Tensor, weight: Tensor, lr: float, gradient: Tensor | None
) -> None:
    """One gradient of the weighted cross-entropy; applied at once, or written to `gradient` where given."""
    inputs = [x]
    for layer in layers:
        kernel, bias = _views(layer, rows)
        entered, turned = inputs[-1], kernel.transpose(1, 2)
        outputs = torch.bmm(entered, turned) if bias is None else torch.baddbmm(bias[:, None], entered, turned)
        inputs.append(_activate(layer.activation, outputs))
    towards = torch.softmax(inputs.pop(), dim=2)
    if y.is_floating_point():  # label shares of each input
        towards.mul_(weight[..., None])[..., : y.shape[2]].sub_(y)
    else:
        towards.scatter_add_(2, y[..., None], torch.full_like(towards[..., :1], -1.0))
        towards.mul_(weight[..., None])
    for position in range(len(layers) - 1, -1, -1):
        layer, entered = layers[position], inputs[position]
        kernel, bias = _views(layer, rows)
        back = torch.bmm(towards, kernel) if position else None  # before the weights move
        if gradient is None:
            kernel.baddbmm_(towards.transpose(1, 2), entered, alpha=-lr)
            if bias is not None:
                bias.sub_(towards.sum(1), alpha=lr)
        else:
            kernel_gradient, bias_gradient = _views(layer, gradient)
            kernel_gradient.copy_(torch.bmm(towards.transpose(1, 2), entered))
            if bias_gradient is not None:
                bias_gradient.copy_(towards.sum(1))
        if back is not None:
            towards = _back(layers[position - 1].activation, back, entered)


def _views(layer: Layer, rows: Tensor) -> tuple[Tensor, Tensor | None]:
    kernel = rows[:, layer.weight : layer.weight + layer.n_in * layer.n_out].view(-1, layer.n_out, layer.n_in)
    return kernel, None if layer.bias is None else rows[:, layer.bias : layer.bias + layer.n_out]


def _activate(activation: type[nn.Module] | None, outputs: Tensor) -> Tensor:
    if activation is nn.ReLU:
        return outputs.relu_()
    return outputs.tanh_() if activation is nn.Tanh else outputs


def _back(activation: type[nn.Module] | None, gradient: Tensor, outputs: Tensor) -> Tensor:
    """Through the activation, by its output: ReLU' = [h > 0], tanh' = 1 - h^2."""
    if activation is nn.ReLU:
        return torch.ops.aten.threshold_backward(gradient, outputs, 0)
    return gradient.mul_(1 - outputs * outputs) if activation is nn.Tanh else gradient
