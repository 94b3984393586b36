"""Urban macro path loss and line of sight against Sionna's, over carriers, heights and distances. Trains nothing."""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import exact, missing
from fedcell.experiment.plots import dress, panels
from fedcell.scenarios import Config
from fedcell.world.pathloss import uma_los_db, uma_los_probability, uma_nlos_db

ANSWERS = Path(__file__).parent / "answers.json"  # by benchmarks/sionna_pathloss.py
CASE = "urban macro"
NEAR_DB, NEAR = 1e-9, 1e-12
DRAWN = (2.4e9, 1.5)  # carrier and height of the figure

CLAIMS = (
    Claim("sight", f"path losses with line of sight are Sionna's to {NEAR_DB:g} dB", "Sionna 2.2"),
    Claim("none", f"path losses without line of sight are Sionna's to {NEAR_DB:g} dB", "Sionna 2.2"),
    Claim("chance", f"the chance of a line of sight is Sionna's to {NEAR:g}", "Sionna 2.2"),
)


def cases(quick: bool) -> list[Case]:
    return [Case(CASE, Config(), "fedavg", seeds=(1,), measure=compared)]


def compared(config: Config) -> dict[str, object]:
    """The largest differences, and the losses of the figure."""
    known = json.loads(ANSWERS.read_text())
    away, station = np.array(known["distance_m"]), known["station_m"]
    worst, drawn = np.zeros(3), {}
    for carrier_hz, height_m, sight, none, chance in known["uma"]:
        radio = (carrier_hz, station, height_m)
        ours = uma_los_db(away, *radio), uma_nlos_db(away, *radio), uma_los_probability(away)
        gaps = [np.abs(mine - theirs).max() for mine, theirs in zip(ours, (sight, none, chance), strict=True)]
        worst = np.maximum(worst, gaps)
        if (carrier_hz, height_m) == DRAWN:
            drawn = {"ours sight": ours[0], "ours none": ours[1], "sight": np.array(sight), "none": np.array(none)}
    points = len(away) * len(known["uma"])
    named = dict(zip(("worst sight", "worst none", "worst chance"), worst.tolist(), strict=True))
    return {"points": points, **named, "away": away.tolist(), **{name: part.tolist() for name, part in drawn.items()}}


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, [CASE]):
        return []
    row, limits = rows[0], {"sight": NEAR_DB, "none": NEAR_DB, "chance": NEAR}
    return [
        finding(key, exact(f"at most {limit:g}", row[f"worst {key}"] <= limit), told(row, key))
        for key, limit in limits.items()
    ]


def told(row: Row, key: str) -> str:
    return f"at most {row[f'worst {key}']:.1e} over {row['points']} points"


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels(1)
    for row in rows:
        for kind, label in (("sight", "line of sight"), ("none", "none")):
            (line,) = ax.plot(row["away"], row[f"ours {kind}"], label=f"fedcell, {label}")
            ax.plot(row["away"][::4], row[kind][::4], "o", color=line.get_color(), mfc="none", label=f"Sionna, {label}")
    ax.set_xscale("log")
    dress(ax, "distance (m)", "path loss (dB)", "2.4 GHz, device at 1.5 m")
    return figure


EXPERIMENT = Experiment("Path loss against Sionna", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
