"""What devices train and send: where they start, their updates, what that costs and what arrives."""

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from .world import Bools, Floats, Ints

if TYPE_CHECKING:  # annotations only
    from torch import Tensor
    from typing_extensions import TypeIs

ONE_THREAD = 1 << 20  # numbers up to which one thread is faster than waking several


class Start(NamedTuple):
    """Where local training begins: one point for all, one per cell, or one per device."""

    points: "Tensor"  # [n_points, n_params]
    of_row: Ints  # [n_rows], the point each trained device starts from
    own: "Tensor | None" = None  # [n_rows, n_own], running statistics of each device; see learn.statistics


class Updates(NamedTuple):
    """The result of local training: one row per trained device, which it sends, and what the device keeps for itself.

    A row is the change of the model, `end - start`, unless a method sends something else. `kept` never crosses the
    channel: it costs no bits, and numbers in it that are not finite do not invalidate the upload. `aggregate` gets
    `kept` of every trained device, heard or not, to store it in the state.
    """

    device: Ints  # [n_rows], ascending
    rows: "Tensor | Rows"  # [n_rows, n_sent] float32; those of a large cohort are trained when asked for
    kept: Any = None  # tensors or arrays [n_rows, ...], or a tree of them: NamedTuples, tuples, lists, dicts
    bit: Floats | None = None  # [n_rows], bits of each row on the simulated air; None: `payload_bit` of the decision
    tail: "Tensor | None" = None  # [n_rows, n_tail], running statistics sent beside the row, as values

    @property
    def delta(self) -> "Tensor":
        """All rows in memory, `[n_rows, n_params]`."""
        return self.rows.matrix() if is_deferred(self.rows) else self.rows

    def finite(self) -> Bools:
        """Which rows hold only finite numbers, `[n_rows]`."""
        fine = self.rows.finite() if is_deferred(self.rows) else finite_rows(self.rows)
        return fine if self.tail is None else fine & finite_rows(self.tail)


class Rows(Protocol):
    """Rows that are trained or decoded only when one of these functions is called."""

    def matrix(self) -> "Tensor": ...

    def finite(self) -> Bools: ...

    def add_up(self, chosen: Bools, weights: Floats) -> "Tensor": ...


def is_deferred(rows: "Tensor | Rows") -> "TypeIs[Rows]":
    """Whether rows are computed only when needed, instead of held in a tensor."""
    return hasattr(rows, "add_up")


def finite_rows(delta: "Tensor") -> Bools:
    """Which rows of a matrix hold only finite numbers, `[n_rows]`."""
    if delta.is_cpu and delta.numel() < ONE_THREAD:
        with np.errstate(over="ignore", invalid="ignore"):  # overflow and NaN are what this looks for
            return np.isfinite(delta.numpy().sum(axis=1))
    return np.asarray(delta.sum(dim=1).isfinite().cpu().numpy())


class Outcome(IntEnum):
    """What became of a device in a round; `letter` is its mark in the record."""

    IDLE = 0  # not selected
    DELIVERED = 1
    LATE = 2  # missed the deadline
    ENERGY = 3  # ran out of its energy budget or battery
    OUTAGE = 4  # the channel lost the upload
    INVALID = 5  # the update held numbers that are not finite

    @property
    def letter(self) -> str:
        return LETTERS[self]


LETTERS = ".DTEOX"
DELIVERED = int(Outcome.DELIVERED)  # NumPy compares with a plain number in a third of the time


class Uplink(NamedTuple):
    """What a round cost, and what arrived. Arrays are `[n_devices]`; an array of costs that is None stands for zeros.

    In a simulation all of it follows from the model of devices and channels. In a federation of real devices seconds
    are measured, bits are those that were sent, and joules are 0: `measured_joule` and `estimated_joule` are among the
    metrics of a row instead.
    """

    compute_s: Floats
    upload_s: Floats
    compute_joule: Floats
    radio_joule: Floats
    sent_bit: Floats  # on the air; in a federation, of the arrays in answers, in NumPy's format
    outcome: Ints  # Outcome codes
    round_s: float  # how long the round lasted
    receive_joule: Floats | None = None  # of listening to the base station
    downlink_bit: float = 0.0  # sent by the base stations; a federation has a column of its own for it
    idle_joule: Floats | None = None  # of idling, as long as batteries lasted
    end_s: Floats | None = None  # when each was done or gave up, from the start of the round; None: not known
    sums: Mapping[str, float] | None = None  # columns about sums that were received over the air
    station_watt: Floats | None = None  # [n_cells, n_blocks or 1], interference that stations measured, if asked for

    @property
    def spent_joule(self) -> Floats:
        """Energy that each device spent, `[n_devices]`."""
        spent = self.compute_joule + self.radio_joule
        for more in (self.receive_joule, self.idle_joule):
            spent = spent if more is None else spent + more
        return spent

    @property
    def columns(self) -> dict[str, float]:
        """Columns of the row for what not every world counts: downlink, listening, idling, sums over the air."""
        found: dict[str, float] = {}
        if self.receive_joule is not None:
            found |= {"downlink_bit": self.downlink_bit, "receive_joule": float(self.receive_joule.sum())}
        if self.idle_joule is not None:
            found["idle_joule"] = float(self.idle_joule.sum())
        return found if self.sums is None else {**found, **self.sums}

    def some(self, device: Ints) -> "Uplink":
        """The uplink of some devices only. Scalars of the round stay; `station_watt` is dropped."""
        own = self._replace(station_watt=None)
        return Uplink._make(part[device] if isinstance(part, np.ndarray) else part for part in own)

    @property
    def delivered(self) -> Bools:
        return np.asarray(self.outcome == DELIVERED)

    @property
    def letters(self) -> str:
        """The outcomes as one text, a letter per device."""
        return np.frombuffer(LETTERS.encode(), dtype=np.uint8)[self.outcome].tobytes().decode()
