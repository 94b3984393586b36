"""The values that travel around the loop, and the bundle of functions that is a method.

Per-device arrays have a leading device axis of length `n_devices` and are float64, int64 or bool;
unselected devices are masked, never removed. Model vectors are the exception: training touches only
the selected devices, so `Start` and `Updates` hold one float32 row per *trained* device and say which.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .errors import ContractError

if TYPE_CHECKING:  # annotations only: nothing below imports upwards at run time
    from torch import Tensor
    from typing_extensions import TypeIs

    from .data.scaling import Scaling
    from .learn.learner import Learner
    from .learn.settings import TrainConfig
    from .world.settings import WorldConfig

ONE_THREAD = 1 << 20  # numbers up to which one thread is faster than waking several

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


# ---------------------------------------------------------------- what the world is


class Store(NamedTuple):
    """What every device holds: the first `size[k]` entries of row `k` index the training samples."""

    items: Ints  # [n_devices, capacity]
    size: Ints  # [n_devices]

    def of(self, device: Ints) -> "Store":
        """What some devices hold."""
        return type(self)(self.items[device], self.size[device])


class Tally(Store):
    """What real devices hold, of which labels alone are known: `items[k, c]` counts the samples of label `c`."""

    __slots__ = ()


class Arrived(NamedTuple):
    """What a stream is told once the samples of a round have arrived."""

    seed: int
    round: int
    before: Any  # the stream's memory before they came
    after: Any  # and with them
    cell: Ints  # [n_devices], this round's base stations
    ask: "Callable[[Tensor], Floats]"  # one input per device -> class probabilities of the model that it has


class Stream(NamedTuple):
    """How samples reach the stores. `memory` is the stream's own state, any tree of arrays."""

    start: Callable[[int], tuple[Store, Any]]  # seed -> store, memory
    arrive: Callable[[int, int, Store, Any], tuple[Store, Any]]  # seed, round, store, memory -> both
    law: Any = None  # the long-term label law where there is one
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
        """Some devices alone."""
        return Devices._make(None if part is None else part[device] for part in self)

    def cycles_per_step(self, samples_per_step: Floats) -> Floats:
        """CPU cycles of one local step, `a + b * batch` up to the clock."""
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


# ---------------------------------------------------------------- what happens in a round


class Observation(NamedTuple):
    """What is known when a round begins. Everything here is the same for every method on one seed."""

    round: int
    gain: Floats  # [n_devices], path loss x shadowing x fading towards the own base station
    mean_gain: Floats  # [n_devices], the same averaged over the fading, which outage is computed from
    interference_watt: Floats  # [n_blocks]; if devices make it, what is foreseen, [n_devices, n_blocks or 1]
    available: Bools  # [n_devices], switched on and with charge left
    response_s: Floats | None  # [n_devices], time to answer where the world draws it instead of computing it
    devices: Devices  # this round's limits
    topology: Topology  # this round's places
    store: Store
    battery_joule: Floats  # [n_devices]
    gains: Floats | None = None  # [n_devices, n_cells], to every base station; None: interference is drawn


class Decision(NamedTuple):
    """What a method decides: who trains, how long, and with which resources. All `[n_devices]`."""

    selected: Bools
    steps: Ints  # local steps
    samples_per_step: Floats
    cpu_hz: Floats
    power_watt: Floats
    bandwidth_hz: Floats
    block: Ints  # resource block, -1 for none
    payload_bit: Floats
    deadline_s: float  # uploads that end later are lost
    round_s: float | None = None  # fixes the length of the round; None: as the world's clock says
    mask: "Tensor | None" = None  # [n_selected, n_params] or [n_params], entries that train; others stay
    info: Mapping[str, float] = {}  # extra columns for the row
    budget_joule: float | None = None  # energy at which each device stops; None: its budget of the round or its charge
    download_bit: Floats | None = None  # [n_devices], what a device is sent before it trains; None: the whole model


class Start(NamedTuple):
    """Where local training begins: one point for all, one per cell, or one per device."""

    points: "Tensor"  # [n_points, n_params]
    of_row: Ints  # [n_rows], the point each trained device starts from
    own: "Tensor | None" = None  # [n_rows, n_own], running statistics of each, and what stays with them; see learn


