"""An event clock: devices are busy until they answer, and the server steps while others are still on the way.

At the start of a row every free and available device gets the model, if the radio has room for it, and is busy until
its own end: listening, computing and sending take the seconds that `radio.transmit` gives. The row ends with the
arrival that lets the server step (`Stepping`), and its clock is that of this arrival. The row marks what ended by then:
`D` arrived, or the letter of what went wrong, after which the device is free again and its update never arrives.

- The channel that an upload meets is that of the row in which its device started. The deadline counts from that start.
- A device pays joules and bits in the row in which it starts, also if its update is never used.
- A device holds its share of the band, or its block, until its end. Shares are those of as many devices as may be on
  the way at once. Interference that devices make is that of those that start together.
- A device that is switched off in the row in which its upload would end loses it.
- A device that has answered waits for the next row: until then it could only get the model that it has had.
- If nobody is on the way any more, the server steps with what has arrived, however little.
- Updates on the way lie in memory, twice at most (`parcels`); `init` refuses more than fits.

Not a method itself: it has no `build`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ... import radio
from ...errors import BadInput, Diverged
from ...learn.memory import require
from ...options import option
from ...types import DELIVERED, Floats, Ints, Method, Observation, Outcome, Problem, Round, Updates
from . import parcels
from .defaults import LocalConfig, name_of
from .parcels import Parcels
from .staleness import StalenessConfig
from .starting import decide

FREE = int(Outcome.IDLE)


@dataclass(frozen=True)
class OverTimeConfig(StalenessConfig, LocalConfig):
    """Settings that every asynchronous method has."""

    scheduler: str = option(
        "all",
        "who gets the model of those that are free, if not all may",
        choices=("all", "random", "round-robin", "best-channel", "fastest"),
    )
    n_selected: int = option(
        10,
        "devices of a cell that are on the way at once, except by the scheduler `all`",
        least=1,
        needs="scheduler!=all",
    )


class Stepping(NamedTuple):
    """When the server steps: with the `n_arrivals`-th arrival, or every so many seconds."""

    n_arrivals: int = 0  # 0: by time
    period_s: float | None = None  # None: half of the devices that start first need no longer
    models: bool = False  # what arrives is the difference of a device's model to that of the server, not to its start


class Flights(NamedTuple):
    """What is on the way, `[n_devices]` each; the state of an asynchronous method."""

    fate: Ints  # the Outcome at the end of the work; FREE: the device is free
    left_s: Floats  # until then
    version: Ints  # server steps that the model it got has behind it
    staleness: Ints  # of its last update that arrived: server steps between getting the model and arriving
    cell: Ints  # that it started in
    bandwidth_hz: Floats  # that it holds
    block: Ints  # that it holds, -1 for none
    payload_bit: Floats
    parcels: Parcels  # the updates
    n_steps: int  # of the server
    period_s: float  # of its steps; 0: not known or none


def over_time(config: OverTimeConfig, method: Method, stepping: Stepping) -> Method:
    """A method whose `aggregate` gets the updates that arrived, and `Flights` as its state, on an event clock."""
    return method._replace(
        init=partial(init, config, stepping), decide=partial(decide, config), collect=partial(collect, stepping)
    )


def init(config: OverTimeConfig, stepping: Stepping, problem: Problem, params: Tensor) -> Flights:
    _refuse(config, stepping, problem)
    n = problem.world.n_devices
    at_once = n if config.scheduler == "all" else min(n, config.n_selected * problem.world.n_cells)
    if params.is_cpu:
        what = f"updates of {at_once} devices on the way (2 x {at_once} x {len(params)} parameters x 4)"
        require(8 * at_once * len(params), what)
    zeros, nothing = np.zeros(n), np.zeros(n, dtype=np.int64)
    return Flights(
        fate=nothing,
        left_s=zeros,
        version=nothing,
        staleness=nothing,
        cell=nothing,
        bandwidth_hz=zeros,
        block=np.full(n, -1),
        payload_bit=zeros,
        parcels=parcels.nothing(n),
        n_steps=0,
        period_s=stepping.period_s or 0.0,
    )


def _refuse(config: OverTimeConfig, stepping: Stepping, problem: Problem) -> None:
    """Refuse worlds that have no place for devices which are on the way for longer than a round."""
    settings, name = problem.world.settings, name_of(config)
    if settings.edge_rounds:
        raise BadInput(
            f"{name} does not go with world.edge_rounds = {settings.edge_rounds}: edge models are averaged when all "
            "cells end a round together, so set world.edge_rounds=0, or use a synchronous method"
        )
    if settings.access not in ("fdma", "own_band", "block"):
        raise BadInput(
            f"{name} does not go with world.access = {settings.access!r}, which is planned for devices that start "
            "together: use fdma, own_band or block"
        )
    if settings.response != "computed" and stepping.n_arrivals and settings.n_fast >= stepping.n_arrivals:
        raise BadInput(
            f"{name} steps with arrival {stepping.n_arrivals} and world.n_fast = {settings.n_fast} devices answer at "
            "once, so that its clock would stand still: lower world.n_fast"
        )
    if problem.learner.n_own and not problem.learner.architectures[0].tail.sent:
        raise BadInput(f"{name} does not go with model.buffers = 'local': use average or frozen")


# ---------------------------------------------------------------- a row


def collect(stepping: Stepping, problem: Problem, params: Tensor, state: Flights, sent: Round) -> tuple[Round, Flights]:
    """The round as the server sees it: what ended in it, how long it lasted, and the updates that arrived."""
    n_started = int(np.count_nonzero(sent.decision.selected))
    state = _started(stepping, params, state, sent)
    fate = _fates(state, sent.observation)
    ended, round_s = _ended(stepping, state, fate, sent.uplink.round_s)
    arrived = np.sort(ended[fate[ended] == DELIVERED])
    updates, left = _unloaded(stepping, params, state, ended, arrived)
    state = _later(state._replace(parcels=left), ended, arrived, round_s)
    told = _columns(state, arrived, n_started)
    outcome = np.zeros_like(fate)
    outcome[ended] = fate[ended]
    decision = sent.decision._replace(
        selected=outcome != FREE, payload_bit=state.payload_bit, info={**sent.decision.info, **told}
    )
    uplink = sent.uplink._replace(outcome=outcome, round_s=round_s)
    watt, charge = sent.observation.devices.idle_watt, sent.observation.battery_joule
    return Round(sent.observation, decision, updates, radio.standing_by(uplink, watt, charge)), state


def _started(stepping: Stepping, params: Tensor, state: Flights, sent: Round) -> Flights:
    """The state with those that start in this row; of the updates, those that will arrive."""
    uplink, decision, updates = sent.uplink, sent.decision, sent.updates
    device = np.flatnonzero(decision.selected)
    if not len(device):
        return state
    assert uplink.end_s is not None
    rows = updates.delta  # trained here, if not before
    fate = state.fate.copy()
    fate[device] = radio.mark_invalid(uplink, updates.device[~updates.finite()]).outcome[device]
    if (fate[fate != FREE] == Outcome.INVALID).all():
        what = f"round {sent.observation.round}: all {np.count_nonzero(fate)} updates on the way are not finite"
        raise Diverged(f"{what}: lower the learning rate")
    fine = np.flatnonzero(fate[updates.device] == DELIVERED)
    if len(fine) < len(rows):
        rows = rows[torch.from_numpy(fine).to(rows.device)]
    tail = updates.tail if updates.tail is None else updates.tail[torch.from_numpy(fine).to(rows.device)]
    if stepping.models:
        rows = rows + params[: rows.shape[1]]  # what is behind belongs to the tail

    def with_new(old: Any, new: Any) -> Any:
        both = old.copy()
        both[device] = new[device] if isinstance(new, np.ndarray) else new
        return both

    return state._replace(
        fate=fate,
        left_s=with_new(state.left_s, uplink.end_s),
        version=with_new(state.version, state.n_steps),
        cell=with_new(state.cell, sent.observation.topology.cell),
        bandwidth_hz=with_new(state.bandwidth_hz, decision.bandwidth_hz),
        block=with_new(state.block, decision.block),
        payload_bit=with_new(state.payload_bit, decision.payload_bit),
        parcels=parcels.sent_off(state.parcels, sent.observation.round, updates.device[fine], rows, tail),
        period_s=state.period_s or (0.0 if stepping.n_arrivals else _half_s(uplink.end_s[device])),
    )


def _half_s(end_s: Floats) -> float:
    """When half of the devices are done, of those that ever are."""
    finite = end_s[np.isfinite(end_s)]
    return float(np.median(finite)) if len(finite) else 0.0


def _fates(state: Flights, seen: Observation) -> Ints:
    """What becomes of those whose work ends in this row: an upload of a device that is switched off is lost.

    A device whose charge is spent has sent with the last of it.
    """
    off = ~seen.available & (seen.battery_joule > 0) & (seen.store.size > 0)
    return np.where(off & (state.fate == DELIVERED), int(Outcome.OUTAGE), state.fate)


def _ended(stepping: Stepping, state: Flights, fate: Ints, nobody_s: float) -> tuple[Ints, float]:
    """The devices whose work ends in this row, in order of time (the lower number first), and its length."""
    device = np.flatnonzero((state.fate != FREE) & np.isfinite(state.left_s))
    device = device[np.argsort(state.left_s[device], kind="stable")]
    if not stepping.n_arrivals and state.period_s:
        return device[state.left_s[device] <= state.period_s], state.period_s
    if not len(device):
        return device, nobody_s
    n_arrived = np.cumsum(fate[device] == DELIVERED)
    device = device[: int(np.searchsorted(n_arrived, stepping.n_arrivals)) + 1]
    return device, float(state.left_s[device[-1]])


def _unloaded(
    stepping: Stepping, params: Tensor, state: Flights, ended: Ints, arrived: Ints
) -> tuple[Updates, Parcels]:
    """The updates that arrived, and the parcels without all that ended."""
    gone = np.sort(ended[state.fate[ended] == DELIVERED])  # some may be lost at the last moment
    left, rows, tails = parcels.taken(state.parcels, gone)
    came = np.flatnonzero(np.isin(gone, arrived))
    if not len(came):
        return Updates(arrived, params.new_empty((0, len(params)))), left
    delta = torch.stack([rows[k] for k in came])
    if stepping.models:
        delta -= params[: delta.shape[1]]
    return Updates(arrived, delta, tail=torch.stack([tails[k] for k in came]) if tails else None), left


def _later(state: Flights, ended: Ints, arrived: Ints, round_s: float) -> Flights:
    """The state at the end of the row: who ended is free."""
    fate, band, block = state.fate.copy(), state.bandwidth_hz.copy(), state.block.copy()
    fate[ended], band[ended], block[ended] = FREE, 0.0, -1
    staleness = state.staleness.copy()
    staleness[arrived] = state.n_steps - state.version[arrived]
    return state._replace(
        fate=fate,
        left_s=np.where(fate == FREE, 0.0, np.maximum(state.left_s - round_s, 0.0)),
        staleness=staleness,
        bandwidth_hz=band,
        block=block,
        n_steps=state.n_steps + bool(len(arrived)),
    )


def _columns(state: Flights, arrived: Ints, n_started: int) -> dict[str, float]:
    """What the row says beside the costs that every row has."""
    tau = state.staleness[arrived]
    return {
        "arrivals": float(len(arrived)),
        "stale_mean": float(tau.mean()) if len(tau) else 0.0,
        "stale_max": float(tau.max(initial=0)),
        "started": float(n_started),
        "in_flight": float(np.count_nonzero(state.fate)),
    }
