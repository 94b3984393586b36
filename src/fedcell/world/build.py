"""Build a world, and carry it through the rounds.

Every draw is keyed by (seed, round, purpose) and made for all devices, so two methods on one seed meet
the same world whatever they decide, and changing one setting leaves the draws of the others alone.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from .. import rng
from ..errors import BadInput, ContractError
from ..options import check
from ..radio.cost import open_loop_watt
from ..radio.crosstalk import foreseen
from ..types import Arrived, Bools, Devices, Floats, Observation, Stream, Topology, Uplink, World, WorldState
from ..units import dbm_to_watt
from .attack import attackers
from .channel import channels, gains_to_all, interference_watt
from .devices import PLACES, draw_devices, redraw_cpu, switched_on, table_lines
from .energy import gained_joule, on_now, settled
from .motion import MOVING, positions_m
from .response import read_trace, response_s
from .settings import WorldConfig
from .topology import place, to_stations_m

if TYPE_CHECKING:
    from torch import Tensor

Ask = Callable[["Tensor"], Floats]


def build_world(
    settings: WorldConfig, stream: Stream, n_params: int, flops_per_sample: float | Floats, seed: int
) -> World:
    """Draw everything that is fixed for a run.

    Args:
        settings: the world's settings, checked here.
        stream: how samples reach the stores.
        n_params: parameters of the model, which give the payload of a full update.
        flops_per_sample: floating-point operations of the model on one sample, or of the model of each device.
        seed: of the run.
    """
    check(settings, "world.")
    topology = places(settings, seed, rng.SETUP)
    topology.distance_m.flags.writeable = False  # path losses of a world that stands still are computed once
    return World(
        settings=settings,
        devices=draw_devices(settings, flops_per_sample, seed),
        topology=topology,
        stream=stream.at(topology) if stream.at else stream,
        interference_watt=interference_watt(settings, seed, rng.SETUP),
        noise_watt_per_hz=float(dbm_to_watt(settings.noise_dbm_per_hz)),
        payload_bit=n_params * settings.bits_per_parameter,
        model_bit=n_params * settings.bits_per_parameter,
        response_trace_s=read_trace(settings.response_trace) if settings.response == "trace" else None,
    )


def start(world: World, seed: int) -> WorldState:
    """The state before the first round: first stores, full batteries, the clock at zero."""
    store, memory = world.stream.start(seed)
    if len(store.size) != world.n_devices:
        raise ContractError(
            f"the data stream has stores for {len(store.size)} devices and the world has {world.n_devices}: "
            "build both from world.n_devices"
        )
    return WorldState(store, memory, world.devices.battery_joule.copy(), 0.0)


def observe(world: World, state: WorldState, seed: int, round: int) -> tuple[Observation, WorldState]:
    """Let samples arrive, then draw this round's channels, answers and availability.

    A device is available when it is switched on, has charge left and holds at least one sample.
    """
    settings = world.settings
    store, memory = world.stream.arrive(seed, round, state.store, state.memory)
    devices, topology = _this_round(world, seed, round, state.clock_s)
    found = channels(settings, topology, seed, round, state.clock_s)
    made = settings.interference == "others"
    observation = Observation(
        round=round,
        gain=found.mean * found.fading,
        mean_gain=found.mean,
        interference_watt=_interference_watt(world, seed, round),
        available=_available(settings, seed, round, state.clock_s) & (state.battery_joule > 0) & (store.size > 0),
        response_s=response_s(settings, world.response_trace_s, seed, round),
        devices=_powered(settings, devices, found.mean),
        topology=found.topology,
        store=store,
        battery_joule=state.battery_joule,
        gains=gains_to_all(settings, found, seed, round, state.clock_s) if made else None,
    )
    return foreseen(world, observation, state.station_watt), state._replace(store=store, memory=memory)


def serve(
    world: World, before: WorldState, state: WorldState, observation: Observation, seed: int, ask: Ask
) -> tuple[WorldState, Mapping[str, float]]:
    """Let the stream act on the samples that arrived; return the new state and the world's columns of the row.

    Most streams do nothing here.

    Args:
        world: holds the stream.
        before: the state before the samples arrived.
        state: as `observe` returned it.
        observation: of the round.
        seed: of the run.
        ask: applies the models of the devices, to one input each; only streams that need predictions call it.
    """
    seen = columns(world, observation, seed)
    if world.stream.serve is None:
        return state, seen
    arrived = Arrived(seed, observation.round, before.memory, state.memory, observation.topology.cell, ask)
    memory, found = world.stream.serve(arrived)
    return state._replace(memory=memory), {**seen, **found}


def columns(world: World, observation: Observation, seed: int) -> dict[str, float]:
    """Columns about the world: available attackers, available devices, mean charge; each only if settings vary it."""
    settings, devices, found = world.settings, world.devices, {}
    if settings.attack != "none":
        found["n_attackers"] = float(
            np.count_nonzero(attackers(settings, world.n_devices, seed) & observation.available)
        )
    if settings.traces or settings.geometry in MOVING:
        found["n_available"] = float(np.count_nonzero(observation.available))
    if any(part is not None for part in (devices.idle_watt, devices.harvest_watt, devices.charge_watt)):
        limited = np.isfinite(devices.battery_joule)
        if limited.any():
            found["charge"] = float((observation.battery_joule[limited] / devices.battery_joule[limited]).mean())
    return found


def settle(world: World, state: WorldState, uplink: Uplink) -> WorldState:
    """Take the joules of a round from the batteries, add what they gain in it, and move the clock by its length."""
    gained = gained_joule(world.settings, world.devices, state.clock_s, uplink.round_s)
    battery = settled(state.battery_joule, uplink.spent_joule, gained, world.devices.battery_joule)
    clock_s = state.clock_s + uplink.round_s
    return state._replace(battery_joule=battery, clock_s=clock_s, station_watt=uplink.station_watt)


def _available(settings: WorldConfig, seed: int, round: int, clock_s: float) -> Bools:
    on = switched_on(settings, seed, round)
    return on & on_now(settings, clock_s) if settings.traces else on


def _this_round(world: World, seed: int, round: int, clock_s: float) -> tuple[Devices, Topology]:
    settings = world.settings
    if settings.geometry == "static":
        return world.devices, world.topology
    if settings.geometry in MOVING:
        return world.devices, _moved(settings, world.topology.station_m, seed, clock_s)
    topology = places(settings, seed, round)
    if settings.geometry == "redraw":
        return world.devices, topology
    return redraw_cpu(settings, world.devices, seed, round), topology


def _moved(settings: WorldConfig, station_m: Floats, seed: int, clock_s: float) -> Topology:
    """The places of moving devices at a time; the nearest base station serves each."""
    position_m = positions_m(settings, seed, clock_s)
    away_m = to_stations_m(position_m, station_m)
    cell = away_m.argmin(axis=1)
    distance_m = np.maximum(away_m[np.arange(len(cell)), cell], settings.min_distance_m)
    return Topology(station_m, position_m, cell, distance_m)


def _powered(settings: WorldConfig, devices: Devices, mean_gain: Floats) -> Devices:
    """The devices, their power capped at what open-loop control asks for at this round's path loss."""
    if settings.power_control == "full":
        return devices
    wanted = open_loop_watt(mean_gain, settings.bandwidth_hz, settings.p0_dbm, settings.pathloss_share)
    return devices._replace(power_watt=np.minimum(devices.power_watt, wanted))


