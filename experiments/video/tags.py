"""How fast must tags rotate? What counting tags tells of the requests within one period. Needs no training.

Tags without sealed requests around them: whoever sees them and knows how popular files are gives the commonest tag to
the most popular file. To name the most popular file every time is right as often as that is asked for: chance.
"""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from fedcell.data.video import OSAFL, RAWHFL, build_catalogue, draw_profiles, draw_requests, stationary_law
from fedcell.data.video.request_path.attacks import frequency_attack
from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, missing, values_of
from fedcell.experiment.plots import dress, panels
from fedcell.scenarios import Config, get
from fedcell.types import Floats

SEEDS = (1, 2, 3, 4, 5)
WORLDS = {"rawhfl": (RAWHFL, 48), "osafl": (OSAFL, 100)}
PERIODS = (3, 10, 30, 100, 300, 1000, 3000, 10_000)
N_REQUESTS = 60_000
WARM_UP = 100  # requests of every user that are not looked at
MORE = 0.02  # above chance, to be called no more than chance
SHORT, LONG = 30, 1000

CLAIMS = (
    Claim("short", f"tags that last for {SHORT} requests tell no more than the most popular file does", "not printed"),
    Claim("long", f"tags that last for {LONG} requests tell twice as much as that", "not printed"),
    Claim("grows", "the longer tags last, the more they tell", "not printed"),
)


def cases(quick: bool) -> list[Case]:
    seeds = SEEDS[:1] if quick else SEEDS
    return [Case(name, get(name).config, "fedavg", seeds=seeds, measure=partial(attacked, name)) for name in WORLDS]


def attacked(name: str, config: Config) -> dict[str, float]:
    """The share of requests that tags give away, by the length of a period, and by chance."""
    settings, n_users = WORLDS[name]
    catalogue, users = build_catalogue(settings, config.seed), draw_profiles(settings, n_users, config.seed)
    each = WARM_UP + -(-N_REQUESTS // n_users)
    log = draw_requests(catalogue, users, each, config.seed, "tags")[:, WARM_UP:]
    files = log.T.ravel().astype(np.int64)
    popularity = stationary_law(catalogue, users).mean(axis=0)
    told = {str(period): frequency_attack(files, popularity, period, config.seed) for period in PERIODS}
    return {"chance": float(popularity.max()), **told}


def over_chance(rows: list[Row], world: str, period: int) -> Floats:
    return values_of(rows, world, lambda row: row[str(period)] - row["chance"])


def check(rows: list[Row]) -> list[Finding]:
    if missing(rows, list(WORLDS)):
        return []
    ours = "; ".join(
        f"{world}: chance {values_of(rows, world, lambda row: row['chance']).mean():.3f}, "
        + ", ".join(f"{p} {values_of(rows, world, lambda row, p=p: row[str(p)]).mean():.3f}" for p in PERIODS)
        for world in WORLDS
    )
    short = [inside(world, over_chance(rows, world, SHORT), high=MORE) for world in WORLDS]
    long = [
        inside(world, values_of(rows, world, lambda row: row[str(LONG)] / row["chance"]), low=2.0) for world in WORLDS
    ]
    grows = [
        inside(
            f"{world}: {late} > {early}",
            values_of(rows, world, lambda row, a=early, b=late: row[str(b)] - row[str(a)]),
            low=0.0,
        )
        for world in WORLDS
        for early, late in ((30, 300), (300, 3000), (1000, 10_000))
    ]
    return [
        finding("short", short, ours, f"share of the requests, at most {MORE} above chance"),
        finding("long", long, ours, "times chance"),
        finding("grows", grows, "", "share of the requests that tags give away"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, (ax,) = panels(1)
    for world in WORLDS:
        if any(row["case"] == world for row in rows):
            means = [values_of(rows, world, lambda row, p=p: row[str(p)]).mean() for p in PERIODS]
            (line,) = ax.plot(PERIODS, means, marker="o", label=world)
            chance = values_of(rows, world, lambda row: row["chance"]).mean()
            ax.axhline(chance, color=line.get_color(), linestyle=":", label=f"chance, {world}")
    ax.set_xscale("log")
    dress(ax, "requests until tags change", "share of requests that tags give away")
    return figure


EXPERIMENT = Experiment("How fast must tags rotate?", CLAIMS, cases, plot, check)

if __name__ == "__main__":
    main(EXPERIMENT)
