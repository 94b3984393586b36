"""An update that is clipped, with noise on it or not, as a device sends it.

Not a coding itself: it has no `build`.
"""

import numpy as np
import torch
from torch import Tensor

from . import Payload

WITHIN = 1 - 2**-20  # a clipped update is shorter by what rounding could add


def encode(norm: float, noise: float, counts: bool, row: Tensor, rng: np.random.Generator) -> Payload:
    """The clipped update, with noise on it if the device adds it, and whether it was short enough."""
    length = float(torch.linalg.vector_norm(row.double()))
    sent = row.clone() if length <= norm else row * (norm / length * WITHIN)
    if noise:
        sent += gaussian(rng, noise, sent)
    return {"values": sent, "short": sent.new_tensor([0.5 if length <= norm else -0.5])} if counts else {"values": sent}


def gaussian(rng: np.random.Generator, deviation: float, like: Tensor) -> Tensor:
    return torch.from_numpy(rng.normal(0.0, deviation, like.shape).astype(np.float32)).to(like.device)


def decode(payload: Payload, n: int) -> Tensor:
    if len(payload["values"]) != n:
        raise ValueError(f"{len(payload['values'])} values of a row of {n}")
    return payload["values"]


def numbers(payload: Payload) -> Tensor:
    return torch.cat([*payload.values()])


def bits(payload: Payload, n: int, value_bit: float) -> float:
    return n * value_bit + len(payload.get("short", ()))


def most_bit(counts: bool, n: int, value_bit: float) -> float:
    return n * value_bit + counts
