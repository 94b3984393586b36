"""Figure 3.5: accuracy over simulated time of the three policies on MNIST, over a grid of weights."""

from functools import partial

from representativity_setting import CLASSES, STORE
from representativity_times import GRIDS, ahead_of_both, cases, easier, plot, saving, size, weights, worst

from fedcell.experiment import Claim, Experiment, Finding, Row, main

DATA, MARKED = "mnist", 0.3
PRINTED = {(2, 0.80): 0.345, (2, 0.85): 0.43, (3, 0.80): 0.188, (3, 0.85): 0.163}
BOTH = ("Representativity", "Latency")
RIVALS = {(2, 0.80): ("Representativity",)}  # the policy that the text names; else both


def check(rows: list[Row]) -> list[Finding]:
    found = [ahead_of_both(rows, DATA, m, f"m{m} fastest") for m in CLASSES]
    found += [ahead_of_both(rows, DATA, m, f"m{m} fastest sum", GRIDS[DATA].printed) for m in CLASSES]
    for (m, target), printed in PRINTED.items():
        rivals = RIVALS.get((m, target), BOTH)
        found += [saving(rows, DATA, m, target, printed, rivals, marked) for marked in (None, MARKED)]
    return [*found, easier(rows, DATA), worst(rows, DATA), weights(rows, DATA), size(rows, DATA)]


EXPERIMENT = Experiment(
    title="Figure 3.5: accuracy over time on MNIST",
    claims=(
        Claim("m2 fastest", "m = 2: the L&R-aware policy is the fastest", "curves"),
        Claim(
            "m2 to80", "m = 2: time to 80 %, L&R-aware against representativity-aware", "53 s and 81 s, 34.5 % saved"
        ),
        Claim("m2 to85", "m = 2: time saved to 85 % against both other policies", "at least 43 %"),
        Claim("m3 fastest", "m = 3: the L&R-aware policy is the fastest", "curves"),
        Claim("m3 to80", "m = 3: time saved to 80 %", "18.8 %"),
        Claim("m3 to85", "m = 3: time saved to 85 %", "16.3 %"),
        Claim("classes", "every policy is faster with m = 3 than with m = 2", "curves"),
        Claim("worst", "with the worst pair of weights the L&R-aware policy still beats the other two", "curves"),
        Claim("weights", "rho1 < rho2 works better", "stated; no numbers"),
        Claim("size", "more devices are scheduled the larger rho1 / rho2 is", "stated; no numbers"),
        Claim("m2 fastest sum", "m = 2: the L&R-aware policy is the fastest, with H as printed", "curves"),
        Claim("m3 fastest sum", "m = 3: the L&R-aware policy is the fastest, with H as printed", "curves"),
        *(
            Claim(
                f"m{m} to{100 * target:.0f} marked",
                f"m = {m}: time saved to {target:.0%} with the pair (0.3, 1)",
                f"{printed:.1%}",
            )
            for (m, target), printed in PRINTED.items()
        ),
    ),
    cases=partial(cases, DATA),
    plot=partial(plot, data=DATA, printed=((2, 53, 0.8, "L&R"), (2, 81, 0.8, "Representativity"))),
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
