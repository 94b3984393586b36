"""Places: uniform over their area, never too near, on a lattice of cells."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedcell.errors import BadInput
from fedcell.types import Topology
from fedcell.world.settings import WorldConfig
from fedcell.world.topology import cells, lattice_m, place


def placed(**settings: Any) -> Topology:
    return place(WorldConfig(**settings), np.random.default_rng(1))


def test_disc_is_uniform_over_its_area() -> None:
    there = placed(n_devices=20_000, radius_m=400.0, min_distance_m=0.001)
    assert stats.kstest((there.distance_m / 400.0) ** 2, "uniform").pvalue > 1e-3  # Pr(r <= x) = (x/R)^2
    bearing = np.arctan2(there.position_m[:, 1], there.position_m[:, 0]) / (2 * np.pi) + 0.5
    assert stats.kstest(bearing, "uniform").pvalue > 1e-3
    squares, _, _ = np.histogram2d(
        there.position_m[:, 0], there.position_m[:, 1], bins=5, range=[[-250, 250], [-250, 250]]
    )
    assert stats.chisquare(squares.ravel()).pvalue > 1e-3


def test_square_is_uniform_around_its_centre() -> None:
    there = placed(n_devices=20_000, topology="square", side_m=500.0, min_distance_m=0.001)
    assert np.abs(there.position_m).max() <= 250.0
    for axis in there.position_m.T:
        assert stats.kstest(axis / 500.0 + 0.5, "uniform").pvalue > 1e-3
    np.testing.assert_array_equal(there.station_m, [[0.0, 0.0]])


@pytest.mark.parametrize("topology", ["disc", "square", "cells"])
@given(n_devices=st.integers(1, 60), n_cells=st.integers(1, 8), nearest=st.floats(0.1, 150.0))
def test_distance_and_position_agree(topology: str, n_devices: int, n_cells: int, nearest: float) -> None:
    n_cells = n_cells if topology == "cells" else 1
    there = placed(
        n_devices=n_devices, topology=topology, n_cells=n_cells, radius_m=200.0, side_m=300.0, min_distance_m=nearest
    )
    offset = there.position_m - there.station_m[there.cell]
    np.testing.assert_allclose(there.distance_m, np.hypot(*offset.T), rtol=1e-9)
    assert (there.distance_m >= nearest).all()
    assert (there.distance_m <= (150.0 * 2**0.5 if topology == "square" else 200.0) + 1e-9).all()
    assert there.position_m.shape == (n_devices, 2)
    assert there.station_m.shape == (n_cells, 2)


def test_pushed_devices_keep_their_bearing() -> None:
    free, pushed = placed(n_devices=500, min_distance_m=0.001), placed(n_devices=500, min_distance_m=200.0)
    near = free.distance_m < 200.0
    assert 50 < near.sum() < 450
    np.testing.assert_allclose(pushed.distance_m[near], 200.0)
    np.testing.assert_array_equal(pushed.position_m[~near], free.position_m[~near])
    unit = free.position_m / free.distance_m[:, None]
    np.testing.assert_allclose(pushed.position_m[near], 200.0 * unit[near])


def test_more_devices_leave_the_first_where_they_are() -> None:
    np.testing.assert_array_equal(placed(n_devices=9).position_m[:4], placed(n_devices=4).position_m)


@given(n_devices=st.integers(1, 200), n_cells=st.integers(1, 20))
def test_cells_are_contiguous_and_near_equal(n_devices: int, n_cells: int) -> None:
    cell = cells(n_devices, n_cells)
    count = np.bincount(cell, minlength=n_cells)
    assert (np.diff(cell) >= 0).all()
    assert count.sum() == n_devices
    assert count.max() - count.min() <= 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any))
def test_devices_per_cell(per_cell: list[int]) -> None:
    there = placed(n_devices=sum(per_cell), n_cells=len(per_cell), devices_per_cell=tuple(per_cell), topology="cells")
    assert np.bincount(there.cell, minlength=len(per_cell)).tolist() == per_cell
    assert (np.diff(there.cell) >= 0).all()
    np.testing.assert_allclose(there.distance_m, np.hypot(*(there.position_m - there.station_m[there.cell]).T))


@pytest.mark.parametrize(
    ("per_cell", "message"),
    [
        ((3, 4), r"world\.devices_per_cell = 3,4 names 2 cells but world\.n_cells = 3: give one number per cell"),
        ((3, -1, 5), r"world\.devices_per_cell = 3,-1,5 has a negative number"),
        ((3, 0, 5), r"world\.devices_per_cell = 3,0,5 adds up to 8 but world\.n_devices = 7: change one of them"),
    ],
)
def test_devices_per_cell_must_add_up(per_cell: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        WorldConfig(n_devices=7, n_cells=3, topology="cells", devices_per_cell=per_cell)


@pytest.mark.parametrize("n_cells", [1, 2, 4, 7, 8, 19, 20, 40])
def test_stations_stand_on_a_hexagonal_lattice(n_cells: int) -> None:
    station = lattice_m(n_cells, 100.0)
    assert station.shape == (n_cells, 2)
    np.testing.assert_allclose(station[0], 0.0, atol=1e-9)
    gap = np.hypot(*(station[:, None] - station[None]).transpose(2, 0, 1)) + 1e9 * np.eye(n_cells)
    assert (gap > 100.0 - 1e-9).all()
    if n_cells > 1:
        np.testing.assert_allclose(gap.min(axis=1), 100.0)  # every station has a neighbour at the spacing
    if n_cells >= 7:
        assert (gap[0] < 100.0 + 1e-9).sum() == 6


@pytest.mark.parametrize("settings", [{"radius_m": 5.0}, {"topology": "square", "side_m": 19.0}])
def test_a_cell_too_small_for_the_nearest_distance_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"world\.min_distance_m = 10 > world\.(radius_m = 5|side_m / 2 = 9\.5): lower"):
        placed(**settings)
