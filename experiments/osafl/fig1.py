"""Figure 1: central training on CIFAR-10, once on all of it and once on stores of 50 users that change over time.

Static: all 50 000 images, batches of 512, rate 0.1, cut by 30 % after episodes 10, 20, 40, 60, 80 and 90. Time-varying:
a Dirichlet(0.9) split, stores of 160 to 260 samples, first in first out, up to 5 new samples an episode, each with a
probability of 0.3 to 0.8; batches of 256, cuts after 10, 25, 50 and 75. An episode is one pass over what is held.

Deviation: the "simple CNN" is not described; here it is two convolutions (6 and 16 channels of 5 x 5) and dense layers
of 120 and 84. `E_u` is 5 for all, its usual value, and a user through with its samples begins again.
Needs the data once: fedcell data get cifar10
"""

import numpy as np
import osafl_setting as setting
from matplotlib.figure import Figure

from fedcell.data.settings import DataConfig
from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Measure, ahead, below, more, of_accuracy, told_all
from fedcell.experiment.plots import dress, panels
from fedcell.learn.settings import ModelConfig, TrainConfig
from fedcell.options import Law
from fedcell.report.figure import COLOURS
from fedcell.scenarios import Config
from fedcell.world.settings import StreamConfig, WorldConfig

EPISODES, N_USERS, TRAIN, MEAN_STORE = 100, 50, 50_000, 210
LAST = 20  # episodes
STATIC, VARYING = "static", "time-varying"
CUTS = {STATIC: (10, 20, 40, 60, 80, 90), VARYING: (10, 25, 50, 75)}
BATCH = {STATIC: 512, VARYING: 256}
STREAM = StreamConfig(
    kind="binomial",
    cache="fifo",
    capacity=Law((160.0, 260.0), "uniform"),
    batch=Law((5.0,)),
    activity=Law((0.3, 0.8), "uniform"),
)

CLAIMS = (
    Claim("lower", "the accuracy on time-varying stores is lower", "curves; no numbers"),
    Claim("loss", "the loss on time-varying stores is higher", "curves; no numbers"),
    Claim("shakier", "the curves of time-varying stores are shakier", "curves; no numbers"),
)


def cases(quick: bool) -> list[Case]:
    out = []
    for name, samples in ((STATIC, TRAIN), (VARYING, N_USERS * MEAN_STORE)):
        steps = int(np.ceil(samples / BATCH[name]))
        config = Config(
            scenario="cell",
            rounds=4 if quick else EPISODES,
            world=WorldConfig(n_devices=N_USERS),
            data=DataConfig(name="cifar10", partition="dirichlet", alpha=0.9),
            stream=STREAM if name == VARYING else StreamConfig(),
            model=ModelConfig(name="cnn", hidden=(120, 84)),
            train=TrainConfig(lr=0.1),
        )
        settings = {"steps": min(steps, 20) if quick else steps, "batch_size": BATCH[name], "lr_cuts": CUTS[name]}
        out.append(Case(name, config, "central", {**settings, "lr_cut": 0.3}, seeds=setting.FRESH[:3]))
    return out


def tail(what: str) -> Measure:
    """Mean over the last episodes."""

    def measure(row: Row) -> float:
        return float(np.array(row[what], dtype=float)[np.array(row["rounds"]) > row["rounds"][-1] - LAST].mean())

    return of_accuracy(measure) if what == "accuracy" else measure


def shake(what: str) -> Measure:
    """Standard deviation of the change from one episode to the next in the last half."""
    return lambda row: float(
        np.diff(np.array(row[what], dtype=float)[np.array(row["rounds"]) > row["rounds"][-1] / 2]).std()
    )


def check(rows: list[Row]) -> list[Finding]:
    lower = ahead(rows, STATIC, VARYING, tail("accuracy"))
    loss = below(rows, STATIC, VARYING, tail("loss"))
    shakier = [more(rows, VARYING, STATIC, shake(what), what) for what in ("accuracy", "loss")]
    both = {STATIC: STATIC, VARYING: VARYING}
    return [
        finding("lower", lower, told_all(rows, both, tail("accuracy"), 4), f"mean of the last {LAST} episodes"),
        finding("loss", loss, told_all(rows, both, tail("loss"), 4), f"mean of the last {LAST} episodes"),
        finding("shakier", shakier, "", "standard deviation of the change between episodes in the last half"),
    ]


def plot(rows: list[Row]) -> Figure:
    figure, places = panels(2)
    for axes, what in zip(places, ("accuracy", "loss"), strict=True):
        for index, name in enumerate((STATIC, VARYING)):
            if setting.of_case(rows, name):
                at, every = setting.curve(rows, name, what)
                axes.plot(at, every.mean(axis=0), color=COLOURS[index], label=name)
                low, high = every.mean(axis=0) - every.std(axis=0), every.mean(axis=0) + every.std(axis=0)
                axes.fill_between(at, low, high, color=COLOURS[index], alpha=0.15, linewidth=0)
        dress(axes, "episode", f"test {what}", "CIFAR-10")
    return figure


EXPERIMENT = Experiment(
    title="OSAFL Figure 1: static against time-varying data", claims=CLAIMS, cases=cases, plot=plot, check=check
)

if __name__ == "__main__":
    main(EXPERIMENT)
