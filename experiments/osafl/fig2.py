"""Figure 2: share of a user's two commonest and two rarest files in its store, round by round. No training."""

from typing import Any

import numpy as np
import osafl_setting as setting
from matplotlib.figure import Figure

from fedcell.data.video.problem import video_problem_parts
from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import inside, spread
from fedcell.experiment.plots import dress, panels
from fedcell.labels import histogram
from fedcell.options import override
from fedcell.report.figure import COLOURS
from fedcell.scenarios import Config, get
from fedcell.types import Floats

SEEDS, ROUNDS = (1, 2, 3, 4, 5), 100
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
    config = override(get("osafl").config, {"rounds": ROUNDS})
    return [Case("stores", config, "osafl", seeds=SEEDS, measure=stores)]


def stores(config: Config) -> dict[str, Any]:
    """How far the shares of a user's commonest and rarest files wander, which file is its commonest, and two users."""
    parts = video_problem_parts(config.video, setting.N_DEVICES, config.rounds, config.seed)
    store, memory = parts.stream.start(config.seed)
    rounds = []
    for round in range(config.rounds):
        store, memory = parts.stream.arrive(config.seed, round, store, memory)
        count = histogram(store, parts.train.labels, parts.n_classes)
        rounds.append(count / count.sum(axis=1, keepdims=True))
    share = np.array(rounds, dtype=np.float64).transpose(1, 0, 2)  # [n_users, n_rounds, n_files]
    files = [picked(user) for user in share]
    swing = [
        [float(np.mean([_swing(user[:, file]) for file in own[which]])) for user, own in zip(share, files, strict=True)]
        for which in range(2)
    ]
    shown = [
        [{"file": int(file), "share": share[user][:, file].tolist()} for file in files[user][which]]
        for user in SHOWN
        for which in range(2)
    ]
    return {"top": swing[0], "least": swing[1], "commonest": [int(own[0][0]) for own in files], "shown": shown}


def picked(share: Floats) -> tuple[Floats, Floats]:
    """The two commonest and the two rarest files of a user over its run, by mean share; files never held do not count.

    Args:
        share: `[n_rounds, n_files]`.
    """
    mean = share.mean(axis=0)
    held = np.flatnonzero(mean)[np.argsort(-mean[mean > 0], kind="stable")]
    return held[:2], held[-2:]


def _swing(values: Floats) -> float:
    """(highest - lowest) / mean of the share over the rounds."""
    return float((values.max() - values.min()) / values.mean())


def check(rows: list[Row]) -> list[Finding]:
    found = []
    rule = f"share of the users whose range over {ROUNDS} rounds is at least {SWING} of the mean: above {USERS}"
    for claim in ("top", "least"):
        users = [np.array(row[claim]) for row in rows]
        wander = np.array([float((swing >= SWING).mean()) for swing in users])
        ours = f"range over mean: median {spread(np.array([np.median(swing) for swing in users]), 2)}" if users else ""
        found.append(finding(claim, inside("users", wander, low=USERS), ours, rule))
    distinct = np.array([float(len(set(row["commonest"]))) for row in rows])
    ours = f"{spread(distinct, 1)} different files are the commonest of some user, of {setting.N_DEVICES} users"
    return [*found, finding("users", inside("different files", distinct, low=1.0), ours, "more than one")]


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(2 * len(SHOWN))
    titles = [f"user {user}, {what} files" for user in SHOWN for what in ("two commonest", "two rarest")]
    for axes, title, place in zip(places, titles, range(len(titles)), strict=True):
        for index, one in enumerate(rows[0]["shown"][place] if rows else ()):
            axes.plot(
                np.arange(1, len(one["share"]) + 1), one["share"], color=COLOURS[index], label=f"file {one['file']}"
            )
        dress(axes, "round", "share of the store", title)
    return figure


EXPERIMENT = Experiment(
    title="OSAFL Figure 2: label shares of a user over time", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
