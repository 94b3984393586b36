"""Private methods in the round: FedAvg without noise, sums that losses cannot spoil, what is accounted and refused."""

import numpy as np
import pytest
import torch
from small_config import SMALL

from fedcell import methods, radio
from fedcell.coding.accounting import epsilon
from fedcell.deploy.coded import told
from fedcell.errors import BadInput
from fedcell.learn import deferred
from fedcell.methods.parts.coded import coded
from fedcell.methods.parts.sampling import sampling
from fedcell.methods.parts.schedulers import schedule
from fedcell.options import override
from fedcell.plan.looking import looks_at_updates
from fedcell.scenarios import build_problem
from fedcell.simulate import SIMULATED, begin, play_round, simulate
from fedcell.world import observe, start

QUIET = "clip_norm=1e6,noise_multiplier=0"
LOSSY = {
    "world.access": "block",
    "world.n_blocks": "6",
    "world.interference_over_noise": "1e2..1e5",
    "world.outage_threshold_db": "10",
    "world.pathloss": "power_law",
}


def run(problem, text):
    return list(simulate(problem, methods.parse(text).build()))


# ---------------------------------------------------------------- what the method gets


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedopt"])
def test_without_noise_and_clipping_it_is_the_method_with_equal_weights(small, name):
    problem = small({"data.partition": "dirichlet"})
    for (row, after), (other, again) in zip(
        run(problem, f"{name}:weights=equal"), run(problem, f"{name}+private:{QUIET}"), strict=True
    ):
        torch.testing.assert_close(after.params, again.params, rtol=1e-4, atol=1e-5)
        assert row._replace(metrics={}) == other._replace(metrics={})
        assert "epsilon" not in other.metrics, "nothing is promised without noise"


def test_what_devices_hold_has_no_weight(small):
    """`weights=samples` breaks the promise, so it means nothing here."""
    problem = small({"data.partition": "dirichlet"})
    equal, samples = (run(problem, f"fedavg+private:weights={one}")[-1][1].params for one in ("equal", "samples"))
    assert torch.equal(equal, samples)


@pytest.mark.parametrize("clipping", ["fixed", "adaptive"])
def test_lost_uploads_count_as_zeros_and_the_noise_stays(small, clipping):
    """`(sum of those heard + N(0, (z S)^2)) / m`, with `m` asked, never heard."""
    problem = small(LOSSY, rounds=6)
    text = f"clip_norm=0.5,clipping={clipping}"
    method, lost = methods.parse(f"fedavg+private:{text},noise_multiplier=1e-4").build(), 0
    sent = []

    def encode(*given):
        updates = method.encode(*given)
        sent.append(updates)
        return updates

    params = problem.learner.initial()
    for row, after in simulate(problem, method._replace(encode=encode)):
        updates = sent.pop()
        heard = np.array([row.outcome[k] == "D" for k in updates.device])
        lost += int((~heard).sum())
        rows = updates.delta[torch.from_numpy(heard), : len(params)]
        assert (rows.norm(dim=1) <= row.metrics["clip_norm"] * (1 + 1e-6)).all()
        expected = rows.sum(dim=0) / 6
        torch.testing.assert_close(after.params - params, expected, rtol=0, atol=1e-3)
        params = after.params
    assert lost


def test_a_round_in_which_nobody_is_heard_or_drawn_releases_noise_all_the_same(small):
    """Else an unchanged model would tell that nobody was drawn."""
    problem = small({"world.deadline_s": "1e-9"})
    method = methods.parse("fedavg+private:scheduler=poisson,n_selected=2").build()
    first = begin(problem, method)
    row, after = play_round(SIMULATED, problem, method, first)
    assert row.n_delivered == 0
    moved = (after.params - first.params).double()
    assert float(moved.std()) == pytest.approx(1.0 / 2, rel=0.2)
    local = methods.parse("fedavg+private:dp=local").build()
    _, still = play_round(SIMULATED, problem, local, begin(problem, local))
    assert torch.equal(still.params, first.params), "devices make the noise of local privacy, and none was heard"


