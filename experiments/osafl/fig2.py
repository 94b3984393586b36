"""Figure 2: share of a user's two commonest and two rarest files in its store, round by round. No training."""

from functools import lru_cache

import numpy as np
import osafl_setting as setting
from matplotlib.figure import Figure

from fedcell.data.video import OSAFL
from fedcell.data.video.problem import video_problem_parts
from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import judged, spread
from fedcell.experiment.plots import dress, panels
from fedcell.labels import histogram
from fedcell.report.figure import COLOURS
from fedcell.types import Floats

SEEDS, ROUNDS = range(1, 6), 100
SWING, USERS = 0.2, 0.9  # of its mean; of the users
SHOWN = (0, 1)  # users of the first seed

CLAIMS = (
    Claim(
        "top", "the shares of a user's two commonest files wander although its profile is fixed", "curves; no numbers"
    ),
    Claim("least", "the shares of its two rarest files wander", "curves; no numbers"),
    Claim("users", "users differ: their commonest files are not the same", "curves; no numbers"),
)


def cases(quick: bool) -> list[Case]:
    return []


@lru_cache(maxsize=1)
def shares() -> Floats:
    """Share of every file in every store before each round, `[n_seeds, n_rounds, n_users, n_files]`, K = 1."""
    every = []
    for seed in SEEDS:
        parts = video_problem_parts(OSAFL, setting.N_DEVICES, ROUNDS, seed)
        store, memory = parts.stream.start(seed)
        rows = []
        for round in range(ROUNDS):
            store, memory = parts.stream.arrive(seed, round, store, memory)
            count = histogram(store, parts.train.labels, parts.n_classes)
            rows.append(count / count.sum(axis=1, keepdims=True))
        every.append(rows)
    return np.array(every, dtype=np.float64)


def picked(share: Floats) -> tuple[Floats, Floats]:
    """The two commonest and the two rarest files of a user over its run, by mean share; files never held do not count.

    Args:
        share: `[n_rounds, n_files]`.
    """
    mean = share.mean(axis=0)
    held = np.flatnonzero(mean)[np.argsort(-mean[mean > 0], kind="stable")]
    return held[:2], held[-2:]


def swings(which: int) -> Floats:
    """(highest - lowest) / mean of the share over the rounds, of the files picked, `[n_seeds, n_users]`."""
    out = []
    for of_seed in shares():
        of_users = of_seed.transpose(1, 0, 2)
        out.append([np.mean([_swing(user[:, file]) for file in picked(user)[which]]) for user in of_users])
    return np.array(out)


def _swing(values: Floats) -> float:
    return float((values.max() - values.min()) / values.mean())


def check(rows: list[Row]) -> list[Finding]:
    found = []
    rule = f"range over {ROUNDS} rounds at least {SWING} of the mean for {USERS:.0%} of the users, on every seed"
    for which, claim in enumerate(("top", "least")):
        swing = swings(which)
        wander = (swing >= SWING).mean(axis=1)
        held = {f"seed {seed}": bool(part >= USERS) for seed, part in zip(SEEDS, wander, strict=True)}
        ours = f"range over mean: median {spread(np.median(swing, axis=1), 2)}, users: {wander.min():.0%} and more"
        found.append(judged(claim, ours, held, rule))
    commonest = [[int(picked(user)[0][0]) for user in one.transpose(1, 0, 2)] for one in shares()]
    distinct = np.array([len(set(files)) for files in commonest], dtype=float)
    held = {f"seed {seed}": bool(count > 1) for seed, count in zip(SEEDS, distinct, strict=True)}
    ours = f"{spread(distinct, 1)} different files are the commonest of some user, of {setting.N_DEVICES} users"
    return [*found, judged("users", ours, held, "more than one")]


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(2 * len(SHOWN))
    for line, user in enumerate(SHOWN):
        share = shares()[0][:, user]
        for column, (files, title) in enumerate(zip(picked(share), ("two commonest", "two rarest"), strict=True)):
            axes = places[2 * line + column]
            for index, file in enumerate(files):
                axes.plot(np.arange(1, ROUNDS + 1), share[:, file], color=COLOURS[index], label=f"file {file}")
            dress(axes, "round", "share of the store", f"user {user}, {title} files")
    return figure


EXPERIMENT = Experiment(
    title="OSAFL Figure 2: label shares of a user over time", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
