"""The client problem: blocks against brute force, the alternation, the exact solver, and who is a straggler."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcell import methods, radio, world
from fedcell.errors import BadInput
from fedcell.methods.parts.client_planning.plan import ClientConfig, client_problem, make_plan
from fedcell.methods.parts.client_planning.problem import (
    Client,
    Limit,
    compute_joule,
    efficiency_tangent,
    energy_tangent,
    least_clock_hz,
    least_power_watt,
    most_steps,
    power_for,
    step_limits,
    upload,
)
from fedcell.methods.parts.client_planning.solvers import alternate, exact, sca_power
from fedcell.methods.parts.resources import plan as full_speed
from fedcell.options import Law
from fedcell.simulate import simulate
from fedcell.types import Store
from fedcell.world.settings import WorldConfig

ALTERNATING = ("closed", "sca")


def clients(seed, n=200):
    """Random clients around the paper's, from hopeless to easy."""
    rng = np.random.default_rng(seed)
    bandwidth = rng.uniform(1e5, 2e6, n)
    return Client(
        snr_per_watt=10 ** rng.uniform(1, 6, n) * 540e3 / bandwidth,
        bandwidth_hz=bandwidth,
        payload_bit=10 ** rng.uniform(5, 8, n),
        cycles_per_step=10 ** rng.uniform(7, 9.3, n),
        capacitance=np.full(n, 1e-28),
        most_steps=rng.integers(1, 9, n),
        cpu_hz=rng.uniform(1e9, 1.8e9, n),
        power_watt=10 ** rng.uniform(-1, 0, n),
        budget_joule=rng.uniform(0.1, 2.5, n),
        deadline_s=10 ** rng.uniform(0.5, 2.5, n),
    )


def solve(client, solver="closed", **settings):
    return make_plan(ClientConfig(solver=solver, **settings), client)


def spent(client, plan):
    upload_s, upload_joule = upload(client, plan.power_watt)
    seconds = client.cycles_per_step * plan.steps / plan.cpu_hz + upload_s
    return seconds, compute_joule(client, plan.steps, plan.cpu_hz) + upload_joule


def objective(client, steps, cpu_hz, power_watt, epsilon=0.5):
    """What clients maximise, osafl Eq. (5): steps per joule of computing, bits per joule of sending."""
    computing = steps / (client.capacitance * client.cycles_per_step * cpu_hz**2)
    rate_bps = client.bandwidth_hz * np.log2(1 + client.snr_per_watt * power_watt)
    return epsilon * computing + (1 - epsilon) * rate_bps / power_watt


def only(client, keep):
    return Client(*(value[keep] for value in client))


seeds = st.integers(0, 10**6)
few = settings(max_examples=25)


# ---------------------------------------------------------------- blocks


@few
@given(seeds)
def test_steps_are_the_most_that_fit(seed):
    client = clients(seed)
    f, p = client.cpu_hz / 2, client.power_watt / 2
    found = most_steps(client, *step_limits(client, f, p))
    upload_s, upload_joule = upload(client, p)
    for k in range(1, 9):
        fits = (client.cycles_per_step * k / f + upload_s <= client.deadline_s) & (
            compute_joule(client, k, f) + upload_joule <= client.budget_joule
        )
        np.testing.assert_array_equal(found >= k, fits & (k <= client.most_steps))


@few
@given(seeds)
def test_clock_is_the_best_of_a_grid(seed):
    client = clients(seed)
    steps, p = np.ones(200, dtype=np.int64), client.power_watt / 2
    upload_s, _ = upload(client, p)
    least = least_clock_hz(client, steps, upload_s)
    on = np.isfinite(least)
    np.testing.assert_array_equal(on, upload_s < client.deadline_s)
    client, least, p, steps, upload_s = only(client, on), least[on], p[on], steps[on], upload_s[on]
    best = objective(client, steps, least, p)
    for factor in (0.5, 0.9, 0.999, 1.0, 1.001, 1.1, 2.0):
        in_time = client.cycles_per_step / (factor * least) + upload_s <= client.deadline_s * (1 + 1e-9)
        if factor < 1:  # relative to the deadline, a slightly slower clock is late by next to nothing where c / f is
            late = client.cycles_per_step / least * (1 / factor - 1) > 1e-8 * client.deadline_s
            assert not in_time[late].any()
        else:
            assert in_time.all()
            assert (objective(client, steps, factor * least, p) <= best * (1 + 1e-12)).all()


