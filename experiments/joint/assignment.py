"""The optimal assignment of users and blocks in every draw of places, against SciPy's and random ones. Trains nothing.

Rates, losses, joules and powers are written here anew; the best assignment of these weights is SciPy's.
"""

from dataclasses import replace
from functools import partial

import joint_setting as setting
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq, linear_sum_assignment

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, missing, on_every_seed, values_of
from fedcell.experiment.plots import dress, panels
from fedcell.rng import SETUP, stream
from fedcell.scenarios import Config
from fedcell.types import Floats

SEEDS, DRAWS, NEAR = (1, 2, 3, 4, 5), 20, 1e-4  # of curves that are kept with five digits
SIZE = 39760 * 16 / setting.MEBI  # of a model, in their unit of bits
POWER_WATT, BUDGET_JOULE, DEADLINE_S = 0.01, 3e-3, 0.5

CLAIMS = (
    Claim("samples", "more samples are expected to arrive with the optimal assignment than with random ones", "drawn"),
    Claim(
        "optimum",
        f"in every draw fedcell's assignment is worth what SciPy's is on weights written anew, to {NEAR:g}",
        "not printed",
        "check",
    ),
)


def cases(quick: bool) -> list[Case]:
    seeds = SEEDS[:1] if quick else SEEDS
    return [
        Case(key(n), setting.base(1), "fedavg", seeds=seeds, measure=partial(drawn, n)) for n in setting.LISTED_WATT
    ]


def key(n_blocks: int) -> str:
    return f"{n_blocks} blocks"


def drawn(n_blocks: int, config: Config) -> dict[str, list[float]]:
    """Expected samples of several draws of places: fedcell's three orders, and the optimum written anew."""
    found: dict[str, list[float]] = {name: [] for name in (*setting.ORDERS, "anew")}
    for seed in stream(config.seed, SETUP, "experiment.draws").integers(10**6, size=DRAWS).tolist():
        with setting.listed(replace(config, seed=seed), n_blocks) as whole:
            problem, observation = setting.stage(whole)
            for order in setting.ORDERS:
                found[order].append(setting.decide(order, problem, None, observation).info["expected"])
        weight = weights(setting.distances_m(seed), n_blocks)
        found["anew"].append(float(weight[linear_sum_assignment(weight, maximize=True)].sum()))
    return found


def weights(away_m: Floats, n_blocks: int) -> Floats:
    """Samples that a user on a block is expected to bring, 0 out of time or energy, `[9, n_blocks]`."""
    disturbance, n = setting.LISTED_WATT[n_blocks] + setting.NOISE_WATT, len(away_m)
    found = np.zeros((n, n_blocks))
    for user, (away, samples) in enumerate(zip(away_m, setting.SAMPLES, strict=True)):
        down_s = n * SIZE / (20 * np.log2(1 + away**-2.0 / (0.06 * 3e-6 + n * setting.NOISE_WATT)))
        cycles = setting.STEPS * samples
        for block, noise in enumerate(disturbance):
            power = affordable_watt(away**-2.0 / noise, BUDGET_JOULE - setting.CAPACITANCE * cycles * 1e18)
            up_s = SIZE / np.log2(1 + power * away**-2.0 / noise) if power else np.inf
            if down_s + cycles / 1e9 + up_s <= DEADLINE_S:
                found[user, block] = samples * np.exp(-1.08 * noise / (power * away**-2.0))
    return found


def affordable_watt(snr_per_watt: float, budget_joule: float) -> float:
    """The highest power whose upload is within a budget; 0 if none is."""

    def over(power: float) -> float:
        return float(power * SIZE / np.log2(1 + power * snr_per_watt) - budget_joule)

    if over(POWER_WATT) <= 0:
        return POWER_WATT
    return float(brentq(over, 1e-9, POWER_WATT, xtol=1e-16)) if over(1e-9) < 0 else 0.0


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [key(n) for n in setting.LISTED_WATT]):
        return []
    samples, optimum, words = [], [], []
    for n in setting.LISTED_WATT:
        for order in ("blocks", "random"):
            lead = values_of(rows, key(n), lambda row, o=order: np.mean(row["optimal"]) - np.mean(row[o]))
            samples.append(inside(f"{n} blocks, over {setting.ORDERS[order]}", lead, low=0.0))
        gap = values_of(rows, key(n), lambda row: np.max(np.abs(np.array(row["optimal"]) / row["anew"] - 1)))
        optimum.append(on_every_seed(f"{n} blocks", gap, high=NEAR))
        means = (values_of(rows, key(n), lambda row, o=o: np.mean(row[o])).mean() for o in setting.ORDERS)
        words.append(f"{n} blocks: " + ", ".join(f"{one:.0f}" for one in means))
    told = f"samples a round, optimal, random blocks, all random: {'; '.join(words)}"
    return [
        finding("samples", samples, told, f"means of {DRAWS} draws of places"),
        finding("optimum", optimum, "", "largest relative difference of a draw"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(2)
    for ax, n in zip(axes, setting.LISTED_WATT, strict=True):
        own = [row for row in rows if row["case"] == key(n)]
        for place, (order, label) in enumerate(setting.ORDERS.items()):
            for row in own:
                ax.plot(
                    np.sort(row[order]),
                    np.arange(1, DRAWS + 1) / DRAWS,
                    color=f"C{place}",
                    alpha=0.5,
                    label=label if row is own[0] else None,
                )
        dress(ax, "samples expected in a round", "share of draws", key(n))
    return figure


EXPERIMENT = Experiment("Joint assignment: samples that arrive", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
