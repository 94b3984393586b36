"""Worlds of two published papers, entered by their lists, against closed forms written here anew.

Facts (sizes, powers, lists) are those of the authors' public code; nothing of that code is used.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.special import lambertw

from fedcell.methods.parts.resources import plan
from fedcell.options import override
from fedcell.radio import bands, transmit
from fedcell.radio.downlink import download
from fedcell.radio.forecast import compute_joule
from fedcell.scenarios import Config
from fedcell.solve.matching import assign
from fedcell.types import Problem, Store
from fedcell.world import build_world, observe, start, static_stream

# ---------------------------------------------------------------- FEDL (Tran et al., INFOCOM 2019): 50 devices, TDMA

KAPPAS = [1e-4, 5e-4, 1e-3, 3e-3, 5e-3, 7e-3, 1e-2, 3e-2, 5e-2, 7e-2, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
KAPPAS += [20, 30, 50, 70, 1e2, 3e2, 5e2, 7e2, 1e3, 3e3, 5e3, 7e3, 1e4]
NOISE_WATT, BAND_HZ, LEAST_WATT, MOST_WATT = 1e-10, 20e6, 0.2, 1.0
PAYLOAD_BIT, DATA_BIT, CYCLES_PER_BIT, ALPHA = 8 * 1.6e6, 8 * 7.5e6, 20.0, 2e-28


def stage(settings: dict[str, object], n: int, n_params: int = 1):
    """World, observation and a full-speed decision for everyone."""
    world_settings = override(Config(), {f"world.{key}": value for key, value in settings.items()}).world
    store = Store(np.zeros((n, 1), dtype=np.int64), np.ones(n, dtype=np.int64))
    world = build_world(world_settings, static_stream(store), n_params, 1.0, seed=1)
    observation, _ = observe(world, start(world, 1), 1, 0)
    problem = Problem(world, None, None, 1, 1)  # type: ignore[arg-type]
    return world, observation, plan(problem, observation, np.ones(n, dtype=bool), 1, 1.0)


@pytest.fixture(scope="module")
def fedl(tmp_path_factory):
    path = tmp_path_factory.mktemp("fedl") / "devices.csv"
    distance = np.random.default_rng(50).uniform(5, 40, 50)
    path.write_text("x_m,y_m\n" + "".join(f"{d!r},0\n" for d in distance.tolist()))
    settings = {
        "n_devices": 50,
        "device_table": str(path),
        "access": "tdma",
        "bandwidth_hz": BAND_HZ,
        "noise_watt": NOISE_WATT,
        "pathloss": "power_law",
        "reference_gain_db": -40,
        "exponent": 4,
        "min_distance_m": 1,
        "power_dbm": 30,
        "cpu_hz": 2e9,
        "cycles_per_sample": DATA_BIT * CYCLES_PER_BIT,
        "capacitance": ALPHA / 2,
        "bits_per_parameter": 8,
    }
    return stage(settings, 50, n_params=1_600_000)


def slots_s(kappa: float, snr_per_watt: np.ndarray) -> np.ndarray:
    """The slots that minimise `sum(energy) + kappa sum(time)`: stationary where `g e(t) + kappa = 0`, then clipped."""
    free = PAYLOAD_BIT * np.log(2) / BAND_HZ / (1 + lambertw((kappa * snr_per_watt - 1) / np.e).real)
    limits = (PAYLOAD_BIT / (BAND_HZ * np.log2(1 + power * snr_per_watt)) for power in (MOST_WATT, LEAST_WATT))
    return np.clip(free, *limits)


def energy_joule(slot_s, snr_per_watt):
    return (2 ** (PAYLOAD_BIT / (BAND_HZ * slot_s)) - 1) / snr_per_watt * slot_s


@pytest.mark.parametrize("kappa", KAPPAS)
def test_fedl_rounds_cost_what_its_closed_form_slots_say(fedl, kappa: float) -> None:
    world, observation, decision = fedl
    g = observation.gain / NOISE_WATT
    tau = slots_s(kappa, g)
    power = (2 ** (PAYLOAD_BIT / (BAND_HZ * tau)) - 1) / g
    uplink = transmit(world, observation, decision._replace(power_watt=power), seed=1)
    assert uplink.upload_s == pytest.approx(tau, rel=1e-9)
    assert uplink.radio_joule == pytest.approx(energy_joule(tau, g), rel=1e-9)
    computing_s = DATA_BIT * CYCLES_PER_BIT / 2e9
    assert uplink.round_s == pytest.approx(computing_s + tau.sum(), rel=1e-9)  # all compute, then take turns
    assert uplink.compute_joule == pytest.approx(np.full(50, ALPHA / 2 * DATA_BIT * CYCLES_PER_BIT * 4e18))


def test_fedl_slots_are_optimal() -> None:
    g = 10 ** np.random.default_rng(3).uniform(-1, 4, 20)
    for kappa in KAPPAS[::5]:
        for one, slot in zip(g, slots_s(kappa, g), strict=True):
            low, high = (PAYLOAD_BIT / (BAND_HZ * np.log2(1 + power * one)) for power in (MOST_WATT, LEAST_WATT))
            cost = lambda t, one=one, kappa=kappa: energy_joule(t, one) + kappa * t  # noqa: E731
            best = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-12 * high})
            assert cost(slot) <= best.fun * (1 + 1e-9)


# ---------------------------------------------------------------- Chen et al. (TWC 2021): 9 users, 6 or 9 blocks

LISTED = {  # interference over each block; the first of nine stands as -1e-8 W in their list, and none can be negative
    6: np.array([0.05, 0.07, 0.09, 0.11, 0.13, 0.15]) - 0.04,
    9: np.maximum(np.array([0.03, 0.06, 0.07, 0.08, 0.1, 0.11, 0.12, 0.14, 0.15]) - 0.04, 0.0),
}
SAMPLES = np.array([100, 200, 300, 400, 500, 400, 300, 200, 100.0])
MEBI = 1024.0**2  # they count bits and hertz in these


def chen(tmp_path: Path, n_blocks: int, seed: int):
    distance = np.random.default_rng(seed).uniform(1, 500, 9)
    devices, blocks = tmp_path / f"devices{seed}.csv", tmp_path / f"blocks{n_blocks}.csv"
    devices.write_text("x_m,y_m\n" + "".join(f"{d!r},0\n" for d in distance.tolist()))
    over_noise = LISTED[n_blocks] * 1e-6 / 1e-14
    blocks.write_text("over_noise\n" + "".join(f"{one!r}\n" for one in over_noise.tolist()))
    settings = {
        "n_devices": 9,
        "device_table": str(devices),
        "radius_m": 500,
        "min_distance_m": 0.5,
        "access": "block",
        "n_blocks": n_blocks,
        "bandwidth_hz": MEBI,
        "noise_watt": 1e-14,
        "interference_over_noise": f"@{blocks}:over_noise",
        "outage_threshold_db": 10 * np.log10(1.08),
        "pathloss": "power_law",
        "reference_gain_db": 0,
        "exponent": 2,
        "power_dbm": 10,
        "cpu_hz": 1e9,
        "cycles_per_sample": 40 * 39760 * 16 / MEBI,
        "capacitance": 1e-27,
        "bits_per_parameter": 16,
        "downlink": "unicast",
        "downlink_bandwidth_hz": 20 * MEBI,
        "station_power_dbm": 30,
        "downlink_interference_watt": 0.06 * 3e-6,
    }
    return distance, *stage(settings, 9, n_params=39760)


@pytest.mark.parametrize("n_blocks", [6, 9])
@pytest.mark.parametrize("seed", range(6))
def test_chen_links_and_the_optimal_assignment(tmp_path: Path, n_blocks: int, seed: int) -> None:
    distance, world, observation, decision = chen(tmp_path, n_blocks, seed)
    interference = LISTED[n_blocks] * 1e-6
    lost = 1 - np.exp(-1.08 * (interference + 1e-14) / (0.01 * distance[:, None] ** -2.0))
    success = bands.success_probability(world, observation, decision.power_watt, decision.bandwidth_hz)
    assert success == pytest.approx(1 - lost, rel=1e-9)

    size = 39760 * 16 / MEBI
    up_s = size / np.log2(1 + 0.01 * distance[:, None] ** -2.0 / (interference + 1e-14))
    ours_s = decision.payload_bit[:, None] / bands.rate_bps(world, observation, decision.power_watt)
    assert ours_s == pytest.approx(up_s, rel=1e-9)
    down_s = size / (20 * np.log2(1 + distance**-2.0 / (0.06 * 3e-6 + 1e-14)))
    alone = [download(world, observation, decision._replace(selected=np.arange(9) == k)) for k in range(9)]
    assert [one.seconds[k] for k, one in enumerate(alone)] == pytest.approx(down_s, rel=1e-9)
    joule = compute_joule(observation, decision)[:, None] + 0.01 * ours_s
    assert joule == pytest.approx(1e-27 * 40e18 * size + 0.01 * up_s, rel=1e-9)

    feasible = (up_s + down_s[:, None] < 0.5) & (joule < 0.003)
    weight = np.where(feasible, SAMPLES[:, None] * success, 0.0)
    block = assign(weight)
    value = sum(weight[k, b] for k, b in enumerate(block) if b >= 0)
    rows, columns = linear_sum_assignment(weight, maximize=True)
    assert value == pytest.approx(weight[rows, columns].sum())
    rng = np.random.default_rng(seed)
    at_random = [weight[rng.permutation(9)[:n_blocks], np.arange(n_blocks)].sum() for _ in range(200)]
    assert value >= max(at_random)