@few
@given(seeds)
def test_power_is_the_best_of_a_grid(seed):
    client = clients(seed)
    steps, f = np.ones(200, dtype=np.int64), client.cpu_hz / 2
    least = least_power_watt(client, steps, f)
    grid = np.geomspace(1e-4, 1, 400)[:, None] * client.power_watt
    in_time = client.cycles_per_step / f + upload(client, grid)[0] <= client.deadline_s
    in_budget = compute_joule(client, steps, f) + upload(client, grid)[1] <= client.budget_joule
    value = np.where(in_time & in_budget, objective(client, steps, f, grid), -np.inf)
    possible = np.isfinite(value.max(axis=0))
    assert (least[possible] <= grid[value.argmax(axis=0), np.arange(200)][possible]).all()
    mine = (least <= client.power_watt) & (
        compute_joule(client, steps, f) + upload(client, np.where(np.isfinite(least), least, 1.0))[1]
        <= client.budget_joule
    )
    assert (mine | ~possible).all(), "whatever the grid finds, the closed form finds"
    at_best = objective(only(client, possible), steps[possible], f[possible], least[possible])
    assert (at_best >= value.max(axis=0)[possible] * (1 - 1e-12)).all()
    client, f, least = only(client, mine), f[mine], least[mine]
    np.testing.assert_allclose(client.cycles_per_step / f + upload(client, least)[0], client.deadline_s, rtol=1e-9)


@few
@given(seeds)
def test_power_for_a_time_takes_that_time(seed):
    client = clients(seed)
    p = client.power_watt * np.random.default_rng(seed).uniform(0.01, 1, 200)
    possible = upload(client, p)[0] * client.bandwidth_hz * 60 > client.payload_bit
    np.testing.assert_allclose(power_for(client, upload(client, p)[0])[possible], p[possible], rtol=1e-9)


def test_energy_of_sending_falls_to_its_floor():
    """`S ln2 / (omega a)` as the power goes to zero."""
    client = clients(3)
    least = client.payload_bit * np.log(2) / (client.bandwidth_hz * client.snr_per_watt)
    np.testing.assert_allclose(upload(client, 1e-9 / client.snr_per_watt)[1], least, rtol=1e-6)
    assert (upload(client, client.power_watt)[1] > least).all()


# ---------------------------------------------------------------- tangents and SCA


@few
@given(seeds)
def test_tangents_touch_and_lie_on_the_safe_side(seed):
    client = clients(seed)
    at, to = np.random.default_rng(seed).uniform(0.02, 1, (2, 200)) * client.power_watt

    def efficiency(p):
        return radio.rate.rate_bps(client.bandwidth_hz, client.snr_per_watt * p) / p

    for tangent, true, sign in (
        (efficiency_tangent, efficiency, -1),
        (energy_tangent, lambda p: upload(client, p)[1], 1),
    ):
        value, slope = tangent(client, at)
        np.testing.assert_allclose(value, true(at), rtol=1e-12)
        h = 1e-4 * at
        np.testing.assert_allclose(slope, (true(at + h) - true(at - h)) / (2 * h), rtol=1e-4)
        gap = sign * (value + slope * (to - at) - true(to))
        assert (gap >= -1e-10 * true(to)).all()