def _interference_watt(world: World, seed: int, round: int) -> Floats:
    if world.settings.interference == "redraw":
        return interference_watt(world.settings, seed, round)
    return world.interference_watt


def places(settings: WorldConfig, seed: int, round: int) -> Topology:
    """Draw where base stations and devices stand, for one round or (round `SETUP`) for the whole run."""
    lines = table_lines(settings)
    for name in (*PLACES, "cell"):
        if lines and name in lines[0].cells and (clash := _overruled(settings, name)):
            key, value, does, fix = clash
            raise BadInput(
                f"world.device_table = {settings.device_table.path!r} has a column {name!r} and world.{key} = {value} "
                f"{does}: drop the column, or set {key}={fix}"
            )
    placed = place(settings, rng.stream(seed, round, "world.place"), lines)
    return _moved(settings, placed.station_m, seed, 0.0) if settings.geometry in MOVING else placed


def _overruled(settings: WorldConfig, column: str) -> tuple[str, str, str, str] | None:
    """A key that says something else than a column of places: (key, its value, what it does, a value that fits)."""
    if settings.geometry in MOVING:
        return "geometry", repr(settings.geometry), "moves devices", "static"
    if settings.devices_per_cell:
        return "devices_per_cell", ",".join(map(str, settings.devices_per_cell)), "deals devices to cells", ""
    if column in PLACES and settings.geometry == "redraw":
        return "geometry", "'redraw'", "draws places anew each round", "static"
    if column in PLACES and settings.topology == "square":
        return "topology", "'square'", "draws places in a square", "disc"
    return None
