"""FL-GR's scheduler: budgets, optimality, monotonicity, staleness levels, and the numbers of the published setting."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcell import methods, radio, world
from fedcell.data.settings import DataConfig
from fedcell.errors import Diverged
from fedcell.learn import models
from fedcell.learn.norms import batch_norms
from fedcell.learn.settings import ModelConfig
from fedcell.methods.parts.matching import draft, match, pairs
from fedcell.methods.recycling import WEIGHTS, Config
from fedcell.methods.recycling.theory import next_staleness, steps_in_turn, steps_of
from fedcell.options import Law, override
from fedcell.scenarios import build_problem, get
from fedcell.simulate import begin, simulate
from fedcell.types import Outcome
from fedcell.world.settings import WorldConfig

PAPER_BIT = 122_626 * 16
SCHEDULERS = ("staleness", "success", "gradient", "random")


@pytest.fixture(scope="module")
def paper():
    """The published cell with digits in place of CIFAR-10 and the same payload: `paper({"world.n_blocks": 5})`."""
    base = replace(
        get("recycling").config,
        data=DataConfig(name="digits", partition="shards"),
        model=ModelConfig(name="logistic"),
    )
    base = override(base, {"train.device": "cpu", "world.bits_per_parameter": PAPER_BIT / 650})
    return lambda changes=None: build_problem(override(base, changes or {}))


def scene(problem, round=0):
    return world.observe(problem.world, world.start(problem.world, problem.seed), problem.seed, round)[0]


def state_of(problem, config, staleness=None, norm=None):
    n = problem.world.n_devices
    state = methods.load("recycling").init(config, problem, torch.zeros(problem.learner.n_params))
    zero = np.zeros(n)
    return state._replace(
        staleness=zero.astype(np.int64) if staleness is None else staleness, norm=zero if norm is None else norm
    )


def decided(problem, observation, staleness=None, **settings):
    config = Config(**settings)
    method = methods.load("recycling").build(config)
    return method.decide(problem, state_of(problem, config, staleness), observation)


# ---------------------------------------------------------------- budgets


def hard_world(problem, energy, deadline, threshold_db, n_blocks):
    """The problem with other budgets and blocks; the draws stay."""
    place = problem.world.settings
    changed = replace(
        place,
        n_blocks=n_blocks,
        energy_per_round_joule=Law((energy,)),
        deadline_s=deadline,
        outage_threshold_db=threshold_db,
    )
    n_params = problem.learner.n_params
    return problem._replace(world=world.build_world(changed, problem.world.stream, n_params, 0.0, problem.seed))


budgets = st.tuples(
    st.floats(0.3, 1.2),
    st.floats(0.08, 0.5),
    st.floats(-10, 40).map(lambda db: round(db, 6)),
    st.integers(1, 12),
    st.integers(0, 5000),
)


@settings(max_examples=40)
@given(budgets, st.sampled_from(SCHEDULERS))
def test_whoever_is_scheduled_keeps_to_every_budget(paper_small, drawn, scheduler):
    *limits, round = drawn
    problem = hard_world(paper_small, *limits)
    seen = scene(problem, round)
    tau = np.random.default_rng(round).integers(0, 30, problem.world.n_devices)
    decision = decided(problem, seen, tau, scheduler=scheduler, norms="cached")
    uplink = radio.transmit(problem.world, seen, decision, problem.seed)  # refuses blocks or powers beyond the contract
    assert set(uplink.outcome) <= {Outcome.IDLE, Outcome.DELIVERED, Outcome.OUTAGE}
    on, devices = decision.selected, seen.devices
    spent, budget = uplink.compute_joule + uplink.radio_joule, devices.energy_per_round_joule
    assert (spent[on] <= budget[on] * (1 + 1e-9)).all()
    below = on & (decision.power_watt < devices.power_watt * (1 - 1e-12))
    np.testing.assert_allclose(spent[below], budget[below], rtol=1e-9)  # less than full power spends the whole budget
    assert (uplink.compute_s + uplink.upload_s)[on].max(initial=0) <= problem.world.settings.deadline_s * (1 + 1e-9)


@pytest.fixture(scope="module")
def paper_small(paper):
    return paper({"world.n_devices": "12"})


def test_a_budget_just_above_computing_lowers_the_power(paper_small):
    """0.3342 J go into computing at 0.8 GHz; a millijoule more leaves no full power there, and nothing elsewhere."""
    problem = hard_world(paper_small, 0.33417 + 1e-3, 0.5, 0.0, 10)
    seen = scene(problem, 3)
    found = pairs(problem, seen, draft(problem, seen, 5, 64, 10))
    slow = seen.devices.cpu_hz == 0.8e9
    power = found.power_watt[slow & found.feasible.any(axis=1)]
    assert slow.any()
    assert ((power[power > 0] > 0) & (power[power > 0] < 0.03)).all()
    assert (power > 0).any()
    assert not found.feasible[~slow].any()


# ---------------------------------------------------------------- optimality


def expected(problem, seen, tau, **settings):
    return decided(problem, seen, tau, **settings).info["asgs_pred"]


@settings(max_examples=25)
@given(budgets)
def test_no_other_scheduler_expects_less_staleness(paper_small, drawn):
    *limits, round = drawn
    problem, tau = hard_world(paper_small, *limits), np.random.default_rng(round).integers(0, 30, 12)
    seen = scene(problem, round)
    best = expected(problem, seen, tau)
    for scheduler in SCHEDULERS[1:]:
        assert best <= expected(problem, seen, tau, scheduler=scheduler, norms="cached") + 1e-9


def test_expected_staleness_falls_with_every_budget_and_rises_with_the_threshold(paper_small):
    tau = np.random.default_rng(1).integers(0, 30, 12)

    def along(place, values):
        out = []
        for value in values:
            limits = [0.8, 0.25, 20.0, 4]
            limits[place] = value
            problem = hard_world(paper_small, *limits)
            out.append(expected(problem, scene(problem, 2), tau))
        return np.diff(out)

    assert (along(0, [0.2, 0.34, 0.4, 0.6, 0.8, 1.1]) <= 1e-9).all()
    assert (along(1, [0.05, 0.15, 0.2, 0.25, 0.3, 0.5]) <= 1e-9).all()
    assert (along(2, [-20.0, 0.0, 20.0, 30.0, 40.0]) >= -1e-9).all()
    assert (along(3, [1, 2, 4, 8, 12, 20]) <= 1e-9).all()  # blocks are nested, their draws come first


def test_the_objective_is_what_the_matching_leaves(paper_small):
    problem = hard_world(paper_small, 1.1, 0.3, 25.0, 4)
    seen, config, tau = scene(problem, 5), Config(), np.arange(12)
    found = pairs(problem, seen, draft(problem, seen, 5, 64, 10))
    weight = WEIGHTS["staleness"](config, problem, state_of(problem, config, tau), seen, found)
    band = match(problem, seen, weight, 10)
    on = np.flatnonzero(band >= 0)
    left = ((tau + 1.0) ** 2).sum() - weight[on, band[on]].sum()
    assert expected(problem, seen, tau) == pytest.approx(left / 12)


def test_one_block_goes_to_the_largest_weight_and_many_to_everyone(paper_small):
    tau = np.random.default_rng(2).integers(0, 9, 12)
    for n_blocks, count in ((1, 1), (12, 12), (30, 12)):
        problem = hard_world(paper_small, 2.0, 5.0, 20.0, n_blocks)
        seen = scene(problem)
        decision = decided(problem, seen, tau)
        assert decision.selected.sum() == count
        if n_blocks == 1:
            found = pairs(problem, seen, draft(problem, seen, 5, 64, 10))
            assert decision.selected[np.argmax((tau + 1) ** 2 * found.success[:, 0])]


def test_nobody_feasible_is_an_empty_round(paper_small):
    problem = hard_world(paper_small, 0.3, 0.3, 0.0, 4)
    decision = decided(problem, scene(problem))
    assert not decision.selected.any()
    assert decision.info["n_feasible"] == 0
    assert decision.info["asgs_real"] == decision.info["asgs_pred"] == 1
    first = begin(problem, methods.parse("recycling").build())
    (row, after), *_ = simulate(problem._replace(n_rounds=1), methods.parse("recycling").build())
    assert torch.equal(first.params, after.params)
    assert after.method.staleness.tolist() == [1] * 12
    assert row.n_selected == 0


def test_special_cases(paper_small):
    problem = hard_world(paper_small, 1.1, 0.3, 25.0, 4)
    seen = scene(problem, 7)
    same, stp = decided(problem, seen, np.full(12, 4)), decided(problem, seen, scheduler="success")
    np.testing.assert_array_equal(same.block, stp.block)  # equal staleness: only success counts
    calm = hard_world(paper_small, 1.1, 0.3, -300.0, 4)
    found = pairs(calm, seen, draft(calm, seen, 5, 64, 10))
    assert (found.success[found.feasible] == 1).all()


def test_gradient_norms_cached_and_asked(paper_small):
    problem = hard_world(paper_small, 2.0, 5.0, -300.0, 4)  # every upload survives: norms alone decide
    seen, config = scene(problem), Config(scheduler="gradient", norms="cached")
    found = pairs(problem, seen, draft(problem, seen, 5, 64, 10))
    norm = np.arange(12.0)
    weight = WEIGHTS["gradient"](config, problem, state_of(problem, config, norm=norm), seen, found)
    assert weight[:, 0].tolist() == [11.0, *range(1, 12)]  # never heard: the largest
    assert (WEIGHTS["gradient"](config, problem, state_of(problem, config), seen, found) == 1).all()
    asked = Config(scheduler="gradient")
    weight = WEIGHTS["gradient"](asked, problem, state_of(problem, asked), seen, found)[:, 0]
    chosen = decided(problem, seen, scheduler="gradient").selected
    assert weight[chosen].min() >= weight[~chosen].max()


def test_bands_of_one_column_pick_the_best_of_each_cell(small):
    problem = small({"world.topology": "cells", "world.n_cells": "3", "world.n_devices": "7"})
    seen, weight = scene(problem), np.arange(7.0)[:, None]  # cells of 3, 2 and 2
    assert match(problem, seen, weight, 1).tolist() == [-1, -1, 0, -1, 0, -1, 0]
    assert match(problem, seen, weight, 9).tolist() == [-1, 0, 0, 0, 0, 0, 0]  # a weight of 0 is never chosen


# ---------------------------------------------------------------- staleness over rounds


def staleness_levels(problem, n_rounds, first, **settings):
    """Mean and mean square over the last rounds, and the devices picked in them, without any training."""
    config = Config(**settings)
    method = methods.load("recycling").build(config)
    state, levels, picked = state_of(problem, config), [], set()
    for round in range(n_rounds):
        seen = scene(problem, round)
        decision = method.decide(problem, state, seen)
        heard = radio.transmit(problem.world, seen, decision, problem.seed).delivered
        before, tau = state.staleness, next_staleness(state.staleness, heard)
        assert np.isin(tau - before, [1, *-before]).all()
        assert (tau == 0).sum() == heard.sum()
        assert decision.info["asgs_real"] == pytest.approx((tau.astype(float) ** 2).mean())
        assert decision.info["stale_mean"] == pytest.approx(tau.mean())
        state = state._replace(staleness=tau)
        if round >= first:
            levels.append((tau.mean(), (tau.astype(float) ** 2).mean()))
            picked |= set(np.flatnonzero(decision.selected))
    return *np.mean(levels, axis=0), len(picked)


def test_levels_of_the_published_cell(paper):
    problem = paper()
    mean, square, picked = staleness_levels(problem, 100, 50)
    assert (mean, square) == pytest.approx((4.5, 28.5), rel=0.03)  # round robin, but for a rare lost or late upload
    assert picked == 100
    mean, square, _ = staleness_levels(problem, 300, 100, scheduler="random")
    assert mean == pytest.approx(9.0, rel=0.1)
    assert 150 < square < 230  # 171 where everyone is always feasible; deep fades keep a few out
    assert staleness_levels(problem, 60, 10, scheduler="success")[2] < 40  # static places: the same few again and again


def reached(problem, n_rounds=40):
    """Share of the rounds in which each device has a feasible pair."""
    found = np.zeros(problem.world.n_devices)
    for round in range(n_rounds):
        seen = scene(problem, round)
        found += pairs(problem, seen, draft(problem, seen, 5, 64, 10)).feasible.any(axis=1)
    return found / n_rounds


def test_the_tight_deadline_makes_reachability_unequal(paper):
    """With slack budgets all are reached nearly always; with the tight deadline some rarely, and lots forget them."""
    tight = override(get("recycling").config, {"world.deadline_s": get("recycling_tight").config.world.deadline_s})
    assert replace(tight, scenario="recycling_tight", rounds=600) == get("recycling_tight").config
    slack, tight = paper(), paper({"world.deadline_s": 0.25, "seed": 2})
    assert reached(slack).min() > 0.4
    often = reached(tight)
    assert often.min() < 0.2
    assert np.median(often) > 0.7
    proposed, drawn = (staleness_levels(tight, 150, 75, scheduler=name)[0] for name in ("staleness", "random"))
    assert 4.5 < proposed < drawn / 2
    assert staleness_levels(tight, 150, 75, scheduler="success")[0] > 2 * drawn
    late = decided(tight, scene(tight, 3))
    assert (radio.transmit(tight.world, scene(tight, 3), late, tight.seed).outcome != Outcome.LATE).all()


def heard_of(problem, n_rounds=400, **settings):
    """Who is heard in every round, `[n_rounds, n_devices]`, without any training."""
    config = Config(**settings)
    method = methods.load("recycling").build(config)
    state, found = state_of(problem, config), []
    for round in range(n_rounds):
        seen = scene(problem, round)
        found.append(radio.transmit(problem.world, seen, method.decide(problem, state, seen), problem.seed).delivered)
        state = state._replace(staleness=next_staleness(state.staleness, found[-1]))
    return np.array(found)


def test_turns_bear_small_steps_and_budgets_that_bind_break_them_up(paper):
    """docs/methods/recycling.md, "When to serve the stalest"."""
    free = {"world.access": "own_band", "world.outage_threshold_db": None, "world.deadline_s": "inf"}
    free |= {"world.clock": "slowest", "world.energy_per_round_joule": "inf"}
    rota = steps_in_turn(10)
    assert steps_of(heard_of(paper())) < 1.2 * rota
    often, seldom = (steps_of(heard_of(paper({**free, "world.availability": p}))) for p in (0.5, 0.12))
    assert often < 1.3 * rota < 5 * rota < seldom
    tight = paper({"world.deadline_s": 0.25})
    mine, lots = heard_of(tight), heard_of(tight, scheduler="random")
    assert 2 * rota < steps_of(mine) < steps_of(lots)
    assert (mine.sum(axis=0) < 3).sum() < (lots.sum(axis=0) < 3).sum(), "lots forget whom the matching finds"


def test_printed_budgets_leave_devices_out_for_ever(paper):
    problem = paper({"world.energy_per_round_joule": "1.0"})
    fast = problem.world.devices.cpu_hz == 1.4e9
    decision = decided(problem, scene(problem))
    assert not decision.selected[fast].any()
    assert decision.info["n_feasible"] <= 100 - fast.sum()
    assert staleness_levels(problem, 60, 55)[0] > 10


def test_expected_square_staleness_is_the_mean_over_outages(paper):
    problem = paper({"world.outage_threshold_db": "25", "world.n_devices": "30"})
    seen, tau = scene(problem, 4), np.random.default_rng(0).integers(0, 20, 30)
    decision = decided(problem, seen, tau)
    met = []
    for seed in range(1500):
        heard = radio.transmit(problem.world, seen, decision, seed).delivered
        met.append((next_staleness(tau, heard).astype(float) ** 2).mean())
    error = np.std(met) / np.sqrt(len(met))
    assert error > 0
    assert decision.info["asgs_pred"] == pytest.approx(np.mean(met), abs=4 * error)


# ---------------------------------------------------------------- the published setting


def test_reference_costs(paper):
    problem = paper()
    seen = scene(problem)
    plan = draft(problem, seen, 5, 64, 10)
    compute_s = radio.times(problem.world, seen, plan)[0]
    joule = radio.forecast.compute_joule(seen, plan)
    costs = {0.8: (0.1305, 0.3342), 1.0: (0.1044, 0.5221), 1.2: (0.0870, 0.7519), 1.4: (0.0746, 1.0234)}
    for clock, (seconds, spent) in costs.items():
        some = np.flatnonzero(np.isclose(seen.devices.cpu_hz, clock * 1e9))[0]
        assert compute_s[some] == pytest.approx(seconds, abs=5e-5)
        assert joule[some] == pytest.approx(spent, abs=5e-5)
    assert plan.payload_bit[0] == pytest.approx(1_962_016)


def test_outage_is_rare_at_the_published_threshold():
    noise = radio.rate.noise_watt(1e6, 10**-20.4)
    chance = [
        radio.rate.success_probability(0.03, 500.0**-2, noise, 1e5 * noise, 10 ** (db / 10)) for db in (0, 20, 30)
    ]
    np.testing.assert_allclose(chance, [0.9967, 0.718, 0.036], atol=5e-4)


@pytest.mark.parametrize(
    ("scenario", "shape", "n_classes", "n_params"),
    [
        ("recycling_mnist", (1, 28, 28), 10, 101_770),
        ("recycling", (3, 32, 32), 10, 122_626),
        ("recycling_vgg", (3, 32, 32), 100, 9_377_508),
        ("recycling_vgg", (3, 32, 32), 10, 9_354_378),
    ],
)
def test_models_have_the_published_size(scenario, shape, n_classes, n_params):
    """Convolutions and dense layers alone: the source counts no norms."""
    net = models.build(get(scenario).config.model, shape, n_classes)
    norms = {id(number) for part in batch_norms(net) for number in part.parameters()}
    assert sum(part.numel() for part in net.parameters() if id(part) not in norms) == n_params


@pytest.mark.parametrize(
    ("scenario", "joule", "seconds"),
    [
        ("recycling", 1.1, 0.3),
        ("recycling_tight", 1.1, 0.25),
        ("recycling_printed", 1.0, 0.3),
        ("recycling_vgg", 250.0, 45.0),
        ("recycling_vgg_printed", 230.0, 35.0),
    ],
)
def test_profiles(scenario, joule, seconds):
    place: WorldConfig = get(scenario).config.world
    assert (place.energy_per_round_joule.values, place.deadline_s) == ((joule,), seconds)
    assert get(scenario).config.scenario == scenario


def test_gradients_that_overflow_end_the_run_as_diverged(paper):
    """The matching cannot weigh by infinity: a result, not a traceback."""
    problem, config = paper(), Config(scheduler="gradient", norms="cached")
    state = state_of(problem, config, norm=np.full(problem.world.n_devices, np.inf))
    with pytest.raises(Diverged, match="gradients left the finite numbers"):
        methods.load("recycling").build(config).decide(problem, state, scene(problem))