@few
@given(seeds)
def test_sca_returns_the_least_power_from_any_feasible_point(seed):
    client = clients(seed)
    steps, f = np.ones(200, dtype=np.int64), client.cpu_hz / 2
    least = least_power_watt(client, steps, f)
    within = least < client.power_watt
    start = np.where(within, least, 0.0)
    start += np.random.default_rng(seed).uniform(0, 1, 200) * (client.power_watt - start)
    price = upload(client, start)[1] + compute_joule(client, steps, f)
    on = within & (price <= client.budget_joule)
    found = sca_power(only(client, on), steps[on], f[on], start[on])
    np.testing.assert_allclose(found, least[on], rtol=1e-9)


@few
@given(seeds, st.just(0.0) | st.floats(1e-9, 0.99))
def test_sca_and_epsilon_change_nothing(seed, epsilon):
    client = clients(seed)
    closed, sca = solve(client), solve(client, "sca", epsilon=epsilon)
    np.testing.assert_array_equal(closed.limit, sca.limit)
    np.testing.assert_array_equal(closed.steps, sca.steps)
    np.testing.assert_allclose(closed.cpu_hz, sca.cpu_hz, rtol=1e-9)
    np.testing.assert_allclose(closed.power_watt, sca.power_watt, rtol=1e-9)


# ---------------------------------------------------------------- whole plans


@few
@given(seeds, st.sampled_from(["closed", "sca", "exact"]), st.sampled_from([(0.5, 0.5), (1.0, 0.5), (1.0, 1.0)]))
def test_plans_keep_every_limit(seed, solver, start):
    client = clients(seed)
    plan = solve(client, solver, start_cpu=start[0], start_power=start[1])
    on = plan.feasible
    seconds, joule = spent(client, plan)
    assert (plan.steps[on] >= 1).all()
    assert (plan.steps <= client.most_steps).all()
    assert (plan.steps[~on] == 0).all()
    assert (plan.cpu_hz <= client.cpu_hz).all()
    assert (plan.power_watt <= client.power_watt).all()
    assert (joule[on] <= client.budget_joule[on] * (1 + 1e-9)).all()
    np.testing.assert_allclose(seconds[on], client.deadline_s[on], rtol=1e-9)
    assert np.isfinite([plan.cpu_hz, plan.power_watt]).all()


@few
@given(seeds, st.sampled_from(ALTERNATING))
def test_a_second_pass_changes_nothing(seed, solver):
    client = clients(seed)
    once, often = solve(client, solver, passes=1), solve(client, solver, passes=10, tolerance=1e-15)
    np.testing.assert_array_equal(once.steps, often.steps)
    np.testing.assert_array_equal(once.limit, often.limit)
    np.testing.assert_allclose(once.power_watt, often.power_watt, rtol=1e-6)
    np.testing.assert_allclose(once.power_watt, client.power_watt / 2, rtol=1e-6, err_msg="the start point stays")
    again = alternate(only(client, often.feasible), often.cpu_hz[often.feasible], often.power_watt[often.feasible])
    np.testing.assert_array_equal(again.steps, often.steps[often.feasible])


@few
@given(seeds, st.sampled_from(["closed", "exact"]))
def test_more_room_never_makes_a_straggler(seed, solver):
    client, more = clients(seed), 1 + np.random.default_rng(seed).exponential(0.5, 200)
    before = solve(client, solver).feasible
    for better in (
        client._replace(budget_joule=client.budget_joule * more),
        client._replace(deadline_s=client.deadline_s * more),
        client._replace(snr_per_watt=client.snr_per_watt * more),
    ):
        assert not (before & ~solve(better, solver).feasible).any()
    assert not (~before & solve(client._replace(payload_bit=client.payload_bit * more), solver).feasible).any()


@few
@given(seeds, st.sampled_from([(0.5, 0.5), (1.0, 0.5), (1.0, 1.0)]))
def test_exact_does_at_least_what_the_alternation_does(seed, start):
    client = clients(seed)
    f, p = client.cpu_hz * start[0], client.power_watt * start[1]
    assert (exact(client, f, p).steps >= alternate(client, f, p).steps).all()


