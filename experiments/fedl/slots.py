"""Slots of devices that send in turn: the closed form, what it trades, and rounds played with it. Trains nothing.

    minimise  sum_k e_k(tau_k) + kappa sum_k tau_k,   e(tau) = tau (2^(S / (B tau)) - 1) / g

with `g` the SNR of a watt. Each slot is stationary at `tau = S ln 2 / (B (1 + W((kappa g - 1) / e)))`, clipped to what
the lowest and the highest power need.
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.special import lambertw

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, missing, on_every_seed, values_of
from fedcell.experiment.plots import dress, panels
from fedcell.methods.parts.resources import plan
from fedcell.options import override
from fedcell.radio import transmit
from fedcell.rng import SETUP, stream
from fedcell.scenarios import Config
from fedcell.types import Decision, Floats, Observation, Problem, Store, World
from fedcell.world import build_world, observe, start, static_stream

SEEDS = (1, 2, 3, 4, 5)
KAPPAS = (1e-4, 5e-4, 1e-3, 3e-3, 5e-3, 7e-3, 1e-2, 3e-2, 5e-2, 7e-2, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
KAPPAS += (20, 30, 50, 70, 1e2, 3e2, 5e2, 7e2, 1e3, 3e3, 5e3, 7e3, 1e4)
N, NEAREST_M, FARTHEST_M = 50, 2.0, 50.0
NOISE_WATT, BAND_HZ, LEAST_WATT, MOST_WATT = 1e-10, 20e6, 0.2, 1.0
PAYLOAD_BIT, DATA_BIT, CYCLES_PER_BIT, CAPACITANCE = 8 * 1.6e6, 8 * 7.5e6, 20.0, 1e-28
CASE, TRIED, NEAR = "50 devices", 4001, 1e-9
SETTINGS = {
    "world.n_devices": N,
    "world.access": "tdma",
    "world.bandwidth_hz": BAND_HZ,
    "world.noise_watt": NOISE_WATT,
    "world.pathloss": "power_law",
    "world.reference_gain_db": -40,
    "world.exponent": 4,
    "world.min_distance_m": 1,
    "world.power_dbm": 30,
    "world.cpu_hz": 2e9,
    "world.cycles_per_sample": DATA_BIT * CYCLES_PER_BIT,
    "world.capacitance": CAPACITANCE,
    "world.bits_per_parameter": 8,
}

CLAIMS = (
    Claim("optimal", "the slots of the closed form cost least, whatever a second is worth", "Lemma; proven"),
    Claim("trade", "the more a second is worth, the shorter sending and the more energy it takes", "drawn, no numbers"),
    Claim("played", f"rounds with turns cost what the closed form says, to {NEAR:g}", "not printed", "check"),
)


class Stage(NamedTuple):
    """A world with everyone at full speed in its first round."""

    world: World
    observation: Observation
    decision: Decision


def stage(config: Config) -> Stage:
    """The world of a seed, with its distances."""
    away_m = stream(config.seed, SETUP, "experiment.places").uniform(NEAREST_M, FARTHEST_M, N)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "devices.csv")
        table.write_text("x_m,y_m\n" + "".join(f"{one!r},0\n" for one in away_m.tolist()))
        settings = override(config, SETTINGS | {"world.device_table": str(table)}).world
        store = Store(np.zeros((N, 1), dtype=np.int64), np.ones(N, dtype=np.int64))
        world = build_world(settings, static_stream(store), int(PAYLOAD_BIT / 8), 1.0, config.seed)
        observation, _ = observe(world, start(world, config.seed), config.seed, 0)
    problem = Problem(world, None, None, config.seed, 1)  # type: ignore[arg-type]
    return Stage(world, observation, plan(problem, observation, np.ones(N, dtype=np.bool_), 1, 1.0))


def limits_s(snr: Floats) -> tuple[Floats, Floats]:
    """The shortest and the longest slot of every device."""
    fast, slow = (PAYLOAD_BIT / (BAND_HZ * np.log2(1 + power * snr)) for power in (MOST_WATT, LEAST_WATT))
    return fast, slow


def slots_s(kappa: float, snr: Floats) -> Floats:
    """The best slots, `[n]`."""
    free = PAYLOAD_BIT * np.log(2) / BAND_HZ / (1 + lambertw((kappa * snr - 1) / np.e).real)
    return np.clip(free, *limits_s(snr))


def energy_joule(slot_s: Floats, snr: Floats) -> Floats:
    return np.asarray((2 ** (PAYLOAD_BIT / (BAND_HZ * slot_s)) - 1) / snr * slot_s)


def measured(config: Config) -> dict[str, list[float]]:
    """By kappa: seconds and joules of sending, what a search saves, and how far a played round is off."""
    world, observation, decision = stage(config)
    snr = observation.gain / NOISE_WATT
    tried = np.geomspace(*limits_s(snr), TRIED)
    found: dict[str, list[float]] = {"seconds": [], "joule": [], "saved": [], "off": []}
    for kappa in KAPPAS:
        tau = slots_s(kappa, snr)
        cost, best = (energy_joule(one, snr) + kappa * one for one in (tau, tried))
        uplink = transmit(world, observation, decision._replace(power_watt=energy_joule(tau, snr) / tau), config.seed)
        expected_s = DATA_BIT * CYCLES_PER_BIT / 2e9 + tau.sum()
        gaps = (uplink.upload_s / tau - 1, uplink.radio_joule / energy_joule(tau, snr) - 1)
        found["seconds"].append(float(tau.sum()))
        found["joule"].append(float(energy_joule(tau, snr).sum()))
        found["saved"].append(float((cost / best.min(axis=0) - 1).max()))
        found["off"].append(float(max(*(np.abs(gap).max() for gap in gaps), abs(uplink.round_s / expected_s - 1))))
    return found


def cases(quick: bool) -> list[Case]:
    return [Case(CASE, Config(), "fedavg", seeds=SEEDS[:1] if quick else SEEDS, measure=measured)]


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [CASE]):
        return []
    saved, off = (values_of(rows, CASE, lambda row, name=name: max(row[name])) for name in ("saved", "off"))
    ends, back = {}, {}
    for name, sign in (("seconds", -1), ("joule", 1)):
        ends[name] = values_of(rows, CASE, lambda row, name=name: row[name][-1] / row[name][0])
        back[name] = values_of(rows, CASE, lambda row, name=name, sign=sign: min(sign * np.diff(row[name])))
    trade = [
        inside("seconds, last over first kappa", ends["seconds"], high=1.0),
        inside("joules, last over first kappa", ends["joule"], low=1.0),
        *(on_every_seed(f"{name}: no step the other way", part, low=-1e-4) for name, part in back.items()),
    ]
    told = f"seconds times {ends['seconds'].mean():.2f}, joules times {ends['joule'].mean():.2f} from 1e-4 to 1e4"
    return [
        finding(
            "optimal", on_every_seed("the best of 4,001 slots saves", saved, high=NEAR), f"at most {saved.max():.1e}"
        ),
        finding("trade", trade, told, "34 steps of kappa, and its ends"),
        finding("played", on_every_seed("relative", off, high=NEAR), f"at most {off.max():.1e}"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (over, against) = panels(2)
    for name, label in (("seconds", "seconds of sending"), ("joule", "joules of sending")):
        if rows:
            over.plot(KAPPAS, np.mean([row[name] for row in rows], axis=0), label=label)
    for number, row in enumerate(rows):
        against.plot(row["seconds"], row["joule"], color="#4477aa", label=None if number else "a draw of places")
    over.set(xscale="log", yscale="log")
    dress(over, "kappa (joules a second)", "of 50 devices", "means over draws")
    dress(against, "seconds of sending", "joules of sending", "35 values of kappa")
    return figure


EXPERIMENT = Experiment("FEDL: slots in closed form", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
