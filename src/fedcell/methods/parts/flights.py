"""What is on the way on an event clock: the settings of asynchronous methods, their state, and worlds that refuse them.

`over_time` has the clock. Not a method itself: it has no `build`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ...errors import BadInput
from ...learn.memory import require
from ...options import option
from ...types import DELIVERED, Floats, Ints, Observation, Outcome, Problem
from . import parcels
from .defaults import LocalConfig, name_of
from .parcels import Parcels
from .staleness import StalenessConfig

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
    """Refuse worlds in which devices cannot be on the way for longer than a round."""
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


def fates(state: Flights, seen: Observation) -> Ints:
    """The outcome of the work on the way, if it ended in this row: a device that is switched off loses its upload.

    A device whose battery is empty is not switched off: its last charge sent the upload.
    """
    off = ~seen.available & (seen.battery_joule > 0) & (seen.store.size > 0)
    return np.where(off & (state.fate == DELIVERED), int(Outcome.OUTAGE), state.fate)


def later(state: Flights, ended: Ints, arrived: Ints, round_s: float) -> Flights:
    """The state at the end of the row; devices that ended are free."""
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


def columns(state: Flights, arrived: Ints, n_started: int) -> dict[str, float]:
    """Extra columns of the row: arrivals, their staleness, devices that started and devices on the way."""
    tau = state.staleness[arrived]
    return {
        "arrivals": float(len(arrived)),
        "stale_mean": float(tau.mean()) if len(tau) else 0.0,
        "stale_max": float(tau.max(initial=0)),
        "started": float(n_started),
        "in_flight": float(np.count_nonzero(state.fate)),
    }