@settings(max_examples=10)
@given(seeds)
def test_exact_is_the_best_of_a_grid_of_upload_times(seed):
    client = clients(seed)
    plan = solve(client, "exact")
    shortest = upload(client, client.power_watt)[0]
    for k in range(1, 9):
        longest = client.deadline_s - client.cycles_per_step * k / client.cpu_hz
        tau = shortest + np.linspace(0, 1, 400)[:, None] * (longest - shortest)
        with np.errstate(all="ignore"):
            joule = tau * power_for(client, tau) + compute_joule(
                client, k, client.cycles_per_step * k / (client.deadline_s - tau)
            )
            joule = np.where((tau > 0) & (longest >= shortest), joule, np.inf).min(axis=0)
        grid_says = (joule <= client.budget_joule) & (k <= client.most_steps)
        assert not (grid_says & (plan.steps < k)).any()
        mine = plan.steps == k
        assert (spent(client, plan)[1][mine] <= joule[mine] * (1 + 1e-9)).all()


@pytest.mark.parametrize("solver", ["closed", "sca", "exact"])
@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ({"snr_per_watt": 0.0}, {Limit.TIME, Limit.POWER}),
        ({"bandwidth_hz": 0.0, "snr_per_watt": 0.0}, {Limit.TIME, Limit.POWER}),
        ({"budget_joule": 0.0}, {Limit.ENERGY}),
        ({"deadline_s": 0.9e8 / 1e9}, {Limit.CPU}),
        ({"payload_bit": 1e12}, {Limit.TIME, Limit.POWER}),
        ({"capacitance": 1.0}, {Limit.ENERGY}),
        ({"deadline_s": 1e-30}, {Limit.TIME, Limit.POWER}),
    ],
)
def test_hopeless_clients_are_stragglers_with_a_reason(solver, change, limit):
    easy = Client(*(np.full(3, v) for v in (1e6, 1e6, 1e4, 1e8, 1e-28)), np.full(3, 5), *np.full((4, 3), 1.0))
    easy = easy._replace(cpu_hz=np.full(3, 1e9), deadline_s=np.full(3, 10.0))
    assert solve(easy, solver).steps.tolist() == [5, 5, 5]
    hard = solve(easy._replace(**{name: np.full(3, value) for name, value in change.items()}), solver)
    assert set(hard.limit.tolist()) <= limit
    assert not hard.feasible.any()
    assert np.isfinite([hard.cpu_hz, hard.power_watt]).all()


@pytest.mark.parametrize("solver", ["closed", "sca", "exact"])
def test_without_a_deadline_the_start_point_stays(solver):
    client = clients(5)._replace(deadline_s=np.full(200, np.inf))
    plan = solve(client, solver, start_power=0.25)
    np.testing.assert_array_equal(plan.cpu_hz, client.cpu_hz / 2)
    np.testing.assert_array_equal(plan.power_watt, client.power_watt / 4)
    assert set(plan.limit.tolist()) == {Limit.NONE, Limit.ENERGY}
    free = solve(client._replace(budget_joule=np.full(200, np.inf)), solver)
    np.testing.assert_array_equal(free.steps, client.most_steps)


# ---------------------------------------------------------------- in a world

CELL = WorldConfig(
    n_devices=100,
    access="own_band",
    bandwidth_hz=540e3,
    cycles_per_sample=Law((25 * 101376, 40 * 101376), "uniform"),
    energy_per_round_joule=Law((1.2, 2.5), "uniform"),
    bits_per_parameter=33.0,
    deadline_s=200.0,
)


def stragglers(n_params, config, n_rounds=20):
    """Stragglers of every round in the paper's cell, three drops."""
    out = []
    for seed in range(3):
        store = Store(np.zeros((100, 1), dtype=np.int64), np.full(100, 400))
        place = world.build_world(CELL, world.static_stream(store), n_params, 0.0, seed)
        state = world.start(place, seed)
        for round in range(n_rounds):
            seen, _ = world.observe(place, state, seed, round)
            problem = type("Problem", (), {"world": place})
            draft = full_speed(problem, seen, seen.available, 5, 160)
            out.append(100 - make_plan(config, client_problem(problem, seen, draft)).feasible.sum())
    return float(np.median(out))


