"""Figure 3.4: accuracy over rounds of scheduling by representativity and its baselines on CIFAR-10.

With momentum 0.9 as published, and with 10 devices and m = 2 also without.
"""

from functools import partial

from representativity_policies import OTHERS, OURS, best, cases, classes, fewer, gains, key, lead, plot, steady
from representativity_setting import PLAIN, STORE

from fedcell.experiment import Claim, Experiment, Finding, Row, main

DATA = "cifar"
GAINS = {(2, 10): 0.0402, (2, 20): 0.018, (3, 10): 0.0206, (3, 20): 0.0144}
OVER = {2: ("RS",), 3: OTHERS}  # whom the text compares with


def check(rows: list[Row]) -> list[Finding]:
    found = [best(rows, DATA, m) for m in OVER]
    found += [gains(rows, DATA, m, n, printed, OVER[m]) for (m, n), printed in GAINS.items()]
    found += [classes(rows, DATA), fewer(rows, DATA), steady(rows, DATA)]
    ours, random = (key(DATA, 2, policy, 10, plain=True) for policy in (OURS, "RS"))
    return [*found, lead(rows, f"m2 gain10{PLAIN}", DATA, ours, [random], GAINS[2, 10])]


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
        Claim("steady", "no run by representativity collapses, on any seed", "-", "check"),
        Claim("m2 gain10 no momentum", "m = 2: lead over RS with 10 devices, without momentum", "4.02 points"),
    ),
    cases=partial(cases, DATA),
    plot=partial(plot, data=DATA, printed=GAINS),
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
