"""Figure 3.3: accuracy over rounds of scheduling by representativity and its baselines on MNIST."""

from functools import partial

from representativity_policies import (
    best,
    cases,
    classes,
    closer,
    fewer,
    gain,
    plot,
    ran,
    sooner,
    to_central,
)
from representativity_setting import STORE

from fedcell.experiment import Claim, Experiment, Finding, Row, main
from fedcell.experiment.judging import missing

DATA = "mnist"


def check(rows: list[Row]) -> list[Finding]:
    found, there = [], {m for m in (2, 3) if ran(rows, DATA, m)}
    with_central = not missing(rows, [f"{DATA}/Centralised"])
    if 2 in there:
        found += [best(rows, DATA, 2), gain(rows, DATA, 2, 10, 0.067), sooner(rows, DATA, 2, 20)]
        found += [to_central(rows, DATA, 2, 0.041)] if with_central else []
    if 3 in there:
        found += [best(rows, DATA, 3), gain(rows, DATA, 3, 10, 0.0473), gain(rows, DATA, 3, 20, 0.044)]
        found += [to_central(rows, DATA, 3, 0.034)] if with_central else []
    if there == {2, 3}:
        found += [classes(rows, DATA), fewer(rows, DATA)] + ([closer(rows, DATA)] if with_central else [])
    return found


EXPERIMENT = Experiment(
    title="Figure 3.3: representativity-aware scheduling on MNIST",
    claims=(
        Claim("m2 best", "m = 2: at least as accurate as RS, PC and Max-GNS with 10 and 20 devices", "curves"),
        Claim("m2 gain10", "m = 2: lead over RS with 10 devices", "6.7 points"),
        Claim("m2 faster", "m = 2, 20 devices: about as accurate in the end as RS, but sooner", "stated; no numbers"),
        Claim("m2 central", "m = 2: gap to centralised training", "4.1 points; the number of devices is not said"),
        Claim("m3 best", "m = 3: at least as accurate as RS, PC and Max-GNS with 10 and 20 devices", "curves"),
        Claim("m3 gain10", "m = 3: lead over RS with 10 devices", "4.73 points"),
        Claim("m3 gain20", "m = 3: lead over RS with 20 devices", "4.4 points"),
        Claim("m3 central", "m = 3: gap to centralised training", "3.4 points"),
        Claim("classes", "every policy is better with m = 3 than with m = 2", "curves"),
        Claim("closer", "the gap to centralised training shrinks from m = 2 to m = 3", "4.1 to 3.4 points"),
        Claim("fewer", "the lead over RS is larger with fewer devices and fewer classes", "6.7 against 4.73 and 4.4"),
    ),
    cases=partial(cases, DATA),
    plot=partial(plot, data=DATA),
    check=check,
    store=STORE,
)

if __name__ == "__main__":
    main(EXPERIMENT)
