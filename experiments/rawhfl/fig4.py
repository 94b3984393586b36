"""Figure 4: where base stations and clients stand. No training."""

from functools import cache

import numpy as np
import rawhfl_ledger as ledger
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import exact, within
from fedcell.experiment.plots import dress, panels
from fedcell.report.figure import COLOURS, MARKERS
from fedcell.types import Floats

RADIUS_M, IN_CELL = 400.0, 12
ERRORS = 3  # standard errors

CLAIMS = (
    Claim("cells", "4 base stations serve 12 clients each, none farther than 400 m", "a map of one drop", "check"),
    Claim(
        "disc",
        "clients are spread evenly over the disc of their cell; the paper says only that they are dropped at random",
        "no numbers",
        "check",
    ),
)


def cases(quick: bool) -> list[Case]:
    return []


@cache
def distances_m() -> Floats:
    """`[n_seeds, n_devices]`."""
    return np.array([ledger.places(seed).world.topology.distance_m for seed in ledger.SEEDS])


def check(rows: list[Row]) -> list[Finding]:
    held = []
    for seed in ledger.SEEDS:
        drop = ledger.places(seed).world
        of_cells = np.bincount(drop.topology.cell, minlength=ledger.N_CELLS)
        fits = of_cells.tolist() == [IN_CELL] * 4 and drop.topology.distance_m.max() <= RADIUS_M
        held.append(exact(f"drop {seed}", bool(fits)))
    far = distances_m()
    area = (far / RADIUS_M) ** 2  # uniform in [0, 1] on a disc
    error = np.sqrt(1 / 12 / area.size)
    even = within("mean share of the area", area.mean(axis=1), 0.5, ERRORS * error)
    return [
        finding(
            "cells",
            held,
            f"{ledger.N_CELLS} cells of {IN_CELL}, distances {far.min():.0f} to {far.max():.0f} m",
            f"every one of {len(ledger.SEEDS)} drops",
        ),
        finding(
            "disc",
            even,
            f"(distance / 400 m)^2 is {area.mean():.3f} on average, distance {far.mean():.0f} m",
            f"mean over drops within {ERRORS} standard errors ({error:.3f}) of the 0.5 of an even spread",
        ),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (axes,) = panels(1, height=5.0)
    topology = ledger.places(ledger.SEEDS[0]).world.topology
    for cell, station in enumerate(topology.station_m):
        here = topology.position_m[topology.cell == cell]
        axes.plot(
            *here.T, MARKERS[cell], color=COLOURS[cell], markersize=4, label=f"clients of base station {cell + 1}"
        )
        axes.plot(*station, "*", color=COLOURS[cell], markersize=12)
        angle = np.linspace(0, 2 * np.pi, 200)
        circle = station[:, None] + RADIUS_M * np.stack([np.cos(angle), np.sin(angle)])
        axes.plot(*circle, color="#bbbbbb", linewidth=0.8)
    axes.set_aspect("equal")
    dress(axes, "x (m)", "y (m)", f"drop {ledger.SEEDS[0]}")
    return figure


EXPERIMENT = Experiment(title="RawHFL Figure 4: node map", claims=CLAIMS, cases=cases, plot=plot, check=check)

if __name__ == "__main__":
    main(EXPERIMENT)