class Updates(NamedTuple):
    """What local training made: one row per trained device that is sent, and what the device keeps for itself.

    A row is what moved the model, `end - start`, unless a method sends something else. `kept` never crosses the
    channel: it costs no bits, a number in it that is not finite turns no upload away, and `aggregate` gets it of every
    trained device, heard or not, to remember it.
    """

    device: Ints  # [n_rows], ascending
    rows: "Tensor | Rows"  # [n_rows, n_sent] float32; those of a large cohort are trained when asked for
    kept: Any = None  # tensors or arrays [n_rows, ...], or a tree of them: NamedTuples, tuples, lists, dicts
    bit: Floats | None = None  # [n_rows], bits of each row on the simulated air; None: `payload_bit` of the decision
    tail: "Tensor | None" = None  # [n_rows, n_tail], running statistics that are sent beside the row, as they are now

    @property
    def delta(self) -> "Tensor":
        """All rows in memory, `[n_rows, n_params]`."""
        return self.rows.matrix() if is_deferred(self.rows) else self.rows

    def finite(self) -> Bools:
        """Which rows hold finite numbers alone, `[n_rows]`."""
        fine = self.rows.finite() if is_deferred(self.rows) else finite_rows(self.rows)
        return fine if self.tail is None else fine & finite_rows(self.tail)


class Rows(Protocol):
    """Rows that are trained, or decoded, when they are asked for."""

    def matrix(self) -> "Tensor": ...

    def finite(self) -> Bools: ...

    def add_up(self, chosen: Bools, weights: Floats) -> "Tensor": ...


def is_deferred(rows: "Tensor | Rows") -> "TypeIs[Rows]":
    """Whether rows are made when they are asked for."""
    return hasattr(rows, "add_up")


def finite_rows(delta: "Tensor") -> Bools:
    """Which rows of a matrix hold finite numbers alone, `[n_rows]`."""
    if delta.is_cpu and delta.numel() < ONE_THREAD:
        with np.errstate(over="ignore", invalid="ignore"):  # that is what is looked for
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
    """What a round cost, and what arrived. All `[n_devices]` but the numbers; None stands for zeros.

    In a simulation all of it follows from the model of devices and channels. In a federation of real devices seconds
    are measured, bits are those that were sent, and joules are 0: `measured_joule` and `estimated_joule` are among the
    metrics of a row instead.
    """

    compute_s: Floats
    upload_s: Floats
    compute_joule: Floats
    radio_joule: Floats
    sent_bit: Floats  # on the air; of real devices, those of the arrays in their answers, in NumPy's format
    outcome: Ints  # Outcome codes
    round_s: float  # how long the round lasted
    receive_joule: Floats | None = None  # of listening to the base station
    downlink_bit: float = 0.0  # sent by the base stations; a federation has a column of its own for it
    idle_joule: Floats | None = None  # of standing by, as far as batteries went
    end_s: Floats | None = None  # when each was done or gave up, from the start of the round; None: not known
    sums: Mapping[str, float] | None = None  # columns about sums that were received over the air
    station_watt: Floats | None = None  # [n_cells, n_blocks or 1], interference that stations measured, if asked for

    @property
    def spent_joule(self) -> Floats:
        """Energy of every device."""
        spent = self.compute_joule + self.radio_joule
        for more in (self.receive_joule, self.idle_joule):
            spent = spent if more is None else spent + more
        return spent

    @property
    def columns(self) -> dict[str, float]:
        """What the row of a round says beside the costs that every round has."""
        found: dict[str, float] = {}
        if self.receive_joule is not None:
            found |= {"downlink_bit": self.downlink_bit, "receive_joule": float(self.receive_joule.sum())}
        if self.idle_joule is not None:
            found["idle_joule"] = float(self.idle_joule.sum())
        return found if self.sums is None else {**found, **self.sums}

    def some(self, device: Ints) -> "Uplink":
        """Some devices alone; the numbers of the round stay."""
        own = self._replace(station_watt=None)
        return Uplink._make(part[device] if isinstance(part, np.ndarray) else part for part in own)

    @property
    def delivered(self) -> Bools:
        return np.asarray(self.outcome == DELIVERED)

    @property
    def letters(self) -> str:
        """The outcomes as one text, a letter per device."""
        return np.frombuffer(LETTERS.encode(), dtype=np.uint8)[self.outcome].tobytes().decode()


