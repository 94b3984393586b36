"""A model of which the server knows nothing but its arrays: as one vector, and as a problem of a federation."""

from collections.abc import Mapping
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


class Flat(nn.Module):
    """A network that is its parameters: what it computes, only devices know."""

    def __init__(self, n_params: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(n_params))

    def forward(self, x: Tensor) -> Tensor:
        """Nothing, in the shape of two classes."""
        return x.new_zeros(len(x), 2) + 0 * self.values[0]


def flat_problem(config: Config, first: Vector) -> Problem:
    """The problem of a server that has a vector to begin with, and no samples."""
    model = Flat(len(first))
    with torch.no_grad():
        model.values.copy_(torch.from_numpy(first))
    x = np.zeros((2, 1), dtype=np.float32)
    return federated_problem(config, Dataset("nothing", x, np.arange(2), x, np.arange(2), 2), model)


def vector_of(arrays: ArrayRecord, template: Mapping[str, Any]) -> Vector:
    """All numbers of a model, in the order of the first one; raises MessageError if the shapes are others."""
    parts = []
    for name, like in template.items():
        part = arrays[name].numpy()
        if part.shape != like.shape:
            raise MessageError(f"{name} has shape {list(part.shape)}, not {list(like.shape)}")
        parts.append(part.astype(np.float32).reshape(-1))
    return np.concatenate(parts)


def arrays_of(vector: Vector, template: Mapping[str, Any]) -> ArrayRecord:
    """A vector in the shapes and types of the first model."""
    made, start = {}, 0
    for name, like in template.items():
        part = vector[start : start + like.size].reshape(like.shape)
        made[name] = Array(np.ascontiguousarray(part.astype(like.dtype)))
        start += like.size
    return ArrayRecord(made)
