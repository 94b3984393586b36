"""Keep ratios, kept units and schedules of AMP-FL against plain loops, brute force and the spec's reference numbers."""

from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcell import world
from fedcell.methods import pruning
from fedcell.methods.pruning.schedule import (
    SCHEDULERS,
    Bands,
    keep_ratio,
    kept_counts,
    offers,
    omega,
    unit_masks,
    unit_order,
)
from fedcell.methods.pruning.theory import age_cost, next_age
from fedcell.options import override
from fedcell.scenarios import get

SIZES = (6, 16, 128)
DEADLINE_S = 0.1


@pytest.fixture(scope="module")
def cell(small):
    """The paper's cell and load; the network is never trained."""
    config = override(get("pruning").config, {"data.name": "digits", "model.name": "logistic", "train.device": "cpu"})
    problem = small(world=config.world, data=config.data, train=config.train)
    return problem._replace(world=problem.world._replace(payload_bit=36_758 * 32.0))


def seen(problem, round=0):
    return world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, round)[0]


def offered(problem, observation, deadline_s=DEADLINE_S, keep=None, min_one_unit=False, sizes=SIZES):
    config = pruning.Config(deadline_s=deadline_s)
    plan = pruning.full_model(config, problem, observation)
    return offers(problem, observation, plan, sizes, keep, min_one_unit), plan


def some_ages(seed, n_devices, n_units):
    return np.random.default_rng(seed).integers(0, 9, (n_devices, n_units))


# ---------------------------------------------------------------- who gets which band


def test_devices_with_the_strongest_channels_all_get_a_band(cell):
    """The larger sum of rates would leave out one that was picked, because it can use one band alone."""
    observation, n = seen(cell), cell.world.n_devices
    feasible, rate = np.zeros((2, n, 2))
    feasible[0], feasible[1, 0] = True, True
    rate[0], rate[1, 0] = (10.0, 1.0), 2.0
    found, _ = offered(cell, observation)
    fewer = found._replace(feasible=feasible.astype(bool), rate_bps=rate)
    observation = observation._replace(interference_watt=observation.interference_watt[:2])
    band = SCHEDULERS["channel"](Bands(cell, observation, fewer, np.ones((n, 2)), 2))
    assert (band[0], band[1]) == (1, 0)


# ---------------------------------------------------------------- keep ratios


def full_seconds(problem, observation, plan):
    """Compute and upload of the full model by the equations of the paper, `[n_devices, n_blocks]`."""
    devices, noise = observation.devices, 1e6 * 10 ** (-174 / 10) / 1e3
    compute = 8 * 64 * 782_816 / (devices.cpu_hz * 4)
    sinr = devices.power_watt[:, None] * observation.gain[:, None] / (observation.interference_watt + noise)
    return compute[:, None] + 36_758 * 32 / (1e6 * np.log2(1 + sinr))


def test_ratio_makes_the_deadline_tight_and_rounding_down_keeps_it(cell):
    observation = seen(cell)
    found, plan = offered(cell, observation)
    full_s = full_seconds(cell, observation, plan)
    pruned = found.keep < 1
    np.testing.assert_allclose((found.keep**2 * full_s)[pruned], DEADLINE_S, rtol=1e-9)
    assert (found.share**2 * full_s <= DEADLINE_S * (1 + 1e-9)).all()
    assert (found.share <= found.keep + 1e-9).all()


@pytest.mark.parametrize(("cpu_hz", "interference", "ratio"), [(0.85e9, 1e5, 0.468), (1.3e9, 1e2, 0.777)])
def test_reference_ratios_at_the_edge_of_the_cell(cell, cpu_hz, interference, ratio):
    """chen-ch6, section 6.4: 500 m, no fading."""
    observation = seen(cell)
    n = cell.world.n_devices
    observation = observation._replace(
        gain=np.full(n, 1e-3 * 500.0**-2),
        interference_watt=np.full(10, interference * cell.world.noise_watt_per_hz * 1e6),
        devices=observation.devices._replace(cpu_hz=np.full(n, cpu_hz)),
    )
    assert offered(cell, observation)[0].keep[0, 0] == pytest.approx(ratio, abs=1e-3)


def test_ratio_is_one_where_the_full_model_fits(cell):
    found, _ = offered(cell, seen(cell), deadline_s=1e4)
    assert (found.keep == 1).all()
    assert (found.counts == SIZES).all()
    assert (found.share == 1).all()


CHANGES = {
    "cpu_hz": 1,
    "power_watt": 1,
    "gain": 1,
    "deadline": 1,
    "interference": -1,
    "payload": -1,
    "cycles": -1,
}


