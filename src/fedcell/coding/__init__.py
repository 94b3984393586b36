"""What goes on the air: codings, one file each, that compose with any method whose devices send updates.

`fedavg+topk:fraction=0.01` is FedAvg whose devices send the largest entries of their updates. A coding file has a
docstring whose first line says what it is, a frozen dataclass `Config` made of `option(...)` fields, and
`build(config) -> Coding`. `methods.parts.coded` wraps a method in a coding, `methods.parts.summed` in one whose server
gets the sum of what devices send and nothing else (`AtSum`).
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import pieces
from ..types import Bools, Problem

Payload = Mapping[str, Tensor]  # what is sent, by name
Shapes = tuple[tuple[int, ...], ...]  # of the layers of a network, in the order in which a row has them


class Sampling(NamedTuple):
    """How a round draws its devices; none of it depends on what they hold."""

    rule: str  # all, random (so many of those that are there, without replacement), poisson, or another scheduler
    rate: float  # the highest chance of an available device
    n_expected: float  # devices that are drawn on average


class Extra(NamedTuple):
    """What a round costs every device beside its payload."""

    up_bit: float
    down_bit: float
    cycles: float  # of its CPU


class AtSum(NamedTuple):
    """The seam at the sum, for a coding whose server gets one sum per round, over all devices heard.

    `memory` is what its server remembers, any tree. `start` raises BadInput for a problem that the coding does not go
    with. `mean` returns what the method gets in place of all rows, or None if nothing is released in this round.
    """

    start: Callable[[Problem, Sampling], Any]  # memory before the first round
    now: Callable[[Any], "Coding"]  # the coding of devices, as the memory has it
    numbers: Callable[[Payload], Tensor]  # what is added up of a payload, [n_summed]
    n_summed: Callable[[int], int]  # of an update of so many numbers
    noted: Callable[[Any, Sampling, Bools], Any]  # memory with a round to come: how it draws, and who was drawn
    columns: Callable[[Any], Mapping[str, float]]  # of the row of that round
    mean: Callable[[Any, Tensor, Sampling, int, np.random.Generator], tuple[Tensor | None, Any]]
    extra: Callable[[int, int], Extra]  # devices of a round, numbers of an update -> what each pays


class Coding(NamedTuple):
    """How the row of one device is sent, and what becomes of what is not sent.

    `encode(row, rng)` makes a payload of a row `[n]`; `rng` is a stream of its own for every device and round.
    `decode(payload, n)` is the row `[n]` as the server gets it; it raises ValueError with the reason if a payload makes
    no sense, since real devices may send anything. `bits(payload, n, value_bit)` counts a payload, `value_bit` being
    the bits of one number in this world. `most_bit(n, value_bit)` is the most that a payload can take, known before
    anybody trains: decisions are planned with it.

    On a real wire a device sends `pack(payload, n)`, whose arrays have as many bits as `bits` counts for numbers of 32
    bits, rounded up to bytes. `unpack` gives the payload again, or raises ValueError. Without `pack` the arrays of the
    payload are that short already.

    A coding that looks at layers has `shaped(shapes)`, which gives it for a network. If a device is to remember a part
    of what it sent last, `memory(payload)` is that, `[n_memory]`, and `encode(row, rng, memory)` gets it the next time;
    zeros before there is any. It is kept beside what was not sent, so that only codings with feedback have it.
    """

    name: str
    encode: Callable[..., Payload]
    decode: Callable[[Payload, int], Tensor]
    bits: Callable[[Payload, int, float], float]
    most_bit: Callable[[int, float], float]
    feedback: bool = False  # what a payload leaves out is added to the device's next update
    keeps_lost: bool = False  # so is a payload that was sent and lost; else it is lost, as without a coding
    shaped: "Callable[[Shapes], Coding] | None" = None  # None: layers make no difference
    memory: Callable[[Payload], Tensor] | None = None
    n_memory: int = 0
    at_sum: "AtSum | None" = None  # the server gets a sum; None: it gets rows
    pack: Callable[[Payload, int], Payload] = lambda payload, n: payload
    unpack: Callable[[Payload, int], Payload] = lambda packed, n: packed

    def for_network(self, shapes: Shapes) -> "Coding":
        """The coding for rows of a network with these layers."""
        return self if self.shaped is None else self.shaped(shapes)

    def n_kept(self, n: int) -> int:
        """Numbers that a device keeps between rounds, of a row of `n`."""
        return n + self.n_memory if self.feedback else 0

    def send(self, update: Tensor, kept: Tensor | None, rng: np.random.Generator) -> tuple[Tensor, Payload]:
        """(`u`, what is sent of it): an update `[n]` with what its device kept, `[n_kept]`; None: nothing so far."""
        n = len(update)
        u = update if kept is None else update + kept[:n]
        if not self.n_memory:
            return u, self.encode(u, rng)
        return u, self.encode(u, rng, update.new_zeros(self.n_memory) if kept is None else kept[n:])

    def keep(self, u: Tensor, payload: Payload, got: Tensor, out: Tensor) -> None:
        """Write what a device keeps of `u` when the server gets `got` of its payload, `[n_kept]`."""
        torch.sub(u, got, out=out[: len(u)])
        if self.memory is not None:
            out[len(u) :] = self.memory(payload)


def names() -> list[str]:
    """Every coding in this folder."""
    return pieces.names(__name__, __path__)


def load(name: str) -> ModuleType:
    """The module of a coding by name, or of a coding file by path."""
    return pieces.load("coding", __name__, __path__, name)
