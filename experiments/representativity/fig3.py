"""Figure 3.3: accuracy over rounds of scheduling by representativity and its baselines on MNIST."""

from functools import partial

from representativity_policies import (
    GAMMA,
    as_good_but_sooner,
    best,
    cases,
    classes,
    closer,
    fewer,
    gains,
    key,
    lead,
    plot,
    sooner,
    steady,
    to_central,
)
from representativity_setting import STORE

from fedcell.experiment import Claim, Experiment, Finding, Row, main

DATA = "mnist"
GAINS = {(2, 10): 0.067, (3, 10): 0.0473, (3, 20): 0.044}
GAPS = {2: 0.041, 3: 0.034}


def check(rows: list[Row]) -> list[Finding]:
    found = [gains(rows, DATA, m, n, printed) for (m, n), printed in GAINS.items()]
    found += [best(rows, DATA, m) for m in GAPS] + [to_central(rows, DATA, m, printed) for m, printed in GAPS.items()]
    found += [sooner(rows, DATA, 2, 10), as_good_but_sooner(rows, DATA, 2, 20)]
    found += [classes(rows, DATA), closer(rows, DATA), fewer(rows, DATA), steady(rows, DATA)]
    for m in GAPS:
        ours, random = key(DATA, m, GAMMA, 10), key(DATA, m, "RS", 10)
        found.append(lead(rows, f"m{m} gain10 gamma", DATA, ours, [random], GAINS[m, 10]))
    return [*found, steady(rows, DATA, "steady gamma", GAMMA)]


EXPERIMENT = Experiment(
    title="Figure 3.3: representativity-aware scheduling on MNIST",
    claims=(
        Claim("m2 best", "m = 2: at least as accurate as RS, PC and Max-GNS with 10 and 20 devices", "curves"),
        Claim("m2 gain10", "m = 2: lead over RS with 10 devices", "6.7 points"),
        Claim("m2 early10", "m = 2, 10 devices: converges faster than RS", "stated; no numbers"),
        Claim("m2 faster", "m = 2, 20 devices: about as accurate in the end as RS, but sooner", "stated; no numbers"),
        Claim("m2 central", "m = 2: gap to centralised training", "4.1 points; the number of devices is not said"),
        Claim("m3 best", "m = 3: at least as accurate as RS, PC and Max-GNS with 10 and 20 devices", "curves"),
        Claim("m3 gain10", "m = 3: lead over RS with 10 devices", "4.73 points"),
        Claim("m3 gain20", "m = 3: lead over RS with 20 devices", "4.4 points"),
        Claim("m3 central", "m = 3: gap to centralised training", "3.4 points"),
        Claim("classes", "every policy is better with m = 3 than with m = 2", "curves"),
        Claim("closer", "the gap to centralised training shrinks from m = 2 to m = 3", "4.1 to 3.4 points"),
        Claim("fewer", "the lead over RS is larger with fewer devices and fewer classes", "6.7 against 4.73 and 4.4"),
        Claim("steady", "no run by representativity collapses, on any seed", "-", "check"),
        Claim("m2 gain10 gamma", "m = 2: lead over RS with 10 devices, weighed by whom they stand for", "6.7 points"),
        Claim("m3 gain10 gamma", "m = 3: lead over RS with 10 devices, weighed by whom they stand for", "4.73 points"),
        Claim("steady gamma", "no run weighed by whom devices stand for collapses, on any seed", "-", "check"),
    ),
    cases=partial(cases, DATA),
    plot=partial(plot, data=DATA, printed=GAINS),
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