@pytest.mark.parametrize("what", CHANGES)
def test_ratio_moves_the_right_way(cell, what):
    observation, problem, deadline_s = seen(cell), cell, DEADLINE_S
    before = offered(problem, observation)[0].keep
    devices = observation.devices
    if what in ("cpu_hz", "power_watt"):
        devices = devices._replace(**{what: getattr(devices, what) * 1.5})
    elif what == "cycles":
        devices = devices._replace(cycles_per_sample=devices.cycles_per_sample * 1.5)
    elif what == "gain":
        observation = observation._replace(gain=observation.gain * 1.5)
    elif what == "interference":
        observation = observation._replace(interference_watt=observation.interference_watt * 1.5)
    elif what == "payload":
        problem = problem._replace(world=problem.world._replace(payload_bit=problem.world.payload_bit * 1.5))
    else:
        deadline_s *= 1.5
    after = offered(problem, observation._replace(devices=devices), deadline_s)[0].keep
    assert (CHANGES[what] * (after - before) >= 0).all()
    assert (after != before).any()


def test_counts_round_down_but_for_rounding():
    assert kept_counts(np.array([0.57, 0.5, 1.0]), (100, 3)).tolist() == [[57, 1], [50, 1], [100, 3]]
    assert kept_counts(keep_ratio(np.array([4.0]), 1.0), (6,)).tolist() == [[3]]


def test_hopeless_channels_are_left_out_or_keep_one_unit(cell):
    observation = seen(cell)
    gain = observation.gain.copy()
    gain[:50] *= 1e-12  # psi I_l < 1 in the narrow layer
    gain[0] = 0.0
    observation = observation._replace(gain=gain)
    found, _ = offered(cell, observation)
    assert not found.feasible[:50].any()
    assert found.feasible[50:].mean() > 0.9
    kept, _ = offered(cell, observation, min_one_unit=True)
    assert kept.counts.min() == 1
    assert kept.feasible[1:].all()
    assert not kept.feasible[0].any(), "without any rate nothing arrives"


def test_fixed_ratio_still_has_a_deadline(cell):
    observation = seen(cell)
    assert offered(cell, observation, deadline_s=1e9, keep=0.9)[0].feasible.all()
    tight, _ = offered(cell, observation, keep=0.6)
    assert (tight.feasible == (full_seconds(cell, observation, None) * tight.share**2 <= DEADLINE_S)).all()
    assert 0 < tight.feasible.mean() < 1


def test_one_unit_at_least_waives_no_other_deadline(cell):
    observation = seen(cell)
    plain, kept = (offered(cell, observation, keep=0.6, min_one_unit=on)[0] for on in (False, True))
    assert (kept.feasible == plain.feasible).all()
    raised, _ = offered(cell, observation, keep=0.1, min_one_unit=True)
    assert (raised.counts == [1, 1, 12]).all()
    assert (raised.feasible == (full_seconds(cell, observation, None) * raised.share**2 <= DEADLINE_S)).all()


# ---------------------------------------------------------------- units


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_prefix_sums_are_the_direct_sums(seed):
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 7, 3))
    age = some_ages(seed, 4, sum(sizes))
    order = unit_order(age + rng.random(age.shape), sizes)
    counts = kept_counts(rng.random((4, 3)), sizes)
    direct = np.zeros((4, 3))
    for band in range(3):
        keep = unit_masks(order, counts[:, band])
        direct[:, band] = np.where(keep, (age + 1.0) ** 2, 0).sum(axis=1)
        layers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        for device, (layer, number) in product(range(4), enumerate(layers)):
            kept, dropped = (age[device, number[keep[device, number] == on]] for on in (True, False))
            assert len(kept) == counts[device, band, layer]
            assert not len(kept) or not len(dropped) or kept.min() >= dropped.max(), "the oldest are kept"
    np.testing.assert_allclose(omega(age, order, counts), direct)


def test_oldest_units_are_the_best_of_all_masks_with_equal_ratios():
    """Brute force over the masks that keep half of every layer."""
    sizes, age = (4, 2), some_ages(3, 1, 6)
    counts = kept_counts(np.full((1, 1), 0.5), sizes)
    mine = omega(age, unit_order(age, sizes), counts)[0, 0]
    worth = (age[0] + 1.0) ** 2
    masks = product(combinations(range(4), 2), combinations((4, 5), 1))
    assert mine == max(worth[list(a + b)].sum() for a, b in masks)


