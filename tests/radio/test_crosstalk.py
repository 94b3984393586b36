"""Interference that devices of other cells make, against a plain loop, and what schedulers know of it."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import scene

import fedcell
from fedcell import methods
from fedcell.errors import BadInput
from fedcell.options import override
from fedcell.radio import bands, transmit
from fedcell.radio.crosstalk import disturbed, foreseen, station_watt
from fedcell.radio.forecast import noise_and_interference_watt, sinr
from fedcell.record import checkpoint
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin, simulate
from fedcell.types import Observation, Snapshot
from fedcell.units import ratio_to_db
from fedcell.world import observe

N, CELLS, BLOCKS = 6, 3, 4


def stage(access: str, seed: int = 0, **config: object):
    rng = np.random.default_rng(seed)
    settings = {"access": access, "topology": "cells", "n_cells": CELLS, "interference": "others", **config}
    block = np.array([0, 1, 1, 0, 2, 1]) if access == "block" else -1
    world, observation, decision = scene(
        N,
        config=settings,
        block=block,
        power_watt=rng.uniform(0, 1, N),
        bandwidth_hz=5e5 if access == "fdma" else 1e6,
        selected=rng.random(N) < 0.8,
        interference=[1e-12] * BLOCKS,
    )
    gains = rng.exponential(1e-10, (N, CELLS))
    return world, foreseen(world, observation._replace(gains=gains)), decision


def plain(world, observation, decision) -> np.ndarray:
    """What each device's station receives in the device's own band, device by device."""
    cell, found = observation.topology.cell, np.zeros(N)
    for k in range(N):
        for other in np.flatnonzero(decision.selected):
            if cell[other] == cell[k]:
                continue
            watt = decision.power_watt[other] * observation.gains[other, cell[k]]
            if world.settings.access == "block":
                watt *= decision.block[other] == decision.block[k]
            else:
                watt *= decision.bandwidth_hz[k] / world.settings.bandwidth_hz
            if world.settings.access == "tdma":
                watt /= np.count_nonzero(decision.selected & (cell == cell[other]))
            found[k] += watt
    return found


@given(st.sampled_from(["block", "fdma", "tdma"]), st.integers(0, 50))
def test_a_band_meets_what_other_cells_send_in_it(access: str, seed: int) -> None:
    world, observation, decision = stage(access, seed)
    after = disturbed(world, observation, decision)
    _, interference = noise_and_interference_watt(world, after, decision)
    drawn = 1e-12 if access == "block" else 0.0
    assert interference == pytest.approx(plain(world, observation, decision) + drawn, rel=1e-12)


@pytest.mark.parametrize("access", ["block", "fdma", "tdma"])
def test_schedulers_know_as_much_as_the_forecast_says(access: str) -> None:
    world, knows_none, decision = stage(access, forecast="none")
    _, blind = noise_and_interference_watt(world, knows_none, decision)
    assert blind == pytest.approx(np.full(N, 1e-12 if access == "block" else 0.0))
    world, knows_full, decision = stage(access, forecast="full")
    everyone = decision._replace(selected=np.ones(N, dtype=bool), power_watt=np.ones(N))
    worst = disturbed(world, knows_full, everyone).interference_watt
    if access == "block":  # nobody knows who gets which, so the mean over blocks
        assert knows_full.interference_watt.mean(axis=1) == pytest.approx(worst.mean(axis=1))
    else:
        assert knows_full.interference_watt == pytest.approx(worst)
    per_watt = bands.sinr_per_watt(world, knows_full, decision.bandwidth_hz)
    noise, known = noise_and_interference_watt(world, knows_full, decision)
    if access != "block":
        assert per_watt[:, 0] == pytest.approx(knows_full.gain / (noise + known))


def test_uploads_are_played_with_what_was_sent() -> None:
    world, observation, decision = stage("block", forecast="none")
    louder = decision._replace(power_watt=np.where(observation.topology.cell == 0, decision.power_watt, 1.0))
    quiet, loud = (transmit(world, observation, one, seed=1) for one in (decision, louder))
    mine = decision.selected & (observation.topology.cell == 0)
    cell = observation.topology.cell
    shared = station_watt(world, observation, louder)[cell, decision.block] > 0
    assert (loud.upload_s[mine & shared] > quiet.upload_s[mine & shared]).all()
    alone = decision._replace(selected=mine)
    assert station_watt(world, observation, alone)[0].sum() == 0


SHARED = {
    "rounds": 4,
    "world.topology": "cells",
    "world.n_cells": 3,
    "world.n_devices": 9,
    "world.interference": "others",
    "world.access": "block",
    "world.n_blocks": 2,
    "world.forecast": "last",
    "world.fading": "exponential",
    "train.steps": 1,
}


def _rounds(settings: dict[str, object]) -> list[tuple[Observation, Snapshot]]:
    """What schedulers saw in every round, and the state after it."""
    problem, method, seen = build_problem(override(get("cell").config, settings)), methods.parse("fedavg").build(), []

    def decide(problem, state, observation):
        seen.append(observation)
        return method.decide(problem, state, observation)

    return [(seen[-1], after) for _, after in simulate(problem, method._replace(decide=decide))]


def test_schedulers_know_what_stations_measured_in_the_last_round() -> None:
    """Nothing in the first; then what the uploads of the round before brought to the own station."""
    blind, rounds = _rounds(SHARED | {"world.forecast": "none"}), _rounds(SHARED)
    assert (rounds[0][0].interference_watt == blind[0][0].interference_watt).all()
    assert blind[0][1].world.station_watt is None
    for (before, after), (now, _) in pairwise(rounds):
        measured = after.world.station_watt
        assert measured.shape == (3, 2)
        assert (measured > 0).any()
        added = now.interference_watt - blind[0][0].interference_watt
        assert added == pytest.approx(measured[now.topology.cell], rel=1e-9)
        assert (now.interference_watt != before.interference_watt).any()


def test_what_stations_measured_is_in_checkpoints_and_only_if_asked_for(tmp_path: Path) -> None:
    for forecast in ("last", "full"):
        (_, first), *_, (_, last) = _rounds(SHARED | {"world.forecast": forecast})
        checkpoint.save(tmp_path, last, checkpoint.Template.of(first))
        again = checkpoint.newest(tmp_path, checkpoint.Template.of(first), 100, print)
        assert again is not None
        assert (b"station_watt" in next(tmp_path.glob("*")).read_bytes()) == (forecast == "last")
        assert np.array_equal(again.world.station_watt, last.world.station_watt)


def test_one_band_for_all_cells_costs_tens_of_decibels() -> None:
    """The median SINR of four cells falls from above 30 dB to about 10 dB once they share their blocks."""
    config = override(
        get("cells").config,
        {
            "world.n_cells": 4,
            "world.n_devices": 400,
            "world.edge_rounds": 0,
            "world.interference": "others",
            "world.access": "block",
            "world.bandwidth_hz": 540e3,
            "world.n_blocks": 100,
        },
    )
    problem = build_problem(config)
    method = fedcell.methods.load("fedavg")
    state = begin(problem, method.build(method.Config())).world
    observation, _ = observe(problem.world, state, 1, 0)
    decision = method.build(method.Config()).decide(problem, None, observation)
    after = disturbed(problem.world, observation, decision)
    clear = after._replace(interference_watt=np.zeros(1))
    quiet, real = (np.median(ratio_to_db(sinr(problem.world, one, decision))) for one in (clear, after))
    assert quiet > 30
    assert 3 < real < 20


def test_the_own_channel_does_not_change(tmp_path: Path) -> None:
    columns = {}
    for kind in ("static", "others"):
        settings = {"world.interference": kind, "world.topology": "cells", "world.n_cells": 3, "rounds": 2}
        problem = build_problem(override(get("cell").config, settings))
        method = fedcell.methods.load("fedavg").build(fedcell.methods.load("fedavg").Config())
        columns[kind], _ = observe(problem.world, begin(problem, method).world, 1, 0)
    assert (columns["static"].gain == columns["others"].gain).all()
    own = columns["others"].gains[np.arange(20), columns["others"].topology.cell]
    assert (own == columns["others"].gain).all()


@pytest.mark.parametrize("method", ["fedavg:effort=fit", "osafl", "rawhfl", "recycling", "representativity"])
@pytest.mark.parametrize("access", ["fdma", "block"])
def test_methods_run_in_it(method: str, access: str, tmp_path: Path) -> None:
    if (method, access) == ("osafl", "block"):
        pytest.skip("osafl takes no blocks")
    settings = {
        "rounds": 2,
        "world.topology": "cells",
        "world.n_cells": 3,
        "world.n_devices": 9,
        "world.access": access,
        "world.interference": "others",
        "world.deadline_s": 30,
        "world.edge_rounds": 2 if method == "rawhfl" else 0,
        "train.steps": 2,
    } | ({"world.n_blocks": 3} if access == "block" else {})
    (record,) = fedcell.run(method, "cell", settings, out=str(tmp_path / "run"))
    assert "D" in "".join(record.columns["outcome"])


def test_worlds_without_a_shared_band_are_refused() -> None:
    for access, changes in (("fdma", {"n_cells": 1, "topology": "disc"}), ("own_band", {})):
        with pytest.raises(BadInput, match="needs several cells that share a band"):
            stage(access, **changes)
