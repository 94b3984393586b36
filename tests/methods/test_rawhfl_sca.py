"""RawHFL's successive linear programs: tangents, feasibility, distance from the optimum, and the literal collapse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rawhfl_cells import check, clients, grid, objectives
from scipy.optimize import linprog

from fedcell.methods.parts.client_planning.problem import compute_joule, upload
from fedcell.methods.rawhfl.allocation import allocate
from fedcell.methods.rawhfl.program import (
    Point,
    compute_joule_line,
    compute_s_line,
    program,
    upload_joule_line,
    upload_s_line,
)
from fedcell.methods.rawhfl.sca import Settings, allocate_sca

seeds = st.integers(0, 10**6)

TRUE = {
    compute_joule_line: lambda c, q: compute_joule(c, q.load, q.cpu_hz),
    upload_joule_line: lambda c, q: q.x * upload(c, q.power_watt)[1],
    compute_s_line: lambda c, q: c.cycles_per_step * q.load / q.cpu_hz,
    upload_s_line: lambda c, q: q.x * upload(c, q.power_watt)[0],
}


def point(client, rng):
    n = len(client.cpu_hz)
    x, f, p = rng.uniform(0.05, 1, (3, n))
    return Point(x, x * rng.uniform(1, 6, n), f * client.cpu_hz, p * client.power_watt)


@settings(max_examples=25)
@given(seeds)
@pytest.mark.parametrize("line", TRUE)
def test_tangents_have_value_and_slope_of_the_function(line, seed):
    """Eqs. (36) to (39) by finite differences."""
    client, rng = clients(seed), np.random.default_rng(seed)
    at = point(client, rng)
    found, true = line(client, at), TRUE[line]
    np.testing.assert_allclose(found.at(at), true(client, at), rtol=1e-9)
    for name in Point._fields:
        h = 1e-5 * getattr(at, name)
        up, down = (at._replace(**{name: getattr(at, name) + s * h}) for s in (1, -1))
        slope = (true(client, up) - true(client, down)) / (2 * h)
        scale = np.abs(true(client, at) / getattr(at, name))
        np.testing.assert_allclose(getattr(found.slope, name) / scale, slope / scale, atol=1e-5)


@settings(max_examples=25)
@given(seeds)
def test_tangents_over_and_under_estimate(seed):
    """Energy of sending is concave in the power, both times are convex: only the first is a safe side."""
    client, rng = clients(seed), np.random.default_rng(seed)
    at, other = point(client, rng), point(client, rng)
    power = at._replace(power_watt=other.power_watt)
    clock = at._replace(cpu_hz=other.cpu_hz)
    for line, moved, sign in (
        (upload_joule_line, power, 1),
        (compute_s_line, clock, -1),
        (upload_s_line, power, -1),
    ):
        true = TRUE[line](client, moved)
        assert (sign * (line(client, at).at(moved) - true) >= -1e-9 * np.abs(true)).all()


def test_the_fifth_variable_takes_nothing_away():
    """Eqs. (30) to (32) have a solution `L_u` in [1, L] for every `x <= Lbar <= L x`."""
    most, rng = 50.0, np.random.default_rng(1)
    for x in [0.0, 1.0, *rng.random(20)]:
        load = x + rng.random() * (most - 1) * x
        a = [[-1], [1], [-1]]
        b = [-(1 - x) - load, load + most * (1 - x), (1 - x) * most - load]
        assert linprog([0], A_ub=a, b_ub=b, bounds=[(1, most)]).status == 0


# ---------------------------------------------------------------- allocations


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_never_better_than_exact_and_always_feasible(seed):
    """Three times a hundred cells, by the true objective."""
    rng = np.random.default_rng(seed)
    client, cells = clients(seed, n=500), grid(100, 5, 2, 1, rng.random(500) < 0.3)
    theta = 0.4
    found = allocate_sca(client, cells, theta, Settings(iterations=15))
    check(client, cells, found.allocation)
    assert not found.collapsed.any()
    exact, full = (allocate(client, cells, theta, mode) for mode in ("exact", "max"))
    assert (exact.limit[found.allocation.limit == 0] == 0).all()
    count = [np.bincount(cells.cell[a.selected], minlength=100) for a in (exact, found.allocation)]
    repeated = np.bincount(cells.cell[found.allocation.selected & cells.previous], minlength=100)
    same = (count[0] == count[1]) & (repeated <= 1)  # else it was freed from a limit that exact keeps
    assert same.sum() > 90
    phi, phi_exact, phi_full = (objectives(a, cells, theta) for a in (found.allocation, exact, full))
    assert (phi_exact <= phi + 1e-9)[same].all()
    assert phi.sum() < phi_full.sum()


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_with_a_step_limit_it_comes_near_the_optimum(penalty):
    client, cells = clients(7, n=24, most_steps=20, hopeless=False), grid(2, 12, 4, 2)
    exact, full = (allocate(client, cells, 0.4, mode) for mode in ("exact", "max"))
    found = allocate_sca(client, cells, 0.4, Settings(iterations=150, penalty=penalty)).allocation
    check(client, cells, found)
    gap = (found.objective(0.4) - exact.objective(0.4)) / (full.objective(0.4) - exact.objective(0.4))
    assert 0 <= gap < 0.05


def test_literal_iteration_collapses_and_is_caught():
    """Without a step limit the first program sets clock and power of all that it chooses to 0."""
    client, cells = clients(7, n=24, hopeless=False), grid(2, 12, 4, 2)
    client = client._replace(deadline_s=np.full(24, 150.0))
    full = allocate(client, cells, 0.4, "max")
    at = Point(full.selected * 1.0, full.selected * full.steps * 1.0, full.cpu_hz, full.power_watt)
    first = program(client, cells, 0.4, 1.0, at, np.full(24, np.inf))
    on = first.x > 0.5
    assert ((first.cpu_hz == 0) | (first.power_watt == 0))[on].all()
    with np.errstate(all="ignore"):
        assert not np.isfinite(compute_s_line(client, first).at(first)[on]).all(), "the next tangent divides by 0"
    caught = allocate_sca(client, cells, 0.4, Settings(step=None))
    assert caught.iterations == 1
    assert caught.collapsed.sum() == 8
    check(client, cells, caught.allocation)
    np.testing.assert_array_equal(caught.allocation.power_watt, client.power_watt)
    assert not allocate_sca(client, cells, 0.4, Settings(iterations=5)).collapsed.any()


@pytest.mark.parametrize("theta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("least_power", [0.0, 0.5])
def test_ends_of_theta_and_least_power(theta, least_power):
    client, cells = clients(9, n=20), grid(2, 10, 3)
    found = allocate_sca(client, cells, theta, Settings(iterations=20, least_power=least_power)).allocation
    check(client, cells, found)
    on = found.limit == 0
    assert (found.power_watt[on] >= least_power * client.power_watt[on] * (1 - 1e-9)).all()


def test_nobody_there_and_no_limits():
    client, cells = clients(9, n=20), grid(2, 10, 3)
    nobody = allocate_sca(client, cells._replace(available=np.zeros(20, dtype=bool)), 0.4)
    assert not nobody.allocation.selected.any()
    assert nobody.iterations == 0
    free = client._replace(deadline_s=np.full(20, np.inf), budget_joule=np.full(20, np.inf))
    found = allocate_sca(free, cells, 0.4).allocation
    check(free, cells, found)
    np.testing.assert_array_equal(found.cpu_hz, client.cpu_hz)