def test_halves_alternate_where_one_device_trains_half_in_every_round():
    age = np.zeros((1, 10), dtype=np.int64)
    before = np.zeros((1, 10), dtype=bool)
    for round in range(5):
        keep = unit_masks(unit_order(age.astype(float), (4, 6)), np.array([[2, 3]]))
        assert round == 0 or (keep != before).all()
        age, before = next_age(age, keep), keep
        assert set(age.ravel()) <= {0, 1}


# ---------------------------------------------------------------- schedules


def choice(problem, observation, age, deadline_s=DEADLINE_S):
    found, _ = offered(problem, observation, deadline_s)
    order = unit_order(age.astype(float), SIZES)
    return Bands(problem, observation, found, omega(age, order, found.counts), 10)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_blocks_are_given_once(cell, scheduler):
    observation = seen(cell)
    band = SCHEDULERS[scheduler](choice(cell, observation, some_ages(1, 100, 150)))
    used = band[band >= 0]
    assert sorted(used) == list(range(10))


def test_matching_beats_every_other_way_to_give_blocks(cell):
    observation = seen(cell)
    given_ = choice(cell, observation, some_ages(2, 100, 150))
    few = given_._replace(
        offers=given_.offers._replace(feasible=given_.offers.feasible & (np.arange(100) < 5)[:, None])
    )
    for rule, weight in (("omega", given_.omega), ("pr", given_.offers.keep)):
        few_blocks = np.where(np.arange(10) < 3, weight, 0.0)
        band = few.match(few_blocks)
        mine = few_blocks[np.flatnonzero(band >= 0), band[band >= 0]].sum()
        best = max(sum(few_blocks[k, r] for r, k in enumerate(chosen)) for chosen in permutations(range(5), 3))
        assert mine == pytest.approx(best), rule


def test_first_round_weighs_kept_units(cell):
    found = choice(cell, seen(cell), np.zeros((100, 150), dtype=np.int64))
    assert (found.omega == found.offers.counts.sum(axis=2)).all()


def test_channel_scheduling_takes_the_strongest(cell):
    observation = seen(cell)
    band = SCHEDULERS["channel"](choice(cell, observation, some_ages(1, 100, 150)))
    assert set(np.flatnonzero(band >= 0)) == set(np.argsort(observation.gain)[-10:])


def test_squared_ages_fall_by_what_was_matched(cell):
    """K A_t = sum (age + 1)^2 - sum z Omega."""
    observation, age = seen(cell), some_ages(4, 100, 150)
    found = choice(cell, observation, age)
    band = SCHEDULERS["omega"](found)
    device = np.flatnonzero(band >= 0)
    trained = np.zeros(age.shape, dtype=bool)
    order = [part[device] for part in unit_order(age.astype(float), SIZES)]
    trained[device] = unit_masks(order, found.offers.counts[device, band[device]])
    after = next_age(age, trained)
    assert 100 * age_cost(after) == pytest.approx(((age + 1.0) ** 2).sum() - found.omega[device, band[device]].sum())


def test_more_blocks_and_more_time_are_worth_more(cell):
    observation, age = seen(cell), some_ages(5, 100, 150)

    def value(deadline_s, n_blocks):
        found = choice(cell, observation, age, deadline_s)
        weight = np.where(np.arange(10) < n_blocks, found.omega, 0.0)
        band = found.match(weight)
        return weight[np.flatnonzero(band >= 0), band[band >= 0]].sum()

    by_blocks = [value(DEADLINE_S, n) for n in (1, 3, 10)]
    by_time = [value(seconds, 10) for seconds in (0.05, 0.1, 0.3)]
    assert by_blocks == sorted(by_blocks)
    assert by_time == sorted(by_time)
    assert by_blocks[0] < by_blocks[-1]
    assert by_time[0] < by_time[-1]


@pytest.mark.parametrize(("scheduler", "mean_age"), [("omega", 8.5), ("random", 13.5), ("pr", 90.0)])
def test_reference_ages_without_training(cell, scheduler, mean_age):
    """chen-ch6, section 7: mean over the last 100 of 200 rounds where devices stay; one seed there, another here."""
    age, means = np.zeros((100, 150), dtype=np.int64), []
    for round in range(200):
        observation = seen(cell, round)
        found = choice(cell, observation, age)
        band = SCHEDULERS[scheduler](found)
        device = np.flatnonzero(band >= 0)
        trained = np.zeros(age.shape, dtype=bool)
        order = [part[device] for part in unit_order(age.astype(float), SIZES)]
        trained[device] = unit_masks(order, found.offers.counts[device, band[device]])
        age = next_age(age, trained)
        means.append(age.mean())
    assert np.mean(means[100:]) == pytest.approx(mean_age, rel=0.15)