@pytest.mark.parametrize(
    ("n_params", "start", "expected"),
    [
        (0.4e6, (0.5, 0.5), 4),
        (1.0e6, (0.5, 0.5), 34),
        (1.5e6, (0.5, 0.5), 55),
        (2_217_956, (0.5, 0.5), 72),
        (2_217_956, (1.0, 0.5), 75),
        (2_217_956, (1.0, 1.0), 92),
        (3.85e6, (0.5, 0.5), 89),
    ],
)
def test_stragglers_of_the_paper(n_params, start, expected):
    found = stragglers(n_params, ClientConfig(start_cpu=start[0], start_power=start[1]))
    assert found == pytest.approx(expected, abs=4)


def test_exact_leaves_few_stragglers():
    assert stragglers(2_217_956, ClientConfig(solver="exact")) <= 10


TIGHT = {
    "world.access": "own_band",
    "world.bandwidth_hz": "1e5",
    "world.cycles_per_sample": "1e6..1e8",
    "world.energy_per_round_joule": "0.02..1",
    "world.deadline_s": "5",
    "world.n_devices": "20",
}


@pytest.mark.parametrize("solver", ["closed", "sca", "exact"])
@pytest.mark.parametrize("access", ["own_band", "fdma"])
def test_whoever_plans_delivers(small, solver, access):
    """What the plan promises, the radio delivers; stragglers spend nothing and have a reason."""
    problem = small({**TIGHT, "world.access": access, "world.bandwidth_hz": "1e5" if access == "own_band" else "2e6"})
    rows = [row for row, _ in simulate(problem, methods.parse(f"osafl:solver={solver}").build())]
    assert sum(row.n_selected for row in rows) > 0
    for row in rows:
        assert row.n_delivered == row.n_selected == 20 - row.metrics["stragglers"]
        reasons = [row.metrics[f"stragglers_{why}"] for why in ("time", "energy", "power", "cpu")]
        assert sum(reasons) == row.metrics["stragglers"]
        assert row.round_s <= 5 * (1 + 1e-9)
    assert sum(row.metrics["stragglers"] for row in rows) > 0


def test_all_methods_meet_the_same_stragglers(small):
    outcomes = {
        tuple(row.outcome for row, _ in simulate(small(TIGHT), methods.parse(name).build()))
        for name in ("osafl", "m_fedavg", "m_fedprox", "m_fednova", "m_afa_cd", "m_feddisco")
    }
    assert len(outcomes) == 1


def test_resource_blocks_are_refused(small):
    problem = small({"world.access": "block"})
    method = methods.parse("osafl").build()
    with pytest.raises(BadInput, match=r"client planner.*world\.access = 'block'"):
        method.init(problem, problem.learner.initial())
    seen = world.observe(problem.world, world.start(problem.world, 1), 1, 0)[0]
    with pytest.raises(BadInput, match=r"client planner.*world\.access = 'block'"):
        method.decide(problem, None, seen)


def test_a_local_step_counts_all_its_batches(small):
    """Both readings of a step cost the same; the sequence moves further."""
    problem = small({"world.cycles_per_sample": "1e6"})
    rows = {
        inner: next(iter(simulate(problem, methods.parse(f"osafl:inner={inner},n_batches=3").build())))
        for inner in ("average", "sequential")
    }
    assert rows["average"][0].compute_joule == rows["sequential"][0].compute_joule
    start = problem.learner.initial()
    moved = {inner: float((after.params - start).norm()) for inner, (_, after) in rows.items()}
    assert 1.5 < moved["sequential"] / moved["average"] < 3.5
    whole = small({"world.cycles_per_sample": "1e6", "train.batch_size": "0"})
    costs = [
        next(iter(simulate(whole, methods.parse(f"m_fedavg:inner={inner},n_batches=3").build())))[0].compute_joule
        for inner in ("average", "sequential")
    ]
    assert costs[1] == pytest.approx(3 * costs[0])