def test_large_cohorts_train_once_and_never_lie_in_memory(small, in_blocks, monkeypatch):
    problem = small({"world.n_devices": "9", "world.availability": "0.8", "train.workers": "2"})
    texts = ("fedavg+private:clip_norm=0.1,clipping=adaptive,noise_multiplier=0.1", "fedavg+private:dp=local")
    whole = [run(problem, text) for text in texts]
    in_blocks(1)
    monkeypatch.setattr(deferred.Deferred, "matrix", lambda self: pytest.fail("all updates in memory"))
    for text, before in zip(texts, whole, strict=True):
        for (row, after), (other, again) in zip(before, run(problem, text), strict=True):
            assert row._replace(metrics={}) == other._replace(metrics={})
            torch.testing.assert_close(after.params, again.params, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- what is accounted


@pytest.mark.parametrize(
    ("text", "rule", "rates"),
    [
        ("scheduler=poisson,n_selected=2", "poisson", [1 / 3] * 4),
        ("scheduler=random,n_selected=3", "random", [1 / 2] * 4),
        ("scheduler=all", "all", [1.0] * 4),
        ("dp=local,scheduler=round-robin,n_selected=3", "local", [1.0, 1.0]),
    ],
)
def test_every_row_has_the_epsilon_of_its_sampling(small, text, rule, rates):
    problem = small()
    rows = [row for row, _ in run(problem, f"fedavg+private:noise_multiplier=4,{text}")]
    found = [row.metrics["epsilon"] for row in rows]
    assert found[-1] == pytest.approx(epsilon("rdp", rule, np.array(rates), 4.0, 1e-5), rel=1e-12)
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_fewer_devices_that_are_there_raise_the_chance_of_each(small):
    """Three of four is not three of six; that nobody is there costs nothing."""
    problem = small({"world.availability": "0.5"}, rounds=8)
    config = methods.parse("fedavg:scheduler=random,n_selected=3").config
    method, rates = methods.parse("fedavg+private:scheduler=random,n_selected=3,noise_multiplier=8").build(), []

    def decide(problem, state, observation):
        there = int(observation.available.sum())
        rates.append(min(3 / there, 1.0) if there else 0.0)
        found = sampling(config, problem, observation.topology.cell, observation.available)
        assert found.n_expected == min(there, 3)
        return method.decide(problem, state, observation)

    history = list(simulate(problem, method._replace(decide=decide)))
    assert len({*rates}) > 2
    assert history[-1][0].metrics["epsilon"] == pytest.approx(
        epsilon("rdp", "random", np.array(rates), 8.0, 1e-5), rel=1e-9
    )


def test_a_target_is_met_in_the_last_round(small):
    for text in ("scheduler=poisson,n_selected=2", "scheduler=all", "dp=local"):
        row = run(small(), f"fedavg+private:target_epsilon=3,{text}")[-1][0]
        assert 2.9 < row.metrics["epsilon"] <= 3
        assert row.metrics["noise_multiplier"] != 1


def test_poisson_draws_each_device_by_itself_with_the_accounted_chance(small):
    problem = small({"world.n_devices": "40"})
    method = methods.parse("fedavg").build()
    observation, _ = SIMULATED.observe(problem, begin(problem, method))
    drawn = np.array(
        [schedule("poisson", 10, problem, observation._replace(round=round)) for round in range(3000)]
    ).astype(float)
    assert drawn.mean(axis=0) == pytest.approx(0.25, abs=0.04)
    assert drawn.sum(axis=1).var() == pytest.approx(40 * 0.25 * 0.75, rel=0.12), "a binomial number, not a fixed one"
    assert abs(np.corrcoef(drawn[:, 3], drawn[:, 17])[0, 1]) < 0.08
    found = sampling(
        methods.parse("fedavg:scheduler=poisson").config, problem, observation.topology.cell, observation.available
    )
    assert found == ("poisson", 0.25, 10.0)


# ---------------------------------------------------------------- secure aggregation


def test_secure_aggregation_is_paid_for_and_told(small):
    problem = small({"world.downlink": "unicast", "world.access": "own_band", "world.receive_watt": "0.1"})
    plain, secure = (run(problem, f"fedavg+private:{QUIET}{more}")[0][0] for more in ("", ",secure=pairwise"))
    up, down = secure.metrics["secure_up_bit"], secure.metrics["secure_down_bit"]
    assert secure.uplink_bit == plain.uplink_bit + 6 * up
    assert secure.metrics["downlink_bit"] == plain.metrics["downlink_bit"] + 6 * down
    assert secure.round_s > plain.round_s
    cycles = 10.0 * problem.learner.n_params * 6  # of each device
    extra = problem.world.devices.capacitance * cycles * problem.world.devices.cpu_hz**2
    assert secure.compute_joule - plain.compute_joule == pytest.approx(float(extra.sum()), rel=1e-6)
    assert not any(name.startswith("secure") for name in plain.metrics)


def test_steps_that_fit_leave_room_for_the_masks(small):
    """In a round that ends in time without masks and late with them."""
    slow = {"world.cycles_per_sample": "1e6..4e6", "world.bandwidth_hz": "5e6", "train.steps": "40"}
    problem = small(slow | {"world.deadline_s": "0.3"})
    text = f"fedavg+private:effort=fit,{QUIET},secure=pairwise,mask_cycles=2000"
    decision = coded_decision(problem, text)
    most = coded_decision(problem, text.replace("mask_cycles=2000", "mask_cycles=0")).steps
    assert all(row.n_delivered == row.n_selected == 6 for row, _ in run(problem, text))
    assert (decision.steps < most).any()
    seen = observed_first(problem)
    compute_s, upload_s = radio.times(problem.world, seen, decision)
    step_s = problem.train.batch_size * seen.devices.cycles_per_sample / seen.devices.cpu_hz
    room_s = 0.3 - compute_s - upload_s
    assert (room_s >= 0).all()
    assert (room_s < step_s)[decision.steps < 40].all(), "one step more does not fit"


def test_masks_are_planned_for_those_who_are_asked(small):
    """Masks for pairs cost each device by how many take part, not by how many there are."""
    text = f"fedavg+private:effort=fit,scheduler=random,n_selected=2,{QUIET},secure=pairwise,mask_cycles=3e4"
    slow = {"world.cycles_per_sample": "1e6", "train.steps": "40", "world.deadline_s": "0.3"}
    few, many = (small({**slow, "world.n_devices": n}) for n in ("4", "40"))
    for problem in (few, many):
        decision = coded_decision(problem, text)
        others = coded_decision(problem, text.replace("mask_cycles=3e4", "mask_cycles=0"))
        assert decision.selected.sum() == 2
        assert (decision.steps[decision.selected] >= 0.8 * others.steps[decision.selected]).all()


def coded_decision(problem, text):
    method = methods.parse(text).build()
    return method.decide(problem, begin(problem, method).method, observed_first(problem))


def observed_first(problem):
    return observe(problem.world, start(problem.world, problem.seed), problem.seed, 0)[0]


# ---------------------------------------------------------------- what is refused


def test_every_method_goes_or_is_refused(small):
    refused = set()
    for name in methods.names():
        try:
            methods.parse(f"{name}+private").build()
        except BadInput:
            refused.add(name)
    assert set(methods.names()) - refused == {"fedavg", "fedprox", "fedopt"}


@pytest.mark.parametrize("scheduler", ["round-robin", "best-channel", "fastest", "fedcs", "latency", "energy"])
def test_schedulers_that_no_accounting_holds_for_are_refused(small, scheduler):
    problem = small()
    with pytest.raises(BadInput, match=f"scheduler = '{scheduler}' does not go with private, whose accountant needs"):
        begin(problem, methods.parse(f"fedavg+private:scheduler={scheduler}").build())
    begin(problem, methods.parse(f"fedavg+private:scheduler={scheduler},dp=local").build())


def test_a_decision_of_ones_own_is_refused():
    plain = methods.parse("fedavg").build()
    private = methods.load("fedavg+private").coding
    with pytest.raises(BadInput, match="private does not go with mine, which chooses devices by a rule of its own"):
        coded(plain._replace(decide=lambda *given: plain.decide(*given)), private.build(private.Config()), "mine")


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        ("scheduler=poisson", {"world.access": "block"}, "scheduler = 'poisson' .* world.access = 'block'"),
        ("scheduler=latency,weights=unbiased,dp=local", {}, "private does not go with weights = 'unbiased'"),
        ("clip_norm=1", {"world.access": "air"}, "private does not go with world.access = 'air': it makes bits"),
        ("scheduler=random,accountant=pld", {}, "accountant = 'pld' does not go with scheduler = 'random'"),
        ("clipping=adaptive,noise_multiplier=3,quantile_noise=1", {}, "quantile_noise = 1 leaves nothing"),
        (
            "scheduler=all",
            {"world.edge_rounds": "2", "world.topology": "cells", "world.n_cells": "2"},
            "world.edge_rounds = 2 one at every base station",
        ),
    ],
)
def test_worlds_and_settings_that_do_not_go_together_are_refused(small, text, changes, words):
    with pytest.raises(BadInput, match=words):
        begin(small(changes), methods.parse(f"fedavg+private:{text}").build())


def test_running_statistics_are_refused_unless_they_stay_home(small):
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 10)
    )
    method = methods.parse("fedavg+private:clip_norm=5,noise_multiplier=0.001").build()
    with pytest.raises(
        BadInput, match=r"private does not go with running statistics .* set model.buffers=local or frozen"
    ):
        begin(build_problem(SMALL, model=net), method)
    for buffers in ("local", "frozen"):
        problem = build_problem(override(SMALL, {"model.buffers": buffers}), model=net)
        assert list(simulate(problem, method))[-1][0].metrics["epsilon"] > 0


def test_a_federation_refuses_noise_that_its_server_knows():
    with pytest.raises(BadInput, match="private cannot be deployed: its noise comes from the seed of the run"):
        told(methods.parse("fedavg+private"))


def test_plans_cover_private_methods_and_adaptive_norms_cost_no_choice(small):
    assert not looks_at_updates(small(), methods.parse("fedavg+private:clipping=adaptive,secure=graph").build())
