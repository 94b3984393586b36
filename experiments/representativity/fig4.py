"""Figure 3.4: accuracy over rounds of scheduling by representativity and its baselines on CIFAR-10."""

from functools import partial

from representativity_policies import OTHERS, best, cases, classes, fewer, gain, plot, ran
from representativity_setting import STORE

from fedcell.experiment import Claim, Experiment, Finding, Row, main

DATA = "cifar"


def check(rows: list[Row]) -> list[Finding]:
    found, there = [], {m for m in (2, 3) if ran(rows, DATA, m)}
    if 2 in there:
        found += [best(rows, DATA, 2), gain(rows, DATA, 2, 10, 0.0402), gain(rows, DATA, 2, 20, 0.018)]
    if 3 in there:
        found += [best(rows, DATA, 3)]
        found += [gain(rows, DATA, 3, n, printed, OTHERS) for n, printed in ((10, 0.0206), (20, 0.0144))]
    return found + ([classes(rows, DATA), fewer(rows, DATA)] if there == {2, 3} else [])


EXPERIMENT = Experiment(
    title="Figure 3.4: representativity-aware scheduling on CIFAR-10",
    claims=(
        Claim("m2 best", "m = 2: at least as accurate as RS, PC and Max-GNS with 10 and 20 devices", "curves"),
        Claim("m2 gain10", "m = 2: lead over RS with 10 devices", "4.02 points"),
        Claim("m2 gain20", "m = 2: lead over RS with 20 devices", "1.8 points"),
        Claim("m3 best", "m = 3: at least as accurate as RS, PC and Max-GNS with 10 and 20 devices", "curves"),
        Claim("m3 gain10", "m = 3: lead over the best of the three benchmarks with 10 devices", "2.06 points"),
        Claim("m3 gain20", "m = 3: lead over the best of the three benchmarks with 20 devices", "1.44 points"),
        Claim("classes", "every policy is better with m = 3 than with m = 2", "curves"),
        Claim(
            "fewer", "the lead is larger with fewer devices and fewer classes", "4.02, 1.8 (m = 2); 2.06, 1.44 (m = 3)"
        ),
    ),
    cases=partial(cases, DATA),
    plot=partial(plot, data=DATA),
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
