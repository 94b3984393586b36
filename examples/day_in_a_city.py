"""A day in a city: who can train at which hour, what it costs, and what is learned.

    python examples/day_in_a_city.py [ROUNDS]

Devices of the `city` scenario walk through three cells from midnight to midnight, a round every ten minutes. Every
second one is a phone that is plugged in from 22 to 6 o'clock and switched off from 1 to 5; the others live on the sun.
Writes `states.csv` and `city.png`.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import fedcell
from fedcell.record import Record

HOUR_S = 3600.0
STATES = ((0, 1, 1), (1, 0, 1), (5, 1, 1), (6, 1, 0), (22, 1, 1))  # of a phone: hour, on, plugged


def write_states(path: Path, n_devices: int) -> None:
    """The traces of all devices: phones have a night, the others are always on and never plugged in."""
    lines = ["device,clock_s,on,plugged"]
    for device in range(n_devices):
        states = STATES if device % 2 == 0 else ((0, 1, 0),)
        lines += [f"{device},{hour * HOUR_S:g},{on},{plugged}" for hour, on, plugged in states]
    path.write_text("\n".join(lines) + "\n")


def draw(records: list[Record]) -> Figure:
    """Accuracy, available devices, charge and energy over the hours of the day."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for one in records:
        hour, columns = one.columns["clock_s"] / HOUR_S, one.columns
        judged = np.isfinite(columns["accuracy"])
        axes[0, 0].plot(hour[judged], 100 * columns["accuracy"][judged], label=one.label)
        axes[0, 1].plot(hour, columns["n_available"])
        axes[1, 0].plot(hour, 100 * columns["charge"])
        work = columns["compute_joule"] + columns["radio_joule"] + columns["receive_joule"]
        axes[1, 1].plot(hour, np.cumsum(work))
    titles = ("test accuracy (%)", "devices available", "mean charge (%)", "energy of the work (J)")
    for axis, title in zip(axes.flat, titles, strict=True):
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("hour of the day")
    axes[0, 0].legend(fontsize=8)
    return figure


def main(rounds: int) -> None:
    write_states(Path("states.csv"), 60)
    settings = {"rounds": rounds, "world.traces": "states.csv", "world.charge_watt": 0.05}
    records = fedcell.run((), "city", settings)
    print(fedcell.report.text(records))
    for one in records:
        idle, work = one.columns["idle_joule"].sum(), one.columns["compute_joule"].sum()
        print(f"{one.label}: standing by cost {idle:.0f} J, computing {work:.0f} J")
    draw(records).savefig("city.png", dpi=110)
    print("figure: city.png")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 144)
