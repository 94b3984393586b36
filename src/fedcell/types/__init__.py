"""The values that travel around the loop, and the bundle of functions that is a method.

Per-device arrays have a leading device axis of length `n_devices` and are float64, int64 or bool;
unselected devices are masked, never removed. Model vectors are the exception: training touches only
the selected devices, so `Start` and `Updates` hold one float32 row per *trained* device and say which.

`world` defines what is fixed and what a run carries from round to round, `sending` what devices make and send. Import
both from here.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..errors import ContractError
from .sending import DELIVERED, LETTERS, Outcome, Rows, Start, Updates, Uplink, finite_rows, is_deferred
from .world import Arrived, Bools, Devices, Floats, Ints, Store, Stream, Tally, Topology, World, WorldState

if TYPE_CHECKING:  # annotations only: nothing below imports upwards at run time
    from torch import Tensor

    from ..data.scaling import Scaling
    from ..learn.learner import Learner
    from ..learn.settings import TrainConfig

__all__ = [
    "DELIVERED",
    "LETTERS",
    "Arrived",
    "Bools",
    "Decision",
    "Devices",
    "Environment",
    "Floats",
    "Ints",
    "Method",
    "Observation",
    "Outcome",
    "Problem",
    "Round",
    "Row",
    "Rows",
    "Snapshot",
    "Start",
    "Store",
    "Stream",
    "Tally",
    "Topology",
    "Updates",
    "Uplink",
    "World",
    "WorldState",
    "as_is",
    "at_once",
    "finite_rows",
    "is_deferred",
    "is_stateless",
    "of_means",
    "stateless",
    "takes_means",
]


# ---------------------------------------------------------------- what happens in a round


class Observation(NamedTuple):
    """What is known when a round begins. Everything here is the same for every method on one seed."""

    round: int
    gain: Floats  # [n_devices], path loss x shadowing x fading towards the own base station
    mean_gain: Floats  # [n_devices], averaged over the fading; outage is computed from it
    interference_watt: Floats  # [n_blocks]; a forecast [n_devices, n_blocks or 1] if devices cause it
    available: Bools  # [n_devices], switched on and with charge left
    response_s: Floats | None  # [n_devices], time to answer if the world draws it instead of computing it
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
    round_s: float | None = None  # fixes the length of the round; None: the world's clock decides
    mask: "Tensor | None" = None  # [n_selected, n_params] or [n_params], entries that train; others stay
    info: Mapping[str, float] = {}  # extra columns for the row
    budget_joule: float | None = None  # energy at which each device stops; None: its budget of the round or its charge
    download_bit: Floats | None = None  # [n_devices], sent to each device before it trains; None: the whole model


class Round(NamedTuple):
    """One round as `aggregate` gets it: what was observed, decided, trained and heard."""

    observation: Observation
    decision: Decision
    updates: Updates
    uplink: Uplink

    def received(self) -> tuple[Ints, "Tensor"]:
        """(devices, their update rows) that the server got."""
        arrived = self.arrived
        if arrived.all():
            return self.updates.device, self.updates.delta
        return self.updates.device[arrived], self.updates.delta[arrived]

    @property
    def arrived(self) -> Bools:
        """Which rows of the updates the server got, `[n_rows]`."""
        return np.asarray(self.uplink.outcome[self.updates.device] == DELIVERED)

    def heard(self) -> Ints:
        """The devices whose updates the server got."""
        return self.updates.device[self.arrived]

    def add_up(self, weights: Floats) -> "Tensor":
        """`sum_k weights[k] * row[k]` over the devices heard (at least one). Training may happen here.

        Args:
            weights: `[n_heard]`, or `[m, n_heard]` for `m` sums, each bit-identical to the same sum computed alone.

        Returns: `[n_sent]`, or `[m, n_sent]`.
        """
        arrived = self.arrived
        n_heard = int(np.count_nonzero(arrived))
        if weights.shape[-1] != n_heard:
            what = f"add_up() got weights of {weights.shape[-1]} devices and {n_heard} were heard"
            raise ContractError(f"{what}: give one for each of heard()")
        if is_deferred(self.updates.rows):
            return self.updates.rows.add_up(arrived, weights)
        rows = self.updates.delta if n_heard == len(arrived) else self.updates.delta[arrived]
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
    uplink_bit: float  # see `Uplink.sent_bit`; in a federation it includes refused answers
    outcome: str  # one letter per device, see Outcome
    metrics: Mapping[str, float]  # the task's metrics if the round was evaluated, and the method's own columns

    @property
    def joule(self) -> float:
        """Energy of all devices: computing and sending, plus listening and idling if the world counts them."""
        more = self.metrics.get("receive_joule", 0.0) + self.metrics.get("idle_joule", 0.0)
        return self.compute_joule + self.radio_joule + more


class Snapshot(NamedTuple):
    """Everything a run needs to resume from here: the state before round `round`."""

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
    scaling: "Scaling | None" = None  # applied to every sample; None: no scaling
    hopeless_loss: float = 1e6  # a run has diverged once its test loss reaches this; depends on the task


def as_is(problem: Problem, state: Any, updates: Updates, observation: Observation, decision: Decision) -> Updates:
    """The `encode` of methods that send rows unchanged, in the `payload_bit` of the decision."""
    return updates


def at_once(problem: Problem, params: "Tensor", state: Any, sent: Round) -> tuple[Round, Any]:
    """The `collect` of synchronous methods: updates reach the server in the round in which devices send them."""
    return sent, state


class Method(NamedTuple):
    """A federated-learning method: eight pure functions around an explicit state.

    Start from `fedcell.methods.parts.defaults.default(config)` and replace what the paper changes. The state is
    any tree of NamedTuples, tuples, lists and dicts with tensors, arrays, numbers, texts and None, so that a run can
    be saved and resumed.

    `scope` tells what one server covers if every base station keeps an edge model (`world.edge_rounds`):
    `cell`: each cell is a network of its own, with its own state; `network`: `decide` sees all cells at
    once and gets the tuple of their states, everything else is done cell by cell; `server`: there are no
    edge models, base stations relay to the one server.

    The updates of a large cohort are all in memory only if `aggregate` asks for them (`Round.received`). If it only
    asks for sums (`Round.add_up`), updates are added up as they are trained. To find out which sums it needs,
    `aggregate` is first called once with zeros in their place.

    `sends` describes the rows of `local`: `updates` of the shared model, which codings can encode, or other words.
    `updates with ... beside them` are updates too; what is beside them is sent uncoded, and `decide` counts its bits.

    `own_networks`: devices may have networks of different architectures (`model.widths`), because no device ever uses
    the model of another.

    `statistics` tells how the method treats the running statistics of a network (batch norm). `apart`: the method only
    sees parameters, and `methods.parts.statistics` does the rest; `refused`: the method refuses such networks;
    `within`: its vectors include the statistics. `shares(observation, device)` returns the weights `[n_heard]` of the
    devices heard in the mean of their statistics; None: weights by samples. `clean(rows)` returns the rows of
    statistics after a robust rule, and which of them count.

    `personal(problem, params, state, device)` returns the models `[n, n_params]` that some devices use, if these are
    not the global one; `fedcell export --device-id` writes them.

    `foretell(problem, params, state, x)` returns class probabilities `[n_devices, n_classes]` for one input per device.
    Define it only if devices predict with something else than the model that `broadcast` gives them.

    `needs_labels`: the method looks at class labels, so runs of other tasks than classification refuse it.

    `collect(problem, params, state, sent)` returns the round as the server sees it, and the state. The round tells what
    arrived and how long it lasted, if updates may be under way for longer than a round (`methods.parts.over_time`).

    `needs_rows`: `aggregate` asks for the updates of single devices (`Round.received`). Nobody has these if devices
    send at the same time (`world.access = air`), so such runs refuse the method.

    `name` is what messages call the method; code that picks a method by its name sets it.
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

    @property
    def sends_updates(self) -> bool:
        """Whether rows are updates of the shared model, whatever is beside them."""
        return self.sends.startswith("updates")


