"""Figure 3.6: accuracy over simulated time of the three policies on CIFAR-10, over a grid of weights."""

from functools import partial

from representativity_setting import CLASSES, STORE
from representativity_times import GRIDS, ahead_of_both, cases, plot, saving, size, weights, worst

from fedcell.experiment import Claim, Experiment, Finding, Row, main

DATA = "cifar"
PRINTED = {(2, 0.60): 0.12, (3, 0.60): 0.185, (3, 0.65): 0.184}


def check(rows: list[Row]) -> list[Finding]:
    found = [ahead_of_both(rows, DATA, m, f"m{m} fastest") for m in CLASSES]
    found.append(ahead_of_both(rows, DATA, 2, "m2 fastest sum", GRIDS[DATA].printed))
    found += [saving(rows, DATA, m, target, printed) for (m, target), printed in PRINTED.items()]
    return [*found, worst(rows, DATA), weights(rows, DATA), size(rows, DATA)]


EXPERIMENT = Experiment(
    title="Figure 3.6: accuracy over time on CIFAR-10",
    claims=(
        Claim("m2 fastest", "m = 2: the L&R-aware policy is the fastest", "curves"),
        Claim("m2 to60", "m = 2: time to 60 %, as a share of that of the others", "at most 88 %"),
        Claim("m3 fastest", "m = 3: the L&R-aware policy is the fastest", "curves"),
        Claim("m3 to60", "m = 3: time saved to 60 %", "18.5 %"),
        Claim("m3 to65", "m = 3: time saved to 65 %", "18.4 %"),
        Claim("worst", "with the worst pair of weights the L&R-aware policy still beats the other two", "curves"),
        Claim("weights", "rho1 < rho2 works better", "stated; no numbers"),
        Claim("size", "more devices are scheduled the larger rho1 / rho2 is", "stated; no numbers"),
        Claim("m2 fastest sum", "m = 2: the L&R-aware policy is the fastest, with H as printed", "curves"),
    ),
    cases=partial(cases, DATA),
    plot=partial(plot, data=DATA),
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
