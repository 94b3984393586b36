"""The way down: against its formulas, against a plain loop of rounds, and free when it is off."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import scene

import fedcell
from fedcell import methods, world
from fedcell.radio import most_steps, transmit
from fedcell.radio.downlink import download
from fedcell.radio.rate import rate_bps
from fedcell.simulate import begin
from fedcell.types import Outcome, WorldState
from fedcell.world import settle

DOWN = {"downlink_bandwidth_hz": 1e6, "station_power_dbm": 30.0}


def stage(kind: str, n: int = 3, cells: int = 1, **changes: Any):
    config: dict[str, Any] = {"downlink": kind, **DOWN, **(changes.pop("config", {}))}
    config |= {"topology": "cells", "n_cells": cells} if cells > 1 else {}
    world, observation, decision = scene(n, config=config, **changes)
    devices = observation.devices._replace(receive_watt=np.full(n, 0.5))
    return world._replace(model_bit=1e6), observation._replace(devices=devices), decision


def capacity(gain: np.ndarray, sharing: float = 1.0) -> np.ndarray:
    return rate_bps(1e6 / sharing, 1.0 * gain / (1e-15 * 1e6))


def test_broadcast_is_as_slow_as_its_weakest_selected_device() -> None:
    gain = np.array([3e-9, 1e-9, 1e-10])
    world, observation, decision = stage("broadcast", gain=gain, selected=[True, True, False])
    down = download(world, observation, decision)
    assert down is not None
    assert down.seconds == pytest.approx([1e6 / capacity(gain)[1]] * 2 + [0.0])
    assert down.joule == pytest.approx(0.5 * down.seconds)
    assert down.bit == 1e6


def test_unicast_shares_band_and_power() -> None:
    gain = np.array([3e-9, 1e-9, 1e-10, 1e-9])
    world, observation, decision = stage("unicast", 4, cells=2, gain=gain, selected=[True, True, False, True])
    down = download(world, observation, decision)
    assert down is not None
    assert down.seconds[:2] == pytest.approx(1e6 / capacity(gain, 1.0)[:2] * 2)  # half the band, the same SINR
    assert down.seconds[3] == pytest.approx(1e6 / capacity(gain)[3])
    assert down.seconds[2] == 0
    assert down.bit == 3e6


@pytest.mark.parametrize("kind", ["broadcast", "unicast"])
def test_a_round_waits_listens_and_pays(kind: str) -> None:
    world, observation, decision = stage(kind)
    free = transmit(world._replace(settings=scene(3)[0].settings), observation, decision, seed=1)
    assert free.columns == {}
    down = download(world, observation, decision)
    assert down is not None
    uplink = transmit(world, observation, decision, seed=1)
    assert uplink.round_s == pytest.approx(free.round_s + down.seconds.max())
    assert uplink.spent_joule == pytest.approx(free.spent_joule + 0.5 * down.seconds)
    assert uplink.columns == {"downlink_bit": down.bit, "receive_joule": pytest.approx(down.joule.sum())}
    short = decision._replace(deadline_s=free.round_s + 0.5 * down.seconds.max())
    assert (transmit(world, observation, short, seed=1).outcome == Outcome.LATE).all()


def test_nobody_computes_who_has_not_heard() -> None:
    world, observation, decision = stage("broadcast", deadline_s=1e-3)
    uplink = transmit(world, observation, decision, seed=1)
    assert (uplink.compute_s == 0).all()
    assert uplink.receive_joule == pytest.approx(np.full(3, 0.5 * 1e-3))
    assert (uplink.outcome == Outcome.LATE).all()
    world, observation, decision = stage("broadcast", energy=1e-6)
    uplink = transmit(world, observation, decision, seed=1)
    assert uplink.spent_joule == pytest.approx(np.full(3, 1e-6))
    assert (uplink.outcome == Outcome.ENERGY).all()
    world, observation, decision = stage("broadcast", gain=[1e-9, 1e-9, 0.0], deadline_s=5.0)
    uplink = transmit(world, observation, decision, seed=1)
    assert (uplink.outcome == Outcome.LATE).all()  # one hears nothing, and listens until the deadline
    assert uplink.receive_joule is not None
    assert uplink.receive_joule[2] == 0.5 * 5.0


@given(st.sampled_from(["broadcast", "unicast"]), st.floats(2.2, 30), st.floats(0.4, 5))
def test_the_most_steps_leave_room_for_the_way_down(kind: str, deadline: float, energy: float) -> None:
    world, observation, decision = stage(kind, deadline_s=deadline, energy=energy)
    most = most_steps(world, observation, decision)
    fit = transmit(world, observation, decision._replace(steps=np.maximum(most, 1)), seed=1)
    assert (fit.delivered == (most > 0)).all()
    assert not transmit(world, observation, decision._replace(steps=most + 1), seed=1).delivered.any()


@pytest.mark.parametrize("method", ["fedavg:effort=fit", "osafl", "rawhfl", "recycling", "pruning", "knowledge"])
@pytest.mark.parametrize("kind", ["broadcast", "unicast"])
def test_planners_keep_time_and_energy_for_the_way_down(method: str, kind: str, tmp_path: Path) -> None:
    """Nobody whom a planner selects is late or out of energy because of it."""
    settings = {
        "rounds": 2,
        "world.n_devices": 8,
        "world.downlink": kind,
        "world.downlink_bandwidth_hz": 1e5,
        "world.receive_watt": 0.2,
        "world.energy_per_round_joule": 0.5,
        "world.access": "own_band",
        "train.steps": 3,
        "eval_every": 2,
    }
    if method == "knowledge":
        settings |= {"world.energy_per_round_joule": 5, "world.deadline_s": 20}
    (record,) = fedcell.run(method, "cell", settings, out=str(tmp_path / "run"))
    outcomes = "".join(record.columns["outcome"])
    assert "T" not in outcomes
    assert "E" not in outcomes
    assert "D" in outcomes
    assert (record.columns["downlink_bit"] > 0).all()
    text = fedcell.report.text([record])
    assert "downlink" in text
    assert "receive" in text


@pytest.mark.parametrize("kind", ["broadcast", "unicast"])
@pytest.mark.parametrize("deadline_s", [np.inf, 50.0])
def test_a_device_that_nothing_reaches_holds_nobody_up(kind: str, deadline_s: float) -> None:
    """On the 5G link a deep fade leaves no rate: that device is lost, the others train as if it were not asked."""
    gain, config = np.array([3e-9, 1e-9, 1e-22]), {"link": "nr"}
    world, observation, decision = stage(kind, config=config, gain=gain, power_watt=1.0, deadline_s=deadline_s)
    uplink = transmit(world, observation, decision, seed=1)
    assert uplink.outcome[2] == Outcome.OUTAGE
    assert uplink.spent_joule[2] == uplink.sent_bit[2] == uplink.end_s[2] == 0
    assert np.isfinite(uplink.round_s)
    without = transmit(world, observation, decision._replace(selected=np.array([True, True, False])), seed=1)
    assert (uplink.outcome[:2] == Outcome.DELIVERED).all()
    if kind == "broadcast":  # whom it cannot reach a station does not wait for
        assert uplink.downlink_bit == without.downlink_bit
        assert (uplink.upload_s[:2] == without.upload_s[:2]).all()
        assert uplink.round_s == without.round_s


@pytest.mark.parametrize("link", ["nr", "shannon"])
@pytest.mark.parametrize("deadline_s", [np.inf, 50.0])
def test_drawn_answers_of_a_device_that_nothing_reaches(link: str, deadline_s: float) -> None:
    gain, config = np.array([3e-9, 1e-9, 0.0]), {"link": link}
    world, observation, decision = stage(
        "broadcast", config=config, gain=gain, power_watt=1.0, deadline_s=deadline_s, response_s=2.0
    )
    uplink = transmit(world, observation, decision, seed=1)
    waits = link == "shannon" and np.isfinite(deadline_s)
    assert (uplink.outcome[:2] == Outcome.DELIVERED).all()
    assert uplink.outcome[2] == (Outcome.LATE if waits else Outcome.OUTAGE)
    assert uplink.receive_joule is not None
    assert uplink.receive_joule[2] == (0.5 * deadline_s if waits else 0.0)
    assert waits or uplink.spent_joule[2] == 0
    state = WorldState(observation.store, None, np.full(3, 1e6), 0.0)
    assert np.isfinite(settle(world, state, uplink).battery_joule).all()


@pytest.mark.parametrize("text", ["fedavg:effort=fit", "pruning", "recycling"])
@pytest.mark.parametrize("downlink", ["unicast", "broadcast"])
def test_plans_without_a_deadline_leave_out_whom_the_way_down_does_not_reach(small, text, downlink):
    """Nothing is left of an endless deadline after an endless way down, rather than no number."""
    changes = {"world.downlink": downlink, "world.link": "nr", "world.deadline_s": "inf", "world.access": "block"}
    problem = small({**changes, "world.n_blocks": "6"})
    method = methods.parse(text).build()
    snapshot = begin(problem, method)
    seen, _ = world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, 0)
    gain = np.where(np.arange(problem.world.n_devices) == 0, 1e-25, seen.gain)
    with np.errstate(all="raise", under="ignore"):
        decision = method.decide(problem, snapshot.method, seen._replace(gain=gain))
    assert decision.selected.any()
