"""Memory of the channel: shadowing over distance and fading over time against their laws. Trains nothing.

Shadowing is correlated by `exp(-d / D)` (Gudmundson; TR 38.901, section 7.4.4), the power of Jakes fading by
`J0(2 pi f t)^2` less the share of its finite number of waves, that of AR(1) fading by `a^(2 n)` over `n` rounds.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.special import j0

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, missing, values_of
from fedcell.experiment.plots import dress, panels
from fedcell.rng import SETUP, stream
from fedcell.scenarios import Config
from fedcell.types import Floats
from fedcell.world.fields import PATHS, ar1, jakes, maps

SEEDS = (1, 2, 3, 4, 5)
CASE = "memory"
DISTANCE_M, MEMORY, DOPPLER_HZ = 50.0, 0.8, 2.0
N_MAPS, N_PLACES, N_DEVICES = 600, 40, 20_000
AT = {
    "shadowing": (0.1, 0.5, 1.0, 2.0, 4.0),  # distances over D
    "ar1": (1.0, 2.0, 4.0, 8.0),  # rounds
    "jakes": (0.02, 0.05, 0.1, 0.19, 0.3, 0.5),  # seconds
}
NEAR = 0.03  # of a correlation

CLAIMS = (
    Claim("shadowing", f"shadowing is correlated over distance by exp(-d / D), to {NEAR}", "Gudmundson, 1991"),
    Claim("ar1", f"AR(1) fading is correlated over n rounds by a^(2n), to {NEAR}", "the law of its recursion"),
    Claim("jakes", f"Jakes fading is correlated over time by J0(2 pi f t)^2, to {NEAR}", "Clarke, 1968"),
)


def law(kind: str, at: float) -> float:
    """What a correlation should be."""
    if kind == "shadowing":
        return float(np.exp(-at))
    if kind == "ar1":
        return float(MEMORY ** (2 * at))
    return float(j0(2 * np.pi * DOPPLER_HZ * at) ** 2 * (1 - 1 / PATHS))


def cases(quick: bool) -> list[Case]:
    return [Case(CASE, Config(), "fedavg", seeds=SEEDS[:1] if quick else SEEDS, measure=measured)]


def measured(config: Config) -> dict[str, list[float]]:
    """The correlations of one seed, kind by kind."""
    seed = config.seed
    draw = stream(seed, SETUP, "experiment.places")
    place_m, bearing = draw.uniform(-500, 500, (N_PLACES, 2)), draw.uniform(0, 2 * np.pi, N_PLACES)
    step = np.stack([np.cos(bearing), np.sin(bearing)], axis=1)
    here = maps(place_m, seed, "experiment", N_MAPS, DISTANCE_M)
    beside = [maps(place_m + at * DISTANCE_M * step, seed, "experiment", N_MAPS, DISTANCE_M) for at in AT["shadowing"]]
    first = ar1(N_DEVICES, MEMORY, seed, 5)
    later = [ar1(N_DEVICES, MEMORY, seed, 5 + int(at)) for at in AT["ar1"]]
    now = jakes(N_DEVICES, DOPPLER_HZ, seed, 100.0)
    then = [jakes(N_DEVICES, DOPPLER_HZ, seed, 100.0 + at) for at in AT["jakes"]]
    return {
        "shadowing": [float((here * one).mean()) for one in beside],
        "ar1": [float(((first - 1) * (one - 1)).mean()) for one in later],
        "jakes": [float(((now - 1) * (one - 1)).mean()) for one in then],
    }


def off(rows: list[Row], kind: str, place: int) -> Floats:
    return values_of(rows, CASE, lambda row: row[kind][place] - law(kind, AT[kind][place]))


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [CASE]):
        return []
    return [
        finding(
            kind,
            [inside(f"at {at:g}", off(rows, kind, place), -NEAR, NEAR) for place, at in enumerate(AT[kind])],
            "",
            f"measured less the law, within {NEAR}",
        )
        for kind in AT
    ]


def plot(rows: list[Row]) -> Figure:
    figure, axes = panels(3, columns=3)
    names = {"shadowing": "distance over D", "ar1": "rounds", "jakes": "seconds"}
    for ax, (kind, x) in zip(axes, names.items(), strict=True):
        fine = np.linspace(0.0, AT[kind][-1], 200)
        ax.plot(fine, [law(kind, one) for one in fine], label="law")
        for number, row in enumerate(rows):
            ax.plot(AT[kind], row[kind], "k.", label="measured" if not number else None)
        dress(ax, x, "correlation", kind)
    return figure


EXPERIMENT = Experiment("Memory of the channel", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
