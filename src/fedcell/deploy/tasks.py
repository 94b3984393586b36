"""What a device is asked to train, and what became of it. Needs no Flower."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.scaling import UNIT, Scaling
from ..errors import FedcellError
from ..metrics import CLASSIFICATION
from ..types import Bools, Outcome
from .calls import Call

Vector = NDArray[np.float32]


class MessageError(FedcellError):
    """A message that is refused; its text is the reason.

    Args:
        text: what is wrong.
        kind: one word for it, as in the record.
        value: the number that is out of bounds; None if there is none.
    """

    def __init__(self, text: str, kind: str = "malformed", value: float | None = None) -> None:
        super().__init__(text)
        self.kind, self.value = kind, value


class Task(NamedTuple):
    """What one device has to train: one row of a `Work`, and all that the device needs to run it."""

    device: int
    round: int
    seed: int
    n_params: int
    n_classes: int  # or labels, targets or tokens: outputs of the network
    steps: int
    batch_size: int
    lr: float
    momentum: float
    prox: float
    model: Mapping[str, Any]  # the sections of the settings
    train: Mapping[str, Any]
    start: Vector  # [n_params]; empty if the device continues from a model of its own
    mask: Bools | None  # [n_params]
    shift: Vector | None = None  # [n_params], a constant gradient
    objective: Call | None = None  # None: the loss of what is learned
    report: Call | None = None  # what to send of a model that the device keeps; None: its update
    n_reported: int = 0  # numbers in such a report
    scaling: Scaling = UNIT  # of every sample of the device, by the server's statistics
    coding: Mapping[str, Any] = {}  # name and settings of the coding of the update; empty: none
    tail: Vector | None = None  # running statistics of the network; None: it has none, or the device keeps its own
    learned: str = CLASSIFICATION  # the task: what targets are, and the loss without an objective
    run: str = ""  # name of the run, which what a device keeps belongs to; empty: not known

    @property
    def n_values(self) -> int:
        """Numbers in the answer, before a mask."""
        return self.n_reported or self.n_params


class Answer(NamedTuple):
    """The answer to one task, or what is known without one."""

    device: int
    outcome: Outcome
    update: Vector | None  # [n_params] of one that was delivered
    compute_s: float
    response_s: float  # from sending the task to having the answer; the time waited if there is none
    down_bit: float  # of the arrays of the task
    up_bit: float  # of the arrays of the answer
    strike: bool = False  # refused for what it sent
    joule: float = 0.0  # that training used, as the device says
    meter: str = ""  # what measured them; empty: nothing did
    tail: Vector | None = None  # running statistics after training, if the device was sent some
    down_message_bit: float = 0.0  # of the whole message, as Flower serialises it
    up_message_bit: float = 0.0


class Refusal(NamedTuple):
    """An answer that was refused, as the record has it."""

    round: int
    device: int
    kind: str
    value: float | None
    text: str
