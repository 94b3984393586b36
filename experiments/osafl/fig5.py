"""Figure 5: test loss against the round, Dataset-1, three models, K = 1 and 2."""

import numpy as np
import osafl_curves as curves
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import grid
from osafl_tables import IMAGES

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, finding, main
from fedcell.experiment.judging import Measure, above, near

ROUNDS = 100
PLATEAU, MARGIN = {1: 70, 2: 80}, 15  # rounds
AFA_NEAR = 0.05
FLOOR_SLACK = 0.05  # nats that the test set may be luckier than the law

CLAIMS = (
    Claim("early", "OSAFL has the lowest loss of the federated methods in the early rounds", "curves"),
    Claim("plateau", "round at which the loss of OSAFL with the FCN plateaus", "70 (K = 1), 80 (K = 2)"),
    Claim("afa", "the loss of M-AFA-CD with the FCN stays where it knows nothing", "4.5856 (K = 1), 4.5930 (K = 2)"),
    Claim(
        "floor", "no loss is below the conditional entropy of the requests", "genie 1.95 (K = 1), 2.42 (K = 2)", "check"
    ),
)


def cases(quick: bool) -> list[Case]:
    return setting.table_cases(IMAGES, [1, 2], quick)


def check(rows: list[Row]) -> list[Finding]:
    return [curves.early_lead(rows, IMAGES, "early", "loss"), _plateau(rows), _afa(rows), _floor(rows)]


def _plateau(rows: list[Row]) -> Finding:
    parts = [
        curves.when(rows, setting.key("fcn", k, "osafl"), number, MARGIN, curves.settled, f"K={k}", ROUNDS)
        for k, number in PLATEAU.items()
    ]
    return finding("plateau", parts, "", f"round within 2 % of its least loss, within {MARGIN} of the printed one")


def _afa(rows: list[Row]) -> Finding:
    parts = [
        near(rows, setting.key("fcn", k, "m_afa_cd"), np.log(setting.N_FILES), AFA_NEAR, last_loss, f"K={k}")
        for k in (1, 2)
    ]
    return finding("afa", parts, "", f"last round: within {AFA_NEAR} of ln 100 = 4.605")


def last_loss(row: Row) -> float:
    """The loss after the last round."""
    return float(row["loss"][-1])


def _floor(rows: list[Row]) -> Finding:
    def over(k: int) -> Measure:
        return lambda row: float(np.nanmin(row["loss"])) - setting.ceiling(k, row["seed"]).loss

    parts = [
        above(rows, setting.key(model, k, "central"), -FLOOR_SLACK, over(k), f"{setting.MODELS[model].title} K={k}")
        for model in IMAGES
        for k in (1, 2)
    ]
    rule = f"least loss of the genie minus the floor of the draw, not more than {FLOOR_SLACK} below it"
    return finding("floor", parts, "", rule)


def plot(rows: list[Row]) -> Figure:
    return grid(rows, IMAGES, "loss")


EXPERIMENT = Experiment(
    title="OSAFL Figure 5: loss on Dataset-1",
    claims=CLAIMS,
    cases=cases,
    plot=plot,
    check=check,
    store=setting.STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
