"""Sums over the air: exact without noise, and with the error and the powers that closed forms and brute force say."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sent_at_once import AIR, asks, fedavg, sent, silent, some_rows

from fedcell.air.superposed import superposed
from fedcell.errors import BadInput, ContractError
from fedcell.learn.learner import Learner
from fedcell.radio import air
from fedcell.screening import heard_at_once
from fedcell.simulate import simulate

SUMS = ["fedavg", "fedprox", "fednova", "fedopt", "h_fedavg", "moon", "ditto", "fedrep", "apfl", "cafe:quorum=2"]
CELLS = {"world.topology": "cells", "world.n_cells": "2", "world.n_devices": "7"}
DIGITAL = {"world.access": "own_band", "world.fading": "exponential"}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("rule", ["analog", "cotaf"])
def test_without_noise_every_method_of_sums_has_the_bits_that_it_has_on_bands_of_their_own(small, name, rule):
    changes = DIGITAL | ({"world.deadline_s": "1e6"} if "cafe" in name else {})
    assert_same_models(small, changes, name, {"world.air_rule": rule})


def test_so_it_is_for_stations_that_relay(small):
    assert_same_models(small, DIGITAL | CELLS)


def test_so_it_is_for_edge_models(small):
    assert_same_models(small, DIGITAL | CELLS | {"world.edge_rounds": "2"})


@pytest.mark.parametrize("name", ["fedavg", "fedopt"])
def test_so_it_is_for_a_large_cohort(small, in_blocks, name):
    in_blocks(2)
    assert_same_models(small, DIGITAL, name)


def assert_same_models(small, changes, name="fedavg", more=None):
    digital = list(simulate(small(changes), fedavg(name)))
    at_once = list(simulate(silent(small(changes | AIR | (more or {}))), fedavg(name)))
    for (_, one), (row, other) in zip(digital, at_once, strict=True):
        assert row.n_delivered
        assert torch.equal(one.params, other.params)


def test_a_large_cohort_is_trained_once(small, in_blocks, monkeypatch):
    in_blocks(2)
    trained, train = [], Learner._train
    monkeypatch.setattr(Learner, "_train", lambda *given: trained.append(len(given[2].steps)) or train(*given))
    problem = small(AIR, rounds=1)
    list(simulate(problem, fedavg()))
    assert sum(trained) == problem.world.n_devices


# ---------------------------------------------------------------- error and power


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    antennas=st.sampled_from([1, 2, 5]),
    rule=st.sampled_from(["analog", "cotaf"]),
    snr_db=st.sampled_from([None, -10.0, 20.0]),
)
def test_the_error_of_a_sum_is_the_closed_form(small, seed, antennas, rule, snr_db):
    problem = small(AIR | {"world.antennas": antennas, "world.air_rule": rule, "world.air_snr_db": snr_db})
    rng, n = np.random.default_rng(seed), problem.world.n_devices
    gain, power, weights = 10 ** rng.uniform(-12, -8, n), rng.uniform(0.01, 1, n), rng.uniform(-1, 1, n)
    rows = some_rows(n, 20_001, seed) * torch.from_numpy(10 ** rng.uniform(-4, 0, n).astype(np.float32))[:, None]
    played = sent(problem, rows, gain, power)
    heard = superposed(problem, "fedavg", asks(weights), played)
    who = played.heard()
    if not len(who):
        assert snr_db is not None
        return

    effective = air.combined_gain(problem.world, played.observation, played.decision, problem.seed)
    noise = problem.world.noise_watt_per_hz * problem.world.settings.bandwidth_hz
    symbols = 10_001
    level = power * effective if snr_db is None else np.full(n, noise * 10 ** (snr_db / 10))
    needs = weights**2 * rows.double().square().sum(dim=1).numpy() / symbols
    scale = level[who].min() / needs[who].max() if rule == "cotaf" else (level / needs)[who].min()
    assert heard.uplink.sums["air_mse"] == pytest.approx(noise / 2 / scale, rel=1e-9)

    exact = torch.from_numpy(weights[who]) @ rows[who].double()
    error = asks(weights)(heard).double() - exact
    deviation = (noise / 2 / scale) ** 0.5
    rounding = 1e-6 * float(exact.abs().max())
    assert float(error.square().mean()) ** 0.5 == pytest.approx(deviation, rel=6 * (0.5 / 20_001) ** 0.5, abs=rounding)
    assert abs(float(error.mean())) <= 6 * deviation / 20_001**0.5 + rounding

    used = np.zeros(n)
    used[who] = (scale * needs / effective)[who]
    assert heard.uplink.radio_joule == pytest.approx(used * played.uplink.upload_s, rel=1e-9)
    assert (used <= power * (1 + 1e-9)).all()
    assert played.uplink.upload_s[who] == pytest.approx(symbols / problem.world.settings.bandwidth_hz)


@pytest.mark.parametrize("antennas", [1, 4])
def test_symbols_through_inverted_channels_add_up(small, antennas):
    """Every symbol of every device through every antenna, against the sum and the powers that are computed at once."""
    problem = silent(small(AIR | {"world.antennas": antennas, "world.fading": "exponential"}))
    rows, weights = some_rows(6, 40), np.array([0.1, 0.3, 0.1, 0.2, 0.2, 0.1])
    played = sent(problem, rows)
    heard = superposed(problem, "fedavg", asks(weights), played)

    channel = air.channels(problem.world, played.observation, problem.seed)
    limit = played.decision.power_watt
    f = air.combiner(np.sqrt(limit)[:, None] * channel)
    assert np.linalg.norm(f) == pytest.approx(1)
    through = channel @ f.conj()
    symbols = rows.double().numpy()[:, ::2] + 1j * rows.double().numpy()[:, 1::2]
    needs = weights**2 * (np.abs(symbols) ** 2).mean(axis=1) / np.abs(through) ** 2
    scale = (limit / needs).min()
    on_air = scale**0.5 * weights[:, None] * symbols / through[:, None]
    at_antennas = channel.T @ on_air
    total = f.conj() @ at_antennas / scale**0.5
    found = asks(weights)(heard).double().numpy()
    assert found[::2] == pytest.approx(total.real, rel=1e-5, abs=1e-6)
    assert found[1::2] == pytest.approx(total.imag, rel=1e-5, abs=1e-6)
    used = (np.abs(on_air) ** 2).mean(axis=1)
    assert heard.uplink.radio_joule == pytest.approx(used * 20 / problem.world.settings.bandwidth_hz)
    assert used.max() <= limit.max() * (1 + 1e-12)


def test_every_cell_has_a_scale_and_a_noise_of_its_own(small):
    problem, n = small(AIR | CELLS), 7
    rows, weights = some_rows(n, 20_000), np.full(n, 1 / n)
    gain = np.where(np.arange(n) < 4, 1e-9, 1e-11)  # the second cell is weaker
    played = sent(problem, rows, gain, np.full(n, 0.1))
    heard = superposed(problem, "fedavg", asks(weights), played)
    noise = problem.world.noise_watt_per_hz * problem.world.settings.bandwidth_hz
    needs = weights**2 * rows.double().square().sum(dim=1).numpy() / 10_000
    each = [noise / 2 / (0.1 * gain / needs)[part].min() for part in (slice(0, 4), slice(4, 7))]
    assert heard.uplink.sums["air_mse"] == pytest.approx(sum(each))
    assert heard.uplink.sums["symbols"] == 20_000
    error = asks(weights)(heard).double() - torch.from_numpy(weights) @ rows.double()
    assert float(error.square().mean()) == pytest.approx(sum(each), rel=6 * (2 / 20_000) ** 0.5)


def test_stations_relay_one_sum_each(small):
    row, _ = next(simulate(small(AIR | CELLS), fedavg()))
    n_params = small(AIR | CELLS).learner.n_params
    assert row.metrics["backhaul_bit"] == 2 * n_params * 32
    assert row.metrics["symbols"] == n_params
    assert row.uplink_bit == 0


def test_noise_is_new_in_every_round_and_the_same_on_a_seed(small):
    first, again = ([snapshot.params for _, snapshot in simulate(small(AIR), fedavg())] for _ in range(2))
    assert all(map(torch.equal, first, again))
    loud = small(AIR | {"train.lr": 1e-9, "world.air_full_scale": 1.0})  # nothing but noise moves the model
    models = [snapshot.params for _, snapshot in simulate(loud, fedavg())]
    one, other = models[1] - models[0], models[2] - models[1]
    assert float(one.norm()) > 0
    assert abs(float(torch.cosine_similarity(one, other, dim=0))) < 0.2


def test_a_run_resumes_bit_for_bit(small):
    problem = small(AIR | {"world.fading": "exponential", "world.antennas": 2})
    whole = list(simulate(problem, fedavg("fedopt")))
    rest = list(simulate(problem, fedavg("fedopt"), whole[1][1]))
    assert [row for row, _ in rest] == [row for row, _ in whole[2:]]
    assert torch.equal(rest[-1][1].params, whole[-1][1].params)


# ---------------------------------------------------------------- what is not heard


def test_an_update_that_is_not_finite_is_not_sent(small):
    problem, weights = small(AIR), np.full(6, 1 / 6)
    rows = some_rows(6, 100)
    rows[2, 5] = float("nan")
    heard = heard_at_once(problem, "fedavg", asks(weights), sent(problem, rows))
    assert heard.uplink.letters == "DDXDDD"
    assert heard.uplink.radio_joule[2] == 0
    assert (np.delete(heard.uplink.radio_joule, 2) > 0).all()
    assert asks(weights)(heard).isfinite().all()


def test_updates_of_nothing_take_no_power(small):
    heard = superposed(small(AIR), "fedavg", asks(np.full(6, 1 / 6)), sent(small(AIR), torch.zeros(6, 10)))
    assert not heard.uplink.radio_joule.any()
    assert not asks(np.full(6, 1 / 6))(heard).any()


def test_rows_are_refused_by_name(small):
    problem = small(AIR)
    with pytest.raises(BadInput, match=r"mine does not go with world.access = 'air': it needs the update of each"):
        superposed(problem, "mine", lambda played: played.received(), sent(problem, some_rows(6, 10)))


def test_several_sums_are_refused_by_name(small):
    problem, played = small(AIR), sent(small(AIR), some_rows(6, 10))
    together, apart = (lambda one: one.add_up(np.eye(6)[:2])), (lambda one: [one.add_up(w) for w in np.eye(6)[:2] + 1])
    for aggregate in (together, apart, two_halves):
        with pytest.raises(BadInput, match=r"mine does not go with world.access = 'air': it takes several sums"):
            superposed(problem, "mine", aggregate, played)


def two_halves(played):
    """Sums of different devices, which would meet in the air all the same."""
    for half in (slice(0, 3), slice(3, 6)):
        updates = played.updates._replace(device=played.updates.device[half], rows=played.updates.rows.some(half))
        played._replace(updates=updates).add_up(np.ones(3))


def test_the_same_sum_may_be_asked_for_twice(small):
    problem = small(AIR)

    def twice(played):
        return played.add_up(np.ones(6)), played.add_up(np.ones((1, 6)))

    one, other = twice(superposed(problem, "mine", twice, sent(problem, some_rows(6, 10))))
    assert torch.equal(one, other[0])


def test_a_sum_that_depends_on_a_sum_breaks_the_contract(small):
    def twice(played):
        total = played.add_up(np.ones(6))
        return played.add_up(np.full(6, 1.0 + float(total.abs().sum())))

    problem = small(AIR)
    with pytest.raises(ContractError, match="depend on another sum"):
        twice(superposed(problem, "mine", twice, sent(problem, some_rows(6, 10))))
