"""RawHFL's exact allocation and selection: against brute force, its limits, its order, and who is not eligible."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rawhfl_cells import check, clients, grid, objectives, only, spent

from fedcell.methods.parts.client_planning.problem import Client, Limit
from fedcell.methods.parts.client_planning.solvers import exact
from fedcell.methods.rawhfl.allocation import allocate, allocate_blocks, best, full_speed, offers
from fedcell.methods.rawhfl.selection import Cells, select, select_blocks

seeds = st.integers(0, 10**6)
thetas = st.sampled_from([0.0, 1e-3, 0.05, 0.4, 0.9, 1.0])
few = settings(max_examples=25)


# ---------------------------------------------------------------- one client


def brute_force(client, theta, least_power=0.0):
    """The best value of every client over all steps and a grid of clocks and powers; minus infinity without a plan."""
    f = np.geomspace(1e-3, 1, 60)[:, None, None] * client.cpu_hz
    p = np.maximum(np.geomspace(1e-7, 1, 90), least_power)[:, None] * client.power_watt
    top = np.full(len(client.cpu_hz), -np.inf)
    for k in range(1, int(client.most_steps.max()) + 1):
        seconds, joule = spent(client, k, f, p)
        fits = (seconds <= client.deadline_s) & (joule <= client.budget_joule)
        top = np.maximum(top, np.where(fits, theta * k - (1 - theta) * joule, -np.inf).max(axis=(0, 1)))
    return top


@settings(max_examples=15)
@given(seeds, thetas, st.sampled_from([0.0, 0.0, 0.01, 1.0]))
def test_no_plan_of_a_grid_is_better(seed, theta, least_power):
    client = clients(seed, n=40)
    found = offers(client, best(client, theta, least_power), theta)
    there = brute_force(client, theta, least_power)
    assert (found.value >= there - 1e-9).all()
    on, plan = found.plan.feasible, found.plan
    seconds, joule = spent(client, plan.steps, plan.cpu_hz, plan.power_watt)
    np.testing.assert_allclose((theta * plan.steps - (1 - theta) * joule)[on], found.value[on], atol=1e-12)
    assert (seconds[on] <= client.deadline_s[on] * (1 + 1e-9)).all(), "and it is a plan"
    assert (joule[on] <= client.budget_joule[on] * (1 + 1e-9)).all()
    assert (found.plan.power_watt[on] >= least_power * client.power_watt[on] * (1 - 1e-9)).all()


@few
@given(seeds, thetas)
def test_the_number_of_steps_is_the_best_of_all(seed, theta):
    """Each number alone, by the least energy of exactly so many steps."""
    client = clients(seed)
    found = offers(client, best(client, theta), theta)
    each = []
    for k in range(1, 7):
        plan = exact(client._replace(most_steps=np.full(60, k)), client.cpu_hz, client.power_watt)
        one = offers(client, plan, theta)
        each.append(np.where(plan.steps == k, one.value, -np.inf))
    np.testing.assert_allclose(found.value, np.max(each, axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.plan.feasible, np.isfinite(each[0]))


@few
@given(seeds, thetas)
def test_value_grows_with_gain_budget_and_deadline(seed, theta):
    client, more = clients(seed), 1 + np.random.default_rng(seed).exponential(0.5, 60)
    value = offers(client, best(client, theta), theta).value
    for name in ("snr_per_watt", "budget_joule", "deadline_s"):
        better = client._replace(**{name: getattr(client, name) * more})
        assert (offers(better, best(better, theta), theta).value >= value - 1e-9).all()


def test_ends_of_theta():
    client = clients(3)
    most, least = best(client, 1.0), best(client, 0.0)
    np.testing.assert_array_equal(most.steps, exact(client, client.cpu_hz, client.power_watt).steps)
    np.testing.assert_array_equal(least.steps, most.feasible.astype(int))
    at_one = exact(client._replace(most_steps=np.ones(60, dtype=np.int64)), client.cpu_hz, client.power_watt)
    np.testing.assert_allclose(least.power_watt, at_one.power_watt)
    assert (best(client, 0.4).steps <= most.steps).all()


def test_without_a_deadline_full_speed_stays():
    client = clients(5, hopeless=False)._replace(deadline_s=np.full(60, np.inf))
    plan = best(client, 0.9)
    np.testing.assert_array_equal(plan.cpu_hz, client.cpu_hz)
    np.testing.assert_array_equal(plan.power_watt, client.power_watt)
    np.testing.assert_array_equal(plan.steps, full_speed(client).steps)
    np.testing.assert_array_equal(best(client, 0.0).steps, plan.feasible)


@pytest.mark.parametrize("plan", [full_speed, lambda client: best(client, 0.4)])
@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ({"snr_per_watt": 0.0}, {Limit.TIME, Limit.POWER}),
        ({"budget_joule": 0.0}, {Limit.ENERGY}),
        ({"deadline_s": 0.9e8 / 1e9}, {Limit.CPU}),
        ({"payload_bit": 1e12}, {Limit.TIME, Limit.POWER}),
        ({"capacitance": 1.0}, {Limit.ENERGY}),
    ],
)
def test_who_is_not_eligible_has_a_reason(plan, change, limit):
    easy = Client(*(np.full(3, v) for v in (1e6, 1e6, 1e4, 1e8, 1e-28)), np.full(3, 5), *np.full((4, 3), 1.0))
    easy = easy._replace(cpu_hz=np.full(3, 1e9), deadline_s=np.full(3, 10.0))
    assert plan(easy).steps.tolist() == [5, 5, 5]
    hard = plan(easy._replace(**{name: np.full(3, value) for name, value in change.items()}))
    assert set(hard.limit.tolist()) <= limit
    assert not hard.feasible.any()


def test_clients_here_have_every_reason():
    client = clients(1, n=500)
    assert set(full_speed(client).limit.tolist()) == {Limit.NONE, Limit.TIME, Limit.ENERGY, Limit.CPU}
    assert set(best(client, 0.4).limit.tolist()) == {Limit.NONE, Limit.POWER, Limit.ENERGY, Limit.CPU}


# ---------------------------------------------------------------- the choice


def best_subset(value, previous, z, psi):
    """The largest total over all subsets of one cell, as the rules have it."""
    eligible = np.flatnonzero(np.isfinite(value))
    sets = list(combinations(eligible.tolist(), min(z, len(eligible))))
    within = [s for s in sets if previous[list(s)].sum() <= psi]
    full = len(eligible) >= z and within
    return max(sum(value[list(s)]) for s in (within if full else sets))


@given(seeds, st.integers(1, 5), st.integers(0, 5))
def test_choice_is_the_best_of_all_subsets(seed, z, psi):
    rng = np.random.default_rng(seed)
    cell = np.sort(rng.integers(0, 3, 13))
    value = np.where(rng.random(13) < 0.8, rng.normal(size=13).round(1), -np.inf)
    previous, available = rng.random(13) < 0.4, rng.random(13) < 0.9
    cells = Cells(cell, 4, available, previous, z, psi)
    found = select(value, cells)
    blocks = select_blocks(np.tile(value, (z, 1)), cells)
    there = np.where(available, value, -np.inf)
    assert np.isfinite(there[found]).all()
    for b in range(4):
        here = np.flatnonzero(cell == b)
        wanted = best_subset(there[here], previous[here], z, psi)
        assert there[here][found[here]].sum() == pytest.approx(wanted)
        assert there[here][blocks[here] >= 0].sum() == pytest.approx(wanted), "blocks that are alike change nothing"
        used = blocks[here][blocks[here] >= 0]
        assert len(set(used.tolist())) == len(used)


@settings(max_examples=40)
@given(seeds, st.integers(1, 3), st.integers(0, 3))
def test_blocks_are_matched_as_well_as_can_be(seed, z, psi):
    rng = np.random.default_rng(seed)
    n, n_blocks = 5, 3
    value = np.where(rng.random((n_blocks, n)) < 0.8, rng.normal(size=(n_blocks, n)), -np.inf)
    previous = rng.random(n) < 0.5
    found = select_blocks(value, Cells(np.zeros(n, dtype=np.int64), 1, np.ones(n, dtype=bool), previous, z, psi))

    def brute(limit):
        top = (0, 0.0)
        for size in range(1, z + 1):
            for who in combinations(range(n), size):
                if previous[list(who)].sum() <= limit:
                    for blocks in permutations(range(n_blocks), size):
                        total = value[list(blocks), list(who)].sum()
                        if np.isfinite(total):
                            top = max(top, (size, total)) if top[0] else (size, total)
        return top

    wanted = max(brute(psi), brute(n)) if brute(psi)[0] < brute(n)[0] else brute(psi)
    on = np.flatnonzero(found >= 0)
    assert (len(on), value[found[on], on].sum()) == pytest.approx(wanted)


@settings(max_examples=10)
@given(seeds, st.integers(1, 4), st.integers(0, 3), st.sampled_from([0.02, 0.4]))
def test_allocation_is_the_best_plan_of_the_best_subset(seed, z, psi, theta):
    """Cells of five clients, everything by brute force but the least energies."""
    client = clients(seed, n=15)
    previous = np.random.default_rng(seed).random(15) < 0.4
    cells = grid(3, 5, z, psi, previous)
    found = allocate(client, cells, theta)
    check(client, cells, found)
    there = brute_force(client, theta)
    value = offers(client, best(client, theta), theta).value
    mine = objectives(found, cells, theta)
    for b in range(3):
        here = slice(5 * b, 5 * b + 5)
        assert mine[b] == pytest.approx(-best_subset(value[here], previous[here], z, psi))
        if np.isfinite(there[here]).sum() == np.isfinite(value[here]).sum():
            assert mine[b] <= -best_subset(there[here], previous[here], z, psi) + 1e-9
    assert found.objective(theta) == pytest.approx(mine.sum() / (3 * z))


@few
@given(seeds, st.sampled_from(["max", "exact"]), thetas, st.integers(0, 4))
def test_allocations_keep_every_limit(seed, mode, theta, psi):
    rng = np.random.default_rng(seed)
    client, cells = clients(seed), grid(6, 10, 4, psi, rng.random(60) < 0.3)
    cells = cells._replace(available=rng.random(60) < 0.9)
    found = allocate(client, cells, theta, mode)
    check(client, cells, found)
    blocks = found.block[found.selected]
    assert ((blocks >= 0) & (blocks < 4)).all()
    assert len(set(zip(cells.cell[found.selected].tolist(), blocks.tolist(), strict=True))) == len(blocks)


@few
@given(seeds, thetas)
def test_exact_is_never_worse_than_full_speed(seed, theta):
    client, cells = clients(seed), grid(6, 10, 3)
    best_found, full = (allocate(client, cells, theta, mode) for mode in ("exact", "max"))
    assert (best_found.limit[full.limit == 0] == 0).all()
    same = np.bincount(cells.cell[best_found.selected], minlength=6) == np.bincount(
        cells.cell[full.selected], minlength=6
    )
    assert (objectives(best_found, cells, theta) <= objectives(full, cells, theta) + 1e-9)[same].all()


@pytest.mark.parametrize("mode", ["max", "exact"])
def test_unequal_blocks(mode):
    """Interference on a block is a lower gain; alike blocks give what the simple choice gives."""
    client, cells = clients(8, hopeless=False), grid(6, 10, 2, 1, np.arange(60) % 3 == 0)
    factor = np.array([1.0, 0.3, 1e-2])[:, None]
    wide = Client(*(np.broadcast_to(part, (3, 60)) for part in client))
    found = allocate_blocks(wide._replace(snr_per_watt=client.snr_per_watt * factor), cells, 0.4, mode)
    on = found.selected
    assert set(found.block[on].tolist()) == {0, 1}, "the worst of three blocks stays idle"
    taken = client.snr_per_watt * np.where(on, factor[:, 0][found.block], 1.0)
    check(
        only(client._replace(snr_per_watt=taken), on), Cells(*(p[on] if np.ndim(p) else p for p in cells)), _on(found)
    )
    alike = allocate_blocks(wide, cells, 0.4, mode)
    assert alike.objective(0.4) == pytest.approx(allocate(client, cells, 0.4, mode).objective(0.4))


def _on(found):
    return found._replace(**{n: p[found.selected] for n, p in found._asdict().items() if np.ndim(p)})


# ---------------------------------------------------------------- round after round


@pytest.mark.parametrize("psi", [0, 1, 3, 6])
def test_overlap_of_consecutive_rounds(psi):
    client, previous, overlaps = clients(2, n=12, hopeless=False), None, []
    for _ in range(6):
        cells = grid(1, 12, 6, psi, previous)
        found = allocate(client, cells, 0.4)
        overlaps.append(int((found.selected & cells.previous).sum()))
        previous = found.selected
    assert overlaps[0] == 0
    assert max(overlaps) <= psi
    if psi == 6:
        assert overlaps[1:] == [6] * 5, "no limit: the same clients are best every time"
    if psi == 0:
        assert overlaps == [0] * 6, "two disjoint halves take turns"


def test_too_few_or_nobody_eligible():
    client = clients(4, n=12, hopeless=False)
    cells = grid(3, 4, 3, 0, np.ones(12, dtype=bool))._replace(
        available=np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]) > 0
    )
    for mode in ("max", "exact"):
        found = allocate(client, cells, 0.4, mode)
        assert np.bincount(cells.cell[found.selected], minlength=3).tolist() == [3, 2, 0]
    nobody = allocate(client, cells._replace(available=np.zeros(12, dtype=bool)), 0.4)
    assert not nobody.selected.any()
    assert nobody.objective(0.4) == 0