class Round(NamedTuple):
    """What was seen, decided, trained and heard: all that `aggregate` has to go by."""

    observation: Observation
    decision: Decision
    updates: Updates
    uplink: Uplink

    def received(self) -> tuple[Ints, "Tensor"]:
        """(devices, their update rows) that the server got."""
        arrived = self.uplink.delivered[self.updates.device]
        if arrived.all():
            return self.updates.device, self.updates.delta
        return self.updates.device[arrived], self.updates.delta[arrived]

    def heard(self) -> Ints:
        """The devices whose updates the server got."""
        return self.updates.device[self.uplink.delivered[self.updates.device]]

    def add_up(self, weights: Floats) -> "Tensor":
        """`sum_k weights[k] * row[k]` over the devices heard (at least one). Training may happen here.

        Args:
            weights: `[n_heard]`, or `[m, n_heard]` for as many sums, which have the bits that each has alone.

        Returns: `[n_sent]`, or `[m, n_sent]`.
        """
        n_heard = int(np.count_nonzero(self.uplink.delivered[self.updates.device]))
        if weights.shape[-1] != n_heard:
            what = f"add_up() got weights of {weights.shape[-1]} devices and {n_heard} were heard"
            raise ContractError(f"{what}: give one for each of heard()")
        if is_deferred(self.updates.rows):
            return self.updates.rows.add_up(self.uplink.delivered[self.updates.device], weights)
        _, rows = self.received()
        factor = rows.new_tensor(weights.astype(np.float32))
        if factor.dim() == 1:
            return factor @ rows
        sums = rows.new_empty((len(factor), rows.shape[1]))
        for total, one in zip(sums, factor, strict=True):
            total.copy_(one @ rows)
        return sums


class Row(NamedTuple):
    """One line of the record. Costs are this round's; the clock runs from the start."""

    round: int
    clock_s: float
    round_s: float
    n_selected: int
    n_delivered: int
    compute_joule: float
    radio_joule: float
    uplink_bit: float  # as of `Uplink.sent_bit`: of a federation, arrays as they were sent, refused ones included
    outcome: str  # one letter per device, see Outcome
    metrics: Mapping[str, float]  # those of the task when evaluated, and a method's own columns

    @property
    def joule(self) -> float:
        """Energy of all devices: computing and sending; listening and standing by if the world counts them."""
        more = self.metrics.get("receive_joule", 0.0) + self.metrics.get("idle_joule", 0.0)
        return self.compute_joule + self.radio_joule + more


class Snapshot(NamedTuple):
    """Everything a run needs to go on from here: the state before round `round`."""

    round: int
    params: "Tensor"  # [n_params]
    method: Any  # the method's state: a tree of tensors, arrays and numbers
    world: WorldState


# ---------------------------------------------------------------- what a method is


class Problem(NamedTuple):
    """The fixed surroundings of a run, handed to every function of a method."""

    world: World
    learner: "Learner"
    train: "TrainConfig"
    seed: int
    n_rounds: int
    eval_every: int = 1
    scaling: "Scaling | None" = None  # what was done to every sample; None: nothing
    hopeless_loss: float = 1e6  # a test loss from which on a run has diverged, by the task


def as_is(problem: Problem, state: Any, updates: Updates, observation: Observation, decision: Decision) -> Updates:
    """The `encode` of methods that send rows as they are, in the bits that were decided."""
    return updates


def at_once(problem: Problem, params: "Tensor", state: Any, sent: Round) -> tuple[Round, Any]:
    """The `collect` of synchronous methods: what devices send in a round reaches the server in it."""
    return sent, state


