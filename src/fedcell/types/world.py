"""What the world is: stores and streams of data, devices, places, and what a run carries from round to round."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # annotations only: nothing below imports upwards at run time
    from torch import Tensor

    from ..world.settings import WorldConfig

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Store(NamedTuple):
    """What every device holds: the first `size[k]` entries of row `k` index the training samples."""

    items: Ints  # [n_devices, capacity]
    size: Ints  # [n_devices]

    def of(self, device: Ints) -> "Store":
        """The store of some devices, in the given order."""
        return type(self)(self.items[device], self.size[device])


class Tally(Store):
    """What real devices hold if only counts are known: `items[k, c]` samples with label `c` on device `k`."""

    __slots__ = ()


class Arrived(NamedTuple):
    """What a stream gets once the samples of a round have arrived."""

    seed: int
    round: int
    before: Any  # the stream's memory before they came
    after: Any  # its memory with them
    cell: Ints  # [n_devices], this round's base stations
    ask: "Callable[[Tensor], Floats]"  # one input per device -> class probabilities of the model that it has


class Stream(NamedTuple):
    """How samples reach the stores. `memory` is the stream's own state, any tree of arrays."""

    start: Callable[[int], tuple[Store, Any]]  # seed -> store, memory
    arrive: Callable[[int, int, Store, Any], tuple[Store, Any]]  # seed, round, store, memory -> both
    law: Any = None  # the long-term label law if there is one
    serve: Callable[[Arrived], tuple[Any, Mapping[str, float]]] | None = None  # -> memory, columns of the row
    at: "Callable[[Topology], Stream] | None" = None  # the stream of devices at these places, if places matter


class Devices(NamedTuple):
    """Hardware limits, each `[n_devices]`; None stands for zeros."""

    cpu_hz: Floats  # highest clock
    cycles_per_sample: Floats  # CPU cycles to train on one sample once
    capacitance: Floats  # effective switched capacitance: joules = capacitance * cycles * hertz**2
    power_watt: Floats  # highest transmit power
    energy_per_round_joule: Floats  # budget of one round
    battery_joule: Floats  # budget of the whole run; what it holds when full
    step_cycles: Floats | None = None  # CPU cycles of a local step beside those of its samples
    receive_watt: Floats | None = None  # while listening to the base station
    idle_watt: Floats | None = None  # all the time
    harvest_watt: Floats | None = None
    charge_watt: Floats | None = None  # while plugged in

    def some(self, device: Ints) -> "Devices":
        """The limits of some devices only."""
        return Devices._make(None if part is None else part[device] for part in self)

    def cycles_per_step(self, samples_per_step: Floats) -> Floats:
        """CPU cycles of one local step, `a + b * batch`, with `a` for `step_cycles` and `b` for `cycles_per_sample`."""
        cycles = samples_per_step * self.cycles_per_sample
        return cycles if self.step_cycles is None else cycles + self.step_cycles


class Topology(NamedTuple):
    """Where base stations and devices stand."""

    station_m: Floats  # [n_cells, 2]
    position_m: Floats  # [n_devices, 2], same frame as the stations
    cell: Ints  # [n_devices], the base station that serves each device
    distance_m: Floats  # [n_devices], to that base station


class World(NamedTuple):
    """Everything that is fixed for a run: settings, hardware, places, radio budgets, the data stream."""

    settings: "WorldConfig"
    devices: Devices
    topology: Topology
    stream: Stream
    interference_watt: Floats  # [n_blocks], received on each resource block
    noise_watt_per_hz: float
    payload_bit: float  # one full model update on the air
    response_trace_s: Floats | None = None  # measured seconds to draw answers from (response=trace)
    model_bit: float = 0.0  # the whole model on the way down

    @property
    def n_devices(self) -> int:
        return len(self.devices.cpu_hz)

    @property
    def n_cells(self) -> int:
        return len(self.topology.station_m)


class WorldState(NamedTuple):
    """What the world carries from round to round."""

    store: Store
    memory: Any  # of the stream
    battery_joule: Floats  # [n_devices], what is left
    clock_s: float  # simulated time
    station_watt: Floats | None = None  # [n_cells, n_blocks or 1], interference of the last round, if it is asked for
