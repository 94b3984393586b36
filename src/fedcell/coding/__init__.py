"""What goes on the air: codings, one file each, that compose with any method whose devices send updates.

`fedavg+topk:fraction=0.01` is FedAvg whose devices send the largest entries of their updates. A coding file has a
docstring whose first line says what it is, a frozen dataclass `Config` made of `option(...)` fields, and
`build(config) -> Coding`. `methods.parts.coded` wraps a method in a coding.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NamedTuple

import numpy as np
from torch import Tensor

from .. import pieces

Payload = Mapping[str, Tensor]  # what is sent, by name


class Coding(NamedTuple):
    """How the row of one device goes on the air, and what becomes of what does not.

    `encode(row, rng)` makes a payload of a row `[n]`; `rng` is a stream of its own for every device and round.
    `decode(payload, n)` is the row `[n]` as the server gets it; it raises ValueError with the reason if a payload makes
    no sense, since real devices may send anything. `bits(payload, n, value_bit)` counts a payload, `value_bit` being
    the bits of one number in this world. `most_bit(n, value_bit)` is the most that a payload can take, known before
    anybody trains: decisions are planned with it.
    """

    name: str
    encode: Callable[[Tensor, np.random.Generator], Payload]
    decode: Callable[[Payload, int], Tensor]
    bits: Callable[[Payload, int, float], float]
    most_bit: Callable[[int, float], float]
    feedback: bool = False  # what a payload leaves out is added to the device's next update
    keeps_lost: bool = False  # so is a payload that was sent and lost; else it is lost, as without a coding


def names() -> list[str]:
    """Every coding in this folder."""
    return pieces.names(__name__, __path__)


def load(name: str) -> ModuleType:
    """The module of a coding by name, or of a coding file by path."""
    return pieces.load("coding", __name__, __path__, name)
