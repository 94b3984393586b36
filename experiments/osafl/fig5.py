"""Figure 5: test loss against the round, Dataset-1, three models, K = 1 and 2."""

import numpy as np
import osafl_curves as curves
import osafl_setting as setting
from matplotlib.figure import Figure
from osafl_plots import grid
from osafl_tables import IMAGES

from fedcell.experiment import Case, Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import judged, spread

ROUNDS = 100
PLATEAU, MARGIN = {"K=1": 70, "K=2": 80}, 15  # rounds
AFA_NEAR = 0.05
FLOOR_SLACK = 0.05  # nats that the test set may be luckier than the law

CLAIMS = (
    Claim("early", "OSAFL has the lowest loss of the federated methods in the early rounds", "curves"),
    Claim("plateau", "round at which the loss of OSAFL with the FCN plateaus", "70 (K = 1), 80 (K = 2)"),
    Claim("afa", "the loss of M-AFA-CD with the FCN stays where it knows nothing", "4.5856 (K = 1), 4.5930 (K = 2)"),
    Claim("floor", "no loss is below the conditional entropy of the requests", "genie 1.95 (K = 1), 2.42 (K = 2)"),
)


def cases(quick: bool) -> list[Case]:
    return setting.table_cases(IMAGES, [1, 2], quick)


def check(rows: list[Row]) -> list[Finding]:
    return [curves.early_lead(rows, IMAGES, "early", "loss"), _plateau(rows), _afa(rows), _floor(rows)]


def _plateau(rows: list[Row]) -> Finding:
    found = {
        f"K={k}": curves.settled(*setting.mean_curve(rows, setting.key("fcn", k, "osafl"), "loss"))
        for k in (1, 2)
        if curves.long_enough(rows, setting.key("fcn", k, "osafl"), ROUNDS)
    }
    return curves.when("plateau", found, PLATEAU, MARGIN, "within 2 % of its least loss")


def _afa(rows: list[Row]) -> Finding:
    held, words = {}, []
    for k in (1, 2):
        name = setting.key("fcn", k, "m_afa_cd")
        if curves.long_enough(rows, name, ROUNDS):
            final = setting.values(rows, name, lambda row: float(row["loss"][-1]))
            held[f"K={k}"] = bool(abs(final.mean() - np.log(setting.N_FILES)) <= AFA_NEAR)
            words.append(f"K={k} {spread(final)}")
    return judged("afa", f"last round: {', '.join(words)}", held, f"within {AFA_NEAR} of ln 100 = 4.605")


def _floor(rows: list[Row]) -> Finding:
    held, words = {}, []
    for model in IMAGES:
        for k in (1, 2):
            if not setting.ran(rows, model, k, ["central"]):
                continue
            over = setting.values(
                rows,
                setting.key(model, k, "central"),
                lambda row, k=k: float(np.nanmin(row["loss"])) - setting.ceiling(k, row["seed"]).loss,
            )
            held[f"{setting.MODELS[model].title} K={k}"] = bool(over.mean() >= -FLOOR_SLACK)
            words.append(f"{setting.MODELS[model].title} K={k} {over.mean():+.3f}")
    ours = f"least loss of the genie minus the floor of the draw: {', '.join(words)}"
    return judged("floor", ours, held, f"not more than {FLOOR_SLACK} below it")


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
