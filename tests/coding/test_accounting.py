"""Epsilon against dp-accounting used directly, against pfl's accountants, and against closed forms."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from fedcell.coding.accounting import _divergences, epsilon, noise_for, quietly
from fedcell.errors import BadInput

# pfl 0.6.0 with dp-accounting 0.5.1:
#   RDPPrivacyAccountant(num_compositions=ROUNDS, sampling_probability=RATE, mechanism="gaussian",
#                        noise_parameter=NOISE, delta=DELTA).epsilon
# and the same of PLDPrivacyAccountant.
PFL = [
    ("rdp", 1, 0.1, 1.0, 1e-5, 2.1330059954307927),
    ("rdp", 100, 0.01, 1.0, 1e-5, 1.2141452944480204),
    ("rdp", 500, 0.05, 0.7, 1e-6, 20.37727331262665),
    ("rdp", 60, 0.25, 3.0, 1e-4, 2.7483079575804856),
    ("rdp", 20, 1.0, 8.0, 1e-5, 2.451506386226333),
    ("pld", 1, 0.1, 1.0, 1e-5, 1.6845438210269619),
    ("pld", 100, 0.01, 1.0, 1e-5, 0.7180367094257558),
    ("pld", 500, 0.05, 0.7, 1e-6, 18.52167057709976),
    ("pld", 60, 0.25, 3.0, 1e-4, 2.4631796209572987),
    ("pld", 20, 1.0, 8.0, 1e-5, 2.2581455017751275),
]
# pfl's accountants with epsilon=TARGET in place of noise_parameter, .noise_parameter
PFL_NOISE = [
    ("rdp", 100, 0.1, 2.0, 1e-5, 2.422332763671875),
    ("rdp", 50, 0.05, 8.0, 1e-6, 0.7162094116210938),
]


@pytest.fixture(scope="module")
def dpa():
    """dp-accounting, which takes a second to import in every process that collects this file."""
    import dp_accounting

    return dp_accounting


@pytest.mark.parametrize(("name", "rounds", "rate", "noise", "delta", "expected"), PFL)
def test_epsilon_is_that_of_pfl(name, rounds, rate, noise, delta, expected):
    assert epsilon(name, "poisson", np.full(rounds, rate), noise, delta) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("name", "rounds", "rate", "target", "delta", "expected"), PFL_NOISE)
def test_noise_is_that_of_pfl_and_meets_its_target(name, rounds, rate, target, delta, expected):
    noise = noise_for(name, "poisson", rate, rounds, target, delta)
    assert noise == pytest.approx(expected, rel=5e-3)
    assert 0.99 * target < epsilon(name, "poisson", np.full(rounds, rate), noise, delta) <= target


def test_rounds_of_different_rates_are_those_of_dp_accounting_in_any_order(dpa):
    rates = np.array([0.1, 0.0, 0.3, 0.1, 1.0, 0.3])
    direct = dpa.rdp.RdpAccountant()
    with quietly():
        for rate in rates[rates > 0]:
            direct.compose(dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(2.0)))
    expected = direct.get_epsilon(1e-5)
    assert epsilon("rdp", "poisson", rates, 2.0, 1e-5) == pytest.approx(expected, rel=1e-9)
    assert epsilon("rdp", "poisson", rates[::-1], 2.0, 1e-5) == pytest.approx(expected, rel=1e-9)


def test_so_many_of_all_devices_are_sampled_without_replacement_from_replaced_data(dpa):
    direct = dpa.rdp.RdpAccountant(neighboring_relation=dpa.NeighboringRelation.REPLACE_ONE)
    with quietly():
        direct.compose(dpa.SampledWithoutReplacementDpEvent(30, 7, dpa.GaussianDpEvent(2.0)), 40)
    found = epsilon("rdp", "random", np.full(40, 7 / 30), 4.0, 1e-5)
    assert found == pytest.approx(direct.get_epsilon(1e-5), rel=1e-9)
    assert found > epsilon("rdp", "poisson", np.full(40, 7 / 30), 4.0, 1e-5), "a replaced device counts twice"


def exact(noise, delta):
    """Epsilon of one Gaussian mechanism (Balle, Wang, 2018, Theorem 8)."""

    def excess(eps):
        return norm.cdf(0.5 / noise - eps * noise) - np.exp(eps) * norm.cdf(-0.5 / noise - eps * noise) - delta

    return brentq(excess, 0, 100)


@pytest.mark.parametrize("noise", [0.8, 2.0])
@pytest.mark.parametrize("rounds", [1, 9])
def test_without_sampling_it_is_the_gaussian_mechanism(rounds, noise):
    """So many rounds are one with the square root of it less noise."""
    expected = exact(noise / np.sqrt(rounds), 1e-5)
    tight = epsilon("pld", "all", np.ones(rounds), noise, 1e-5)
    assert tight == pytest.approx(expected, rel=1e-3)
    assert tight <= epsilon("rdp", "all", np.ones(rounds), noise, 1e-5) < 1.3 * expected
    assert epsilon("rdp", "local", np.ones(rounds), 2 * noise, 1e-5) == epsilon(
        "rdp", "all", np.ones(rounds), noise, 1e-5
    )


def test_more_noise_fewer_rounds_and_smaller_chances_cost_less():
    least = epsilon("rdp", "poisson", np.full(10, 0.1), 1.5, 1e-5)
    assert 0 < least < epsilon("rdp", "poisson", np.full(10, 0.1), 1.0, 1e-5)
    assert least < epsilon("rdp", "poisson", np.full(11, 0.1), 1.5, 1e-5)
    assert least < epsilon("rdp", "poisson", np.full(10, 0.11), 1.5, 1e-5)
    assert epsilon("rdp", "poisson", np.zeros(10), 1.5, 1e-5) == 0


def test_one_round_is_accounted_once():
    _divergences.cache_clear()
    for rounds in range(1, 6):
        epsilon("rdp", "poisson", np.full(rounds, 0.123), 1.5, 1e-5)
    assert _divergences.cache_info().misses == 1


def test_a_target_that_no_noise_meets_is_refused():
    with pytest.raises(BadInput, match=r"epsilon = 1e-06 at delta = 1e-12 needs more noise than any model survives"):
        noise_for("rdp", "all", 1.0, 10, 1e-6, 1e-12)