Seam = TypeVar("Seam", bound=Callable[..., Any])


def stateless(local: Seam) -> Seam:
    """Mark a `local` that never looks at the state of its method: over edge models it trains all cells in one call."""
    local.stateless = True  # type: ignore[attr-defined]
    return local


def is_stateless(local: Callable[..., Updates]) -> bool:
    """Whether a `local`, or the function behind a `partial`, is marked with `stateless`."""
    return getattr(getattr(local, "func", local), "stateless", False)


def of_means(aggregate: Seam) -> Seam:
    """Mark an `aggregate` that only uses a mean of the rows heard, and nothing else of a round.

    Its weights sum to one, and it depends neither on who is heard nor on what devices keep. A server that only gets the
    sum of a round can call it with one row, the mean.
    """
    aggregate.of_means = True  # type: ignore[attr-defined]
    return aggregate


def takes_means(aggregate: Callable[..., Any]) -> bool:
    """Whether an `aggregate`, or the function behind a `partial`, is marked with `of_means`."""
    return getattr(getattr(aggregate, "func", aggregate), "of_means", False)


class Environment(NamedTuple):
    """Where rounds are played: in a simulation, on real devices, or in a rehearsal with made-up answers."""

    observe: Callable[[Problem, Snapshot], tuple[Observation, WorldState]]
    carry_out: Callable[[Problem, Method, Any, Start, Observation, Decision], Round]  # train, encode, send
    settle: Callable[[Problem, WorldState, Uplink], WorldState]  # batteries, clock
