"""A world in motion: places by the clock, handover, channels with memory."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import j0

import fedcell
from fedcell.errors import BadInput
from fedcell.options import Law
from fedcell.rng import stream
from fedcell.tables import File
from fedcell.types import Store, World
from fedcell.world import build_world, fields, observe, start, static_stream
from fedcell.world.fields import ar1, correlated_gain, jakes, maps
from fedcell.world.motion import mean_leg_m, positions_m
from fedcell.world.settings import WorldConfig
from fedcell.world.topology import to_stations_m

CITY = WorldConfig(
    n_devices=200, topology="cells", n_cells=3, radius_m=200, geometry="waypoints", shadowing="correlated"
)


def world_of(settings: WorldConfig, seed: int = 1) -> World:
    n = settings.n_devices
    store = Store(np.zeros((n, 1), dtype=np.int64), np.ones(n, dtype=np.int64))
    return build_world(settings, static_stream(store), 10, 1e6, seed)


def seen(settings: WorldConfig, clock_s: float, round: int, seed: int = 1):
    world = world_of(settings, seed)
    return observe(world, start(world, seed)._replace(clock_s=clock_s), seed, round)[0]


# ---------------------------------------------------------------- places


@pytest.mark.parametrize("fading", ["none", "jakes"])
def test_the_world_is_a_function_of_the_clock(fading: str) -> None:
    """Two methods that reach a time in different rounds meet the same places, cells and channels there."""
    settings = replace(CITY, fading=fading)
    a, b = seen(settings, 500.0, round=3), seen(settings, 500.0, round=90)
    assert (a.topology.position_m == b.topology.position_m).all()
    assert (a.topology.cell == b.topology.cell).all()
    assert (a.gain == b.gain).all()
    later = seen(settings, 501.0, round=3)
    assert (a.topology.position_m != later.topology.position_m).any()


def test_waypoints_stay_inside_and_move_at_the_mean_speed() -> None:
    for changes in ({"topology": "disc", "n_cells": 1}, {"topology": "square", "n_cells": 1}, {}):
        settings = replace(CITY, **changes, speed_m_per_s=Law((2.0,)))
        times = np.arange(0, 40_000, 7.0)
        places = np.array([positions_m(settings, 1, t) for t in times[:600]])
        if settings.topology != "cells":
            reach = np.abs(places).max() if settings.topology == "square" else np.hypot(*places.T).max()
            assert reach <= (250 if settings.topology == "square" else 200)
        legs = np.hypot(*np.moveaxis(np.diff(places, axis=0), -1, 0)) / 7.0
        assert legs.mean() == pytest.approx(2.0, rel=0.06)
        assert legs.max() < 2.0 * 1000 / mean_leg_m(settings)


def test_places_move_without_jumps() -> None:
    near, far = positions_m(CITY, 1, 1000.0), positions_m(CITY, 1, 1000.01)
    assert np.hypot(*(far - near).T).max() < 0.1


def test_tracks_are_read_between_their_points(tmp_path: Path) -> None:
    path = tmp_path / "tracks.csv"
    path.write_text("device,clock_s,x_m,y_m\n0,0,0,0\n1,10,50,60\n0,10,100,0\n0,30,100,40\n")
    settings = replace(
        CITY, n_devices=2, geometry="tracks", tracks=File.of(str(path)), topology="disc", n_cells=1, shadowing="drawn"
    )
    for t in (0.0, 4.0, 10.0, 25.0, 99.0):
        x, y = np.interp(t, [0, 10, 30], [0, 100, 100]), np.interp(t, [0, 10, 30], [0, 0, 40])
        assert positions_m(settings, 1, t) == pytest.approx(np.array([[x, y], [50.0, 60.0]]))
    again = replace(settings, track_period_s=40.0)
    assert positions_m(again, 1, 44.0) == pytest.approx(positions_m(again, 1, 4.0))
    assert positions_m(replace(settings, start_s=4.0), 1, 0.0) == pytest.approx(positions_m(settings, 1, 4.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device,clock_s,x_m\n0,0,1\n", "no column 'y_m'"),
        ("device,clock_s,x_m,y_m\n0,0,1,1\n", "no line for device 1"),
        ("device,clock_s,x_m,y_m\n0,5,1,1\n0,5,2,2\n1,0,0,0\n", "line 3: clock_s = 5 of device 0 is not after 5"),
        ("device,clock_s,x_m,y_m\n0,-1,1,1\n", "line 2: clock_s = -1: write a finite number of at least 0"),
        ("device,clock_s,x_m,y_m\n2,0,1,1\n", "line 2: device = 2: write a finite number from 0 to 1"),
        ("device,clock_s,x_m,y_m\n0.5,0,1,1\n", "line 2: device = 0.5: write a whole number from 0 to 1"),
        ("device,clock_s,x_m,y_m\n0,0,1,1\n1,0,nan,1\n", "line 3: x_m = 'nan' is no number"),
        ("device,clock_s,x_m,y_m\n0,0,1,1\n1,99,1,1\n", r"line 3: clock_s = 99 is after world\.track_period_s = 50"),
    ],
)
def test_bad_tracks_are_refused_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tracks.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        world_of(replace(CITY, n_devices=2, geometry="tracks", tracks=File.of(str(path)), track_period_s=50.0))


def test_worlds_that_cannot_move_are_refused() -> None:
    with pytest.raises(BadInput, match="ties them to an edge model"):
        replace(CITY, edge_rounds=2)
    with pytest.raises(BadInput, match="ties them to one: drop it"):
        replace(CITY, devices_per_cell=(100, 50, 50))
    with pytest.raises(BadInput, match="needs places that last"):
        replace(CITY, geometry="redraw")
    with pytest.raises(BadInput, match=r"needs world\.tracks"):
        world_of(replace(CITY, geometry="tracks"))


def test_the_strongest_station_serves_a_device() -> None:
    cells = set()
    for clock_s in (0.0, 200.0, 400.0):
        found = seen(CITY, clock_s, 0)
        away = np.maximum(to_stations_m(found.topology.position_m, found.topology.station_m), CITY.min_distance_m)
        gains = correlated_gain(CITY, found.topology.position_m, away, seed=1)
        assert (found.topology.cell == gains.argmax(axis=1)).all()
        assert found.mean_gain == pytest.approx(gains.max(axis=1))
        assert found.topology.distance_m == pytest.approx(away[np.arange(200), found.topology.cell])
        cells.add(tuple(found.topology.cell))
    assert len(cells) == 3  # some were handed over


# ---------------------------------------------------------------- memory


def test_shadowing_is_correlated_over_distance_as_gudmundson_says() -> None:
    """Means over maps, with a band of four standard errors of the mean."""
    rng, n_maps = np.random.default_rng(0), 600
    base = rng.uniform(-500, 500, (40, 2))
    here = maps(base, 7, "test", n_maps, 50.0)
    assert here.mean() == pytest.approx(0.0, abs=4 / np.sqrt(n_maps))
    for distance in (5.0, 25.0, 50.0, 120.0):
        bearing = rng.uniform(0, 2 * np.pi, 40)
        there = maps(base + distance * np.stack([np.cos(bearing), np.sin(bearing)], 1), 7, "test", n_maps, 50.0)
        product = (here * there).mean(axis=0)  # one number per map
        error = product.std() / np.sqrt(n_maps)
        assert abs(product.mean() - np.exp(-distance / 50.0)) <= 4 * error
        assert error < 0.05
    assert np.mean(np.abs(here) > 1.96) == pytest.approx(0.05, abs=0.01)  # normal


def test_two_sites_share_as_much_shadowing_as_is_set() -> None:
    rng = np.random.default_rng(1)
    settings = replace(CITY, site_correlation=0.5)
    found = []
    for seed in range(60):
        position = rng.uniform(-3e4, 3e4, (100, 2))
        far = np.full((100, 2), 5000.0)  # no line of sight, so one deviation
        found.append(10 * np.log10(correlated_gain(settings, position, far, seed)))
    shadow = np.concatenate(found) - np.concatenate(found).mean(axis=0)
    assert np.corrcoef(shadow.T)[0, 1] == pytest.approx(0.5, abs=0.05)
    assert shadow.std() == pytest.approx(6.0, rel=0.05)


def test_ar1_fading_remembers_rounds_as_its_law_says() -> None:
    """The power of a complex AR(1) amplitude is correlated by `a^(2n)` over `n` rounds."""
    n, memory = 60_000, 0.8
    first = ar1(n, memory, 3, 10)
    assert first.mean() == pytest.approx(1.0, abs=5 / np.sqrt(n))
    assert np.mean(first > 1) == pytest.approx(np.exp(-1), abs=5 * 0.5 / np.sqrt(n))
    for lag in (1, 2, 5):
        both = np.corrcoef(first, ar1(n, memory, 3, 10 + lag))[0, 1]
        assert both == pytest.approx(memory ** (2 * lag), abs=8 / np.sqrt(n))
    assert (ar1(50, memory, 3, 4) == ar1(50, memory, 3, 4)).all()
    later = ar1(50, memory, 3, 9)
    assert (ar1(50, memory, 3, 4) != later).any()  # going back gives the earlier one
    assert (ar1(50, memory, 3, 9) == later).all()


def test_ar1_fading_towards_many_stations_goes_through_every_round_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[object] = []
    monkeypatch.setattr(fields, "stream", lambda *key: drawn.append(key) or stream(*key))
    for round in range(5):
        for station in range(100):
            ar1(4, 0.7, 11, round, f" station {station}")
    assert len(drawn) == len(set(drawn)) == 5 * 100


def test_jakes_fading_remembers_seconds_as_its_law_says() -> None:
    """The power of many waves is correlated by `J0(2 pi f t)^2`, up to the few waves: `1 - 1/16` of it."""
    n, doppler = 60_000, 2.0
    first = jakes(n, doppler, 5, 100.0)
    assert first.mean() == pytest.approx(1.0, abs=5 / np.sqrt(n))
    for lag_s in (0.02, 0.1, 0.19, 0.5):
        both = np.mean((first - 1) * (jakes(n, doppler, 5, 100.0 + lag_s) - 1))
        assert both == pytest.approx(j0(2 * np.pi * doppler * lag_s) ** 2 * (1 - 1 / 16), abs=8 / np.sqrt(n))


def test_a_moving_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = {
        "world.geometry": "waypoints",
        "world.shadowing": "correlated",
        "world.fading": "ar1",
        "world.topology": "cells",
        "world.n_cells": 3,
        "world.idle_watt": 0.01,
        "world.harvest_watt": 0.5,
        "world.battery_joule": 5,
        "train.steps": 2,
        "rounds": 6,
    }
    (whole,) = fedcell.run("fedavg", "cell", settings, out=str(tmp_path / "whole"))

    def interrupt(progress: object) -> None:
        if progress.done == 3:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedcell.run("fedavg", "cell", settings, out=str(tmp_path / "part"), watch=interrupt)
    fedcell.resume(tmp_path / "part")
    rows = [next((tmp_path / name).rglob("rounds.jsonl")).read_bytes() for name in ("whole", "part")]
    assert rows[0] == rows[1]
    assert {"idle_joule", "charge", "n_available"} <= set(whole.columns)