class Method(NamedTuple):
    """A federated-learning method: seven pure functions around an explicit state.

    Start from `fedcell.methods.parts.defaults.default(config)` and replace what the paper changes. The state is
    any tree of NamedTuples, tuples, lists and dicts with tensors, arrays, numbers, texts and None, so that a run can
    be saved and resumed.

    `scope` says what one server is where every base station keeps an edge model (`world.edge_rounds`):
    `cell`: each cell is a network of its own, with its own state; `network`: `decide` sees all cells at
    once and gets the tuple of their states, everything else is done cell by cell; `server`: there are no
    edge models, base stations relay to the one server.

    The updates of a large cohort lie in memory together only if `aggregate` asks for them (`Round.received`). If it
    asks for sums alone (`Round.add_up`), they are added up as they are trained; `aggregate` is then called once
    beforehand, with zeros for sums, to learn which sums those are.

    `sends` says what the rows of `local` are: `updates` of the shared model, which codings go with, or other words.

    `own_networks` says that devices may have networks of different architectures (`model.widths`): no model of one is
    ever used by another.

    `statistics` says how the method goes with running statistics of a network (batch norm). `apart`: it has parameters
    alone, and `methods.parts.statistics` does the rest; `refused`: it does not; `within`: its vectors have them.
    `shares(observation, device)` weighs the devices heard, `[n_heard]`, in the mean of their statistics; None: by
    samples. `clean(rows)` gives the rows of statistics as a robust rule leaves them, and which of them count.

    `personal(problem, params, state, device)` gives the models of some devices, `[n, n_params]`, if devices use any but
    the global one: those that users take home (`fedcell export --device-id`).

    `foretell(problem, params, state, x)` gives class probabilities `[n_devices, n_classes]` for one input per device. A
    method says so only if devices predict by anything but the model that `broadcast` gives them.

    `needs_labels` says that the method looks at class labels: runs of other tasks than classification refuse it.

    `collect(problem, params, state, sent)` gives the round as the server sees it, and the state: what arrived in it and
    how long it lasted, if updates may be on the way for longer than a round (`methods.parts.over_time`).

    `needs_rows` says that `aggregate` asks for the updates of single devices (`Round.received`), which nobody has if
    devices send at once (`world.access = air`): such runs refuse it.

    `name` is what messages call the method; whoever picks a method by its name sets it.
    """

    init: Callable[[Problem, "Tensor"], Any]
    decide: Callable[[Problem, Any, Observation], Decision]
    broadcast: Callable[[Problem, "Tensor", Any, Observation, Decision], Start]
    local: Callable[[Problem, Any, Start, Observation, Decision], Updates]
    aggregate: Callable[[Problem, "Tensor", Any, Round], tuple["Tensor", Any]]
    evaluate: Callable[[Problem, "Tensor", Any], Mapping[str, float]]
    encode: Callable[[Problem, Any, Updates, Observation, Decision], Updates] = as_is
    scope: str = "cell"
    sends: str = "updates"
    own_networks: bool = False
    foretell: "Callable[[Problem, Tensor, Any, Tensor], Floats] | None" = None
    statistics: str = "apart"
    shares: Callable[[Observation, Ints], Floats] | None = None
    clean: "Callable[[Tensor], tuple[Tensor, Bools]] | None" = None
    personal: "Callable[[Problem, Tensor, Any, Ints], Tensor] | None" = None
    needs_labels: bool = False
    collect: Callable[[Problem, "Tensor", Any, Round], tuple[Round, Any]] = at_once
    needs_rows: bool = False
    name: str = "this method"


Seam = TypeVar("Seam", bound=Callable[..., Any])


def stateless(local: Seam) -> Seam:
    """Mark a `local` that never looks at the state of its method: over edge models it trains all cells in one call."""
    local.stateless = True  # type: ignore[attr-defined]
    return local


def is_stateless(local: Callable[..., Updates]) -> bool:
    """Whether a `local`, or the function behind a `partial`, is marked so."""
    return getattr(getattr(local, "func", local), "stateless", False)


def of_means(aggregate: Seam) -> Seam:
    """Mark an `aggregate` that takes a mean of the rows heard and nothing else of a round.

    Its weights sum to one, and neither who is heard nor what devices keep has a say. A server that gets the sum of a
    round alone can call it with one row, the mean.
    """
    aggregate.of_means = True  # type: ignore[attr-defined]
    return aggregate


def takes_means(aggregate: Callable[..., Any]) -> bool:
    """Whether an `aggregate`, or the function behind a `partial`, is marked so."""
    return getattr(getattr(aggregate, "func", aggregate), "of_means", False)


class Environment(NamedTuple):
    """Where rounds are played: in a simulation, on real devices, or in a rehearsal with made-up answers."""

    observe: Callable[[Problem, Snapshot], tuple[Observation, WorldState]]
    carry_out: Callable[[Problem, Method, Any, Start, Observation, Decision], Round]  # train, encode, send
    settle: Callable[[Problem, WorldState, Uplink], WorldState]  # batteries, clock
