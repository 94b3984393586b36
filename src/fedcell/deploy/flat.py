"""A model of which the server only knows the arrays: as one vector, and as the problem of a federation."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor, nn

from ..data import Dataset
from ..scenarios import Config
from ..types import Problem
from .remote import federated_problem
from .tasks import MessageError, Vector
from .wire import read_array


class Flat(nn.Module):
    """A network of bare parameters; only devices know what it computes."""

    def __init__(self, n_params: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(n_params))

    def forward(self, x: Tensor) -> Tensor:
        """Return zeros, in the shape of scores for two classes."""
        return x.new_zeros(len(x), 2) + 0 * self.values[0]


def flat_problem(config: Config, first: Vector) -> Problem:
    """Build the problem of a server that starts from a vector and has no samples to scale."""
    config = replace(config, data=replace(config.data, scaling="unit"))
    model = Flat(len(first))
    with torch.no_grad():
        model.values.copy_(torch.from_numpy(first))
    x = np.zeros((2, 1), dtype=np.float32)
    return federated_problem(config, Dataset("nothing", x, np.arange(2), x, np.arange(2), 2), model)


def vector_of(arrays: ArrayRecord, template: Mapping[str, Any]) -> Vector:
    """All numbers of a model as one vector, in the order of `template`; raises MessageError if shapes differ."""
    parts = []
    for name, like in template.items():
        part = read_array(arrays[name], name)
        if part.shape != like.shape:
            raise MessageError(f"{name} has shape {list(part.shape)}, not {list(like.shape)}")
        parts.append(part.astype(np.float32).reshape(-1))
    return np.concatenate(parts)


def arrays_of(vector: Vector, template: Mapping[str, Any]) -> ArrayRecord:
    """A vector in the shapes and types of the first model."""
    made, start = {}, 0
    for name, like in template.items():
        part = vector[start : start + like.size].reshape(like.shape)
        part = part.round() if like.dtype.kind in "iu" else part
        made[name] = Array(np.ascontiguousarray(part.astype(like.dtype)))
        start += like.size
    return ArrayRecord(made)
