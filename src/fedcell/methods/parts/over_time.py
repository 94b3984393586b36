"""An event clock: devices are busy until they answer, and the server steps while others are still on the way.

At the start of a row every free and available device gets the model, if the radio has room for it, and is busy until
its own end: listening, computing and sending take the seconds that `radio.transmit` gives. The row ends with the
arrival that lets the server step (`Stepping`), and its clock is that of this arrival. The row marks what ended by then:
`D` arrived, or the letter of what went wrong, after which the device is free again and its update never arrives.

- The channel that an upload meets is that of the row in which its device started. The deadline counts from that start.
- A device pays joules and bits in the row in which it starts, even if its update is never used.
- A device holds its share of the band, or its block, until its end. Shares are those of as many devices as may be on
  the way at once. Interference that devices make is that of those that start together.
- A device that is switched off in the row in which its upload would end loses it.
- A device that has answered waits for the next row: until then the server has no newer model for it.
- If nobody is on the way any more, the server steps with what has arrived, however little.
- Updates on the way lie in memory, twice at most (`parcels`); `init` refuses more than fits.

Not a method itself: it has no `build`.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import radio
from ...errors import Diverged
from ...types import DELIVERED, Floats, Ints, Method, Outcome, Problem, Round, Updates
from . import parcels
from .flights import FREE, Flights, OverTimeConfig, Stepping, columns, fates, init, later
from .parcels import Parcels
from .starting import decide


def over_time(config: OverTimeConfig, method: Method, stepping: Stepping) -> Method:
    """A method whose `aggregate` gets the updates that arrived, and `Flights` as its state, on an event clock."""
    return method._replace(
        init=partial(init, config, stepping), decide=partial(decide, config), collect=partial(collect, stepping)
    )


# ---------------------------------------------------------------- a row


def collect(stepping: Stepping, problem: Problem, params: Tensor, state: Flights, sent: Round) -> tuple[Round, Flights]:
    """The round as the server sees it: what ended in it, how long it lasted, and the updates that arrived."""
    n_started = int(np.count_nonzero(sent.decision.selected))
    state = _started(stepping, params, state, sent)
    fate = fates(state, sent.observation)
    ended, round_s = _ended(stepping, state, fate, sent.uplink.round_s)
    arrived = np.sort(ended[fate[ended] == DELIVERED])
    updates, left = _unloaded(stepping, params, state, ended, arrived)
    state = later(state._replace(parcels=left), ended, arrived, round_s)
    told = columns(state, arrived, n_started)
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
